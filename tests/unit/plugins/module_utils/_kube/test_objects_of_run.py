"""Deletions of what was looked at: another object of the same name is kept."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import objects_of_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from object_store import ObjectStore
from scripted_server import status_object

PLUGINS = Path(__file__).parents[5] / "plugins"
RUN = "t1129-aaaaaa"
OURS = {run_labels.RUN: RUN}
CONFIG_MAP = ServedKind("v1", "ConfigMap", "configmaps", True)


def test_an_object_that_was_looked_at_is_deleted_once(tmp_path: Path) -> None:
    store = ObjectStore()
    seen = store.put("v1", "ConfigMap", "mine", "ns")["metadata"]
    with store.client(tmp_path) as client:
        assert client.delete_seen(CONFIG_MAP, seen) and not client.delete_seen(CONFIG_MAP, seen)


def test_a_later_object_of_the_same_name_is_kept(tmp_path: Path) -> None:
    store = ObjectStore()
    seen = store.put("v1", "ConfigMap", "mine", "ns")["metadata"]
    store.put("v1", "ConfigMap", "mine", "ns")
    with store.client(tmp_path) as client:
        assert not client.delete_seen(CONFIG_MAP, seen)
    assert store.titles() == ["ConfigMap mine"]


def test_without_a_uid_nothing_is_deleted(tmp_path: Path) -> None:
    store = ObjectStore()
    seen = store.put("v1", "ConfigMap", "mine", "ns")["metadata"]
    del seen["uid"]
    with store.client(tmp_path) as client, pytest.raises(AccessError, match="DELETE .*/mine .* without 'uid'"):
        client.delete_seen(CONFIG_MAP, seen)
    assert store.deleted == []


def test_other_refusals_of_a_deletion_are_errors(tmp_path: Path) -> None:
    store = ObjectStore()
    seen = store.put("v1", "ConfigMap", "mine", "ns")["metadata"]
    store.before = lambda method, _path: (403, status_object(403, "Forbidden", "no")) if method == "DELETE" else None
    with store.client(tmp_path) as client, pytest.raises(ApiError):
        client.delete_seen(CONFIG_MAP, seen)


@pytest.mark.parametrize(("labels", "deleted"), [(OURS, True), ({}, False), ({run_labels.RUN: "t1129-b"}, False)])
def test_an_object_of_a_name_is_deleted_only_with_the_label_of_the_run(
    labels: dict[str, str], deleted: bool, tmp_path: Path
) -> None:
    store = ObjectStore()
    store.put("v1", "ConfigMap", "mine", "ns", labels=labels)
    with store.client(tmp_path) as client:
        assert objects_of_run.delete_object_of_run(client, CONFIG_MAP, "mine", "ns", RUN) is deleted
        assert not objects_of_run.delete_object_of_run(client, CONFIG_MAP, "none", "ns", RUN)
    assert (store.titles() == []) is deleted


def test_an_object_that_another_run_has_replaced_since_the_look_is_kept(tmp_path: Path) -> None:
    store = ObjectStore()
    store.put("v1", "ConfigMap", "mine", "ns", labels=OURS)

    def before(method: str, path: str) -> Any:
        if method == "DELETE":
            store.put("v1", "ConfigMap", "mine", "ns", labels=OURS)
        return None

    store.before = before
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine", "namespace": "ns"}}
    with store.client(tmp_path) as client:
        assert not objects_of_run.delete_object_of_run(client, CONFIG_MAP, "mine", "ns", RUN)
        assert objects_of_run.delete_manifests_of_run(client, [manifest], RUN) == []
        assert objects_of_run.delete_manifests_of_run(client, [manifest], RUN, check=True) == ["ConfigMap mine"]
    assert store.titles() == ["ConfigMap mine"]


def test_only_a_pod_deletes_by_name_its_own_secret_which_it_may_not_read() -> None:
    found = {
        path.name
        for path in PLUGINS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "delete" and "client" in ast.unparse(node.value)
    }
    assert found == {"pod_main.py"}
