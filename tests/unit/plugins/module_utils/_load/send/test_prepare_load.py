# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the objects that workloads share count as ready."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import OwnershipError, WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.prepare_load import (
    check_templates_in_dry_run,
    create_shared_objects,
)
from scripted_server import Asked, ScriptedServer

POOL = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "pool", "namespace": "ns"}}


@pytest.mark.parametrize("written", [True, False])
def test_an_expression_that_can_not_be_evaluated_yet_is_waited_for(written: bool, tmp_path: Path) -> None:
    live: dict[str, Any] = dict(POOL)
    said: list[str] = []

    def answer(asked: Asked) -> Any:
        if asked.path == "/api/v1":
            return 200, {"resources": [{"kind": "ConfigMap", "name": "configmaps", "namespaced": True}]}
        return 200, live

    def say(text: str) -> None:
        said.append(text)
        if written:  # after the first look, which has found no status
            live["status"] = {"conditions": ["Ready"]}

    condition = {"kind": "ConfigMap", "jmespath": "length(status.conditions) > `0`", "timeout": 60 if written else 0.5}
    template: Any = SimpleNamespace(template=SimpleNamespace(name="claim", ready=[condition]), shared=[POOL])
    with ScriptedServer(answer) as server:
        client = Client.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig"))
        if written:
            create_shared_objects(client, [template], 1.0, say)
        else:
            with pytest.raises(WaitTimeout, match=r"pool.*can't be evaluated yet: .* after 0.5 s"):
                create_shared_objects(client, [template], 1.0, say)
        client.close()
    assert "pool" in said[0] and "can't be evaluated yet" in said[0]


@pytest.mark.parametrize("kept", [True, False])
def test_a_load_is_refused_whose_label_a_webhook_takes(kept: bool, tmp_path: Path) -> None:
    """The sampler would not see its workloads, and no clean-up would find them."""
    labels = {"perfscale.seatrial/run": "t1129-aaaaaa"} if kept else {}

    def answer(_asked: Asked) -> Any:
        return 201, {"kind": "Pod", "metadata": {"name": "p", "labels": labels}}

    sent = {"kind": "Pod", "metadata": {"name": "p", "labels": {"perfscale.seatrial/run": "t1129-aaaaaa"}}}
    document = SimpleNamespace(
        kind="Pod",
        path=lambda _index: "/api/v1/namespaces/ns/pods",
        body=lambda _index: b"{}",
        manifest=lambda _n: sent,
    )
    template: Any = SimpleNamespace(template=SimpleNamespace(name="pod"), documents=[document], first=0, shared=[])
    request: Any = SimpleNamespace(retry_time=1.0)
    with (
        ScriptedServer(answer) as server,
        Client.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig")) as client,
    ):
        if kept:
            check_templates_in_dry_run(client, [template], request)
        else:
            with pytest.raises(OwnershipError, match="takes the label perfscale.seatrial/run from Pod p"):
                check_templates_in_dry_run(client, [template], request)
        assert ["dryRun=All" in asked.path for asked in server.asked] == [True]
