# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated GPUs as devices: complete pools owned by their nodes, partitions that never exceed their GPU."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import parse_kube_quantity
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import simulated_gpu_slices
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu.simulated_gpu_slices import (
    DeviceShape,
    GpuPartition,
    GpuPartitioning,
)
from hypothesis import given
from hypothesis import strategies as st

NODE = {"metadata": {"name": "fake-gpu-0000", "uid": "node-uid"}}
MIG = (GpuPartition("1g.10gb", 1, 10240), GpuPartition("3g.40gb", 3, 40960), GpuPartition("7g.80gb", 7, 81920))


def slices(shape: DeviceShape) -> list[dict[str, Any]]:
    return simulated_gpu_slices.node_slices(shape, NODE, {"run": "t1"})


def devices_of(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [device for one in made for device in one["spec"].get("devices", [])]


def capacity_of(made: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """Return what there is of each counter of each set."""
    return {
        (counters["name"], name): parse_kube_quantity(counter["value"])
        for one in made
        for counters in one["spec"].get("sharedCounters", [])
        for name, counter in counters["counters"].items()
    }


def taken_by(device: dict[str, Any]) -> dict[tuple[str, str], float]:
    (consumed,) = device["consumesCounters"]
    return {
        (consumed["counterSet"], name): parse_kube_quantity(counter["value"])
        for name, counter in consumed["counters"].items()
    }


def allocate(made: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those of the devices that a scheduler allocates which reads nothing but the counters."""
    left, allocated = capacity_of(made), []
    for device in wanted:
        taken = taken_by(device)
        if all(left[counter] >= amount for counter, amount in taken.items()):
            allocated.append(device)
            for counter, amount in taken.items():
                left[counter] -= amount
    return allocated


@given(st.integers(0, 700))
def test_each_gpu_is_one_device_of_a_complete_pool(gpus: int) -> None:
    made = slices(DeviceShape(gpus, "A100", 81920))
    assert [device["name"] for device in devices_of(made)] == [f"gpu-{number}" for number in range(gpus)]
    assert all(0 < len(one["spec"]["devices"]) <= 128 for one in made)
    assert {one["spec"]["pool"]["resourceSliceCount"] for one in made} <= {len(made)}
    assert len({one["metadata"]["name"] for one in made}) == len(made)
    assert all(one["metadata"]["ownerReferences"][0]["uid"] == "node-uid" for one in made)
    assert not any("consumesCounters" in device for device in devices_of(made))


@given(st.data())
def test_devices_that_the_counters_allow_never_take_more_than_their_gpu_has(data: st.DataObject) -> None:
    slices_of_gpu, memory = data.draw(st.integers(1, 16)), data.draw(st.integers(1, 200_000))
    kinds = [
        GpuPartition(f"p{place}", data.draw(st.integers(1, slices_of_gpu)), data.draw(st.integers(1, memory)))
        for place in range(data.draw(st.integers(1, 3)))
    ]
    partitioning = GpuPartitioning(slices_of_gpu, tuple(kinds))
    partitioning.check(memory)
    gpus = data.draw(st.integers(1, 12))
    made = slices(DeviceShape(gpus, "A100", memory, partitioning))
    # What the API server accepts.
    assert len({one["metadata"]["name"] for one in made}) == len(made)
    assert {one["spec"]["pool"]["resourceSliceCount"] for one in made} == {len(made)}
    assert all(("devices" in one["spec"]) != ("sharedCounters" in one["spec"]) for one in made)
    assert all(1 <= len(one["spec"].get("devices", [0])) <= 64 for one in made)
    assert all(1 <= len(one["spec"].get("sharedCounters", [0])) <= 8 for one in made)
    devices = devices_of(made)
    assert len({device["name"] for device in devices}) == len(devices)
    assert all(len(device["name"]) <= 63 and "." not in device["name"] for device in devices)
    # The sizes of the devices themselves, whatever they take of counters.
    held: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for device in allocate(made, data.draw(st.permutations(devices))):
        attributes = device["attributes"]
        if attributes["type"]["string"] == "gpu":
            sizes, number = [float(slices_of_gpu), float(memory)], attributes["index"]["int"]
        else:
            (kind,) = (kind for kind in kinds if kind.profile == attributes["profile"]["string"])
            sizes, number = [float(kind.slices), float(kind.memory_mib)], attributes["parentIndex"]["int"]
        held[number] = [before + size for before, size in zip(held[number], sizes, strict=True)]
    assert set(held) <= set(range(gpus))
    assert all(used[0] <= slices_of_gpu and used[1] <= memory for used in held.values())
    # As many of each kind as there is room for.
    for kind in kinds:
        alike = [device for device in devices if device["attributes"].get("profile") == {"string": kind.profile}]
        each = len(alike) // gpus
        assert len(allocate(made, alike)) == len(alike) == each * gpus
        assert each * kind.slices <= slices_of_gpu and each * kind.memory_mib <= memory
        assert (each + 1) * kind.slices > slices_of_gpu or (each + 1) * kind.memory_mib > memory


def test_a_gpu_has_the_partitions_that_nvidia_offers_and_they_exclude_each_other() -> None:
    made = slices(DeviceShape(1, "A100", 81920, GpuPartitioning(7, MIG)))
    devices = {device["name"]: device for device in devices_of(made)}
    assert list(devices) == [
        "gpu-0",
        *(f"gpu-0-1g-10gb-{place}" for place in range(7)),
        *(f"gpu-0-3g-40gb-{place}" for place in range(2)),
        "gpu-0-7g-80gb-0",
    ]
    one = devices["gpu-0-1g-10gb-6"]
    assert one["attributes"]["type"] == {"string": "mig"} and one["attributes"]["profile"] == {"string": "1g.10gb"}
    assert one["capacity"] == {"memory": {"value": "10240Mi"}, "slices": {"value": "1"}}

    def names(*wanted: str) -> list[str]:
        return [device["name"] for device in allocate(made, [devices[name] for name in wanted])]

    assert names("gpu-0", "gpu-0-1g-10gb-0", "gpu-0-7g-80gb-0") == ["gpu-0"]
    assert names("gpu-0-1g-10gb-0", "gpu-0") == ["gpu-0-1g-10gb-0"]
    # Two of 40 GiB take all of the memory, although a slice is left.
    assert names("gpu-0-3g-40gb-0", "gpu-0-3g-40gb-1", "gpu-0-1g-10gb-0") == ["gpu-0-3g-40gb-0", "gpu-0-3g-40gb-1"]


@pytest.mark.parametrize(
    ("partitions", "slices_of_gpu", "told"),
    [
        ((GpuPartition("8g", 8, 10240),), 7, "8g has slices 8, it must be 1 to 7"),
        ((GpuPartition("0g", 0, 10240),), 7, "0g has slices 0, it must be 1 to 7"),
        ((GpuPartition("1g", 1, 90000),), 7, "1g has memory_mib 90000, it must be 1 to 81920"),
        ((GpuPartition("1g/10gb", 1, 10240),), 7, "profile '1g/10gb' is not valid"),
        ((GpuPartition("x" * 33, 1, 10240),), 7, "is not valid"),
        ((GpuPartition("1g.10gb", 1, 10240), GpuPartition("1g-10gb", 1, 10240)), 7, "a name of its own"),
        ((GpuPartition("1g", 1, 10240),), 0, "fake_gpu_partition_slices is 0"),
    ],
)
def test_partitions_that_no_gpu_can_have_are_refused(
    partitions: tuple[GpuPartition, ...], slices_of_gpu: int, told: str
) -> None:
    with pytest.raises(InputError, match=told):
        GpuPartitioning(slices_of_gpu, partitions).check(81920)
