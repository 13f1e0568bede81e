# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module apply_manifests: objects are as wanted, a second call changes nothing, the saved file holds no secret."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import playbook
import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import server_side_apply
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from load_world import World

ANSIBLE = Path(sys.executable).parent / "ansible"


def config(namespace: str, **data: str) -> dict[str, Any]:
    """A ConfigMap in the namespace of the test."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "wanted", "namespace": namespace},
        "data": data,
    }


def found(client: Client, namespace: str, kind: str = "ConfigMap") -> dict[str, Any] | None:
    """The object, None if there is none."""
    return client.get(client.kind("v1", kind), "wanted", namespace)


def test_an_object_is_created_once_and_changed_where_it_differs(world: World) -> None:
    title, namespace = f"ConfigMap {world.namespace}/wanted", world.namespace
    first = server_side_apply.apply_manifests_with_diff(world.client, [config(namespace, a="1")])
    assert (first["changed"], first["applied"]) == (True, [title])
    assert first["diff"] == {"before": {}, "after": {title: config(namespace, a="1")}}

    again = server_side_apply.apply_manifests_with_diff(world.client, [config(namespace, a="1")])
    assert again == {"changed": False, "applied": [], "diff": {"before": {}, "after": {}}}

    other = server_side_apply.apply_manifests_with_diff(world.client, [config(namespace, a="2")])
    assert other["applied"] == [title]
    assert (other["diff"]["before"][title]["data"], other["diff"]["after"][title]["data"]) == ({"a": "1"}, {"a": "2"})
    assert (found(world.client, namespace) or {})["data"] == {"a": "2"}


def test_fields_of_others_stay(world: World) -> None:
    made = config(world.namespace, theirs="1", shared="1")
    world.client.create(made)
    assert server_side_apply.apply_manifests_with_diff(world.client, [config(world.namespace, ours="1", shared="2")])[
        "changed"
    ]
    assert (found(world.client, world.namespace) or {})["data"] == {"theirs": "1", "shared": "2", "ours": "1"}


def test_check_mode_changes_nothing_also_in_a_namespace_that_is_created_before(world: World) -> None:
    absent = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{world.namespace}-absent"}}
    wanted = [config(world.namespace, a="1"), absent, config(f"{world.namespace}-absent", a="1")]
    assert len(server_side_apply.apply_manifests_with_diff(world.client, wanted, check=True)["applied"]) == 3
    assert found(world.client, world.namespace) is None
    assert world.client.get(world.client.kind("v1", "Namespace"), f"{world.namespace}-absent") is None

    server_side_apply.apply_manifests_with_diff(world.client, wanted[:1])
    assert not server_side_apply.apply_manifests_with_diff(world.client, wanted[:1], check=True)["changed"]
    assert server_side_apply.apply_manifests_with_diff(world.client, [config(world.namespace, a="2")], check=True)[
        "changed"
    ]
    assert (found(world.client, world.namespace) or {})["data"] == {"a": "1"}


def test_an_unknown_kind_and_what_the_server_refuses_are_errors(world: World) -> None:
    with pytest.raises(InputError, match="Confgmap"):
        server_side_apply.apply_manifests_with_diff(world.client, [{**config(world.namespace), "kind": "Confgmap"}])
    with pytest.raises(ApiError, match="not found"):
        server_side_apply.apply_manifests_with_diff(world.client, [config(f"{world.namespace}-absent", a="1")])


def test_the_module_saves_a_secret_without_its_values(world: World, tmp_path: Path) -> None:
    secret = {**config(world.namespace), "kind": "Secret", "stringData": {"key": "CANARY"}}
    secret.pop("data")
    given = {"kubeconfig": world.kubeconfig, "step_dir": str(tmp_path), "name": "prepare", "definitions": [secret]}
    command = [str(ANSIBLE), "localhost", "--diff", "-m", "perfscale.seatrial.apply_manifests", "-a", json.dumps(given)]
    done = subprocess.run(
        command,
        cwd=playbook.ROOT,
        env=playbook.environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    shown = done.stdout.partition('"invocation"')[0]
    assert "CANARY" not in shown
    saved = (tmp_path / "src" / "prepare.yml").read_text(encoding="utf-8")
    assert "CANARY" not in saved and yaml.safe_load(saved)["stringData"] == {"key": "<secret>"}
    assert "applied Secret" in (tmp_path / "log").read_text(encoding="utf-8")
    assert (found(world.client, world.namespace, "Secret") or {})["data"] == {"key": "Q0FOQVJZ"}


def test_what_a_later_manifest_lacks_is_removed_from_an_object_that_was_created(world: World) -> None:
    namespace = world.namespace
    server_side_apply.apply_manifests_with_diff(world.client, [config(namespace, a="1", b="2")])
    assert (found(world.client, namespace) or {})["data"] == {"a": "1", "b": "2"}
    server_side_apply.apply_manifests_with_diff(world.client, [config(namespace, a="1")])
    stored = found(world.client, namespace) or {}
    assert stored["data"] == {"a": "1"}
    assert [row["operation"] for row in stored["metadata"]["managedFields"]] == ["Apply"]
