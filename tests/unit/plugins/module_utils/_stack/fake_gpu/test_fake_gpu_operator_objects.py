"""The objects of the fake-gpu-operator, and what is refused before any of them is created."""

from __future__ import annotations

import json

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_gpu_operator
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu.fake_gpu_operator import (
    FakeGpuOperatorSpec,
    NodePool,
)

POOLS = (NodePool("a100", "gpu=a100"), NodePool("t4", "gpu=t4", gpus=1, product="Tesla-T4", memory_mib=15360))


def test_the_topology_has_every_pool_and_no_product_names_a_real_gpu() -> None:
    objects = fake_gpu_operator.operator_manifests(FakeGpuOperatorSpec(POOLS), "run-0001")
    (config,) = [one for one in objects if one["kind"] == "ConfigMap"]
    assert json.loads(config["data"]["topology.yml"]) == {
        "nodePoolLabelKey": "run.ai/simulated-gpu-node-pool",
        "migStrategy": "none",
        "nodePools": {
            "a100": {"gpuProduct": "simulated-NVIDIA-A100-SXM4-80GB", "gpuCount": 8, "gpuMemory": 81920},
            "t4": {"gpuProduct": "simulated-Tesla-T4", "gpuCount": 1, "gpuMemory": 15360},
        },
    }
    assert POOLS[1].labels() == {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": "1",
        "nvidia.com/gpu.product": "simulated-Tesla-T4",
        "nvidia.com/gpu.memory": "15360",
        "run.ai/simulated-gpu-node-pool": "t4",
    }


def test_images_are_pinned_and_from_the_given_registry_and_every_object_belongs_to_the_run() -> None:
    objects = fake_gpu_operator.operator_manifests(
        FakeGpuOperatorSpec(POOLS, "0.2.0", "registry.invalid/mirror/"), "run-0001"
    )
    pods = [one["spec"]["template"]["spec"] for one in objects if one["kind"] in ("Deployment", "DaemonSet")]
    assert [one["containers"][0]["image"] for one in pods] == [
        "registry.invalid/mirror/status-updater:0.2.0",
        "registry.invalid/mirror/device-plugin:0.2.0",
    ]
    assert all(one["metadata"]["labels"]["perfscale.seatrial/run"] == "run-0001" for one in objects)
    assert objects[0]["kind"] == "Namespace", "the others need it, and it is removed last"
    accounts = {one["metadata"]["name"] for one in objects if one["kind"] == "ServiceAccount"}
    assert {one["serviceAccountName"] for one in pods} == accounts


@pytest.mark.parametrize(
    ("pools", "words"),
    [
        ((NodePool("A", "x=y"),), "pool 'A': the name must be"),
        ((NodePool("a", "x=y"), NodePool("a", "x=z")), "pool 'a': two pools have this name"),
        ((NodePool("a", ""),), "pool 'a': it needs node_selector"),
        ((NodePool("a", "x=y", gpus=0),), "pool 'a': gpus is 0, at least 1"),
        ((NodePool("a", "x=y", memory_mib=-1),), "pool 'a': memory_mib is -1, at least 1"),
    ],
)
def test_an_invalid_pool_is_named(pools: tuple[NodePool, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        FakeGpuOperatorSpec(pools).check()


def test_an_empty_version_is_refused() -> None:
    with pytest.raises(InputError, match="fake_gpu_operator_version"):
        FakeGpuOperatorSpec(POOLS, version="").check()
