# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ResourceSlices of simulated nodes: no write where nothing changes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import (
    advertised_gpus,
    simulated_gpu_slices,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu.simulated_gpu_slices import (
    DeviceShape,
    GpuPartition,
    GpuPartitioning,
)
from scripted_server import Asked, ScriptedServer

NODE = {"metadata": {"name": "fake-gpu-0000", "uid": "node-uid"}}
LABELS = advertised_gpus.slice_labels("fake-gpu", "t1")


def slices(gpus: int, node: dict[str, Any] = NODE, *partitions: GpuPartition) -> list[dict[str, Any]]:
    return simulated_gpu_slices.node_slices(
        DeviceShape(gpus, "A100", 81920, GpuPartitioning(7, partitions)), node, LABELS
    )


def test_only_what_differs_is_written() -> None:
    wanted, other_node = slices(8), {"metadata": {"name": "fake-gpu-0000", "uid": "later"}}
    same = advertised_gpus.compute_slice_changes(wanted, wanted)
    assert (same.create, same.remove) == ([], [])
    # A node that was created again under its name, another shape, and no devices any more.
    for present, create in ((slices(8, other_node), wanted), (slices(4), wanted), (wanted, [])):
        changes = advertised_gpus.compute_slice_changes(create, present)
        assert (changes.create, changes.remove) == (create, ["fake-gpu-0000-gpu-0"])


def test_counters_in_another_unit_are_the_same_and_other_partitions_are_not() -> None:
    seventh, half = GpuPartition("1g.10gb", 1, 10240), GpuPartition("3g.40gb", 3, 40960)
    wanted = slices(1, NODE, seventh)
    stored = copy.deepcopy(wanted)
    stored[0]["spec"]["sharedCounters"][0]["counters"]["memory"]["value"] = "80Gi"
    for device in stored[1]["spec"]["devices"]:
        (consumed,) = device["consumesCounters"]
        memory = consumed["counters"]["memory"]
        memory["value"] = {"81920Mi": "80Gi", "10240Mi": "10Gi"}[memory["value"]]
    same = advertised_gpus.compute_slice_changes(wanted, stored)
    assert (same.create, same.remove) == ([], [])
    more = advertised_gpus.compute_slice_changes(slices(1, NODE, seventh, half), stored)
    assert more.remove == ["fake-gpu-0000-gpu-0"] and len(more.create) == 1  # the counters of the GPU stay
    none = advertised_gpus.compute_slice_changes(slices(1), stored)
    assert none.remove == ["fake-gpu-0000-counters-0", "fake-gpu-0000-gpu-0"]


@pytest.mark.parametrize("kept", [True, False])
def test_partitions_are_published_only_where_the_server_stores_their_counters(kept: bool, tmp_path: Path) -> None:
    """An API server without the feature gate answers 201, and drops the fields."""
    served = {"name": "resourceslices", "kind": "ResourceSlice", "namespaced": False, "verbs": ["create", "list"]}

    def answer(asked: Asked) -> tuple[int, dict[str, Any]]:
        if asked.method == "GET":
            return 200, {"kind": "APIResourceList", "resources": [served]}
        manifest = json.loads(asked.body)
        if not kept:
            manifest["spec"].pop("sharedCounters", None)
        return 201, manifest

    def send_all(request: Any, items: list[Any]) -> None:
        for item in items:
            request(item)

    wanted = slices(1, NODE, GpuPartition("1g.10gb", 1, 10240))
    with ScriptedServer(answer) as server, Client.from_kubeconfig(server.kubeconfig(tmp_path / "k")) as client:
        changes = advertised_gpus.SliceChanges(wanted, [])
        if kept:
            advertised_gpus.apply_slices(client, changes, [], send_all)
        else:
            with pytest.raises(InputError, match="stores no counters of devices; they need Kubernetes 1.36"):
                advertised_gpus.apply_slices(client, changes, [], send_all)
        posts = ["dryRun=All" in asked.path for asked in server.asked if asked.method == "POST"]
    assert posts == ([True, False, False] if kept else [True])


def test_gpus_and_slices_of_others_stay_where_a_server_takes_no_notice_of_selectors(tmp_path: Path) -> None:
    real = {"metadata": {"name": "real", "labels": {"nvidia.com/gpu.count": "8"}}}
    mark = {"perfscale.seatrial/fake-gpus": "t1129-aaaaaa"}
    driver = {"metadata": {"name": "real-gpu.nvidia.com", "labels": {}}, "spec": {"driver": "gpu.nvidia.com"}}
    served = {"": {"nodes": "Node"}, "resource.k8s.io": {"resourceslices": "ResourceSlice"}}

    def answer(asked: Asked) -> tuple[int, dict[str, Any]]:
        path = asked.path.partition("?")[0]
        if asked.method == "PATCH":
            return 200, real
        if path.endswith("/nodes"):
            return 200, {"items": [real, {"metadata": {"name": "ours", "labels": mark}}], "metadata": {}}
        if path.endswith("/resourceslices"):
            return 200, {"items": [driver], "metadata": {}}
        group = "resource.k8s.io" if "resource.k8s.io" in path else ""
        rows = [
            {"name": name, "kind": kind, "namespaced": False, "verbs": ["list"]} for name, kind in served[group].items()
        ]
        return 200, {"kind": "APIResourceList", "resources": rows}

    with ScriptedServer(answer) as server, Client.from_kubeconfig(server.kubeconfig(tmp_path / "k")) as client:
        assert advertised_gpus.remove_gpus_from_node_status(client, "t1129-aaaaaa") == ["ours"]
        assert advertised_gpus.list_slices(client, "perfscale.seatrial/simulated=true") == []
        patched = [asked.path.partition("?")[0] for asked in server.asked if asked.method == "PATCH"]
    assert patched == ["/api/v1/nodes/ours/status", "/api/v1/nodes/ours"]
