# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated GPUs as devices in ResourceSlices: whole GPUs, and their partitions, such as a half or a seventh.

Each GPU has a set of counters (``sharedCounters`` of a ResourceSlice): its compute slices and its memory. The whole GPU
and each of its partitions is a device that takes a part of these counters (``consumesCounters``). The scheduler
allocates a device only if the counters have as much left, so partitions of a GPU exclude the whole GPU, and each other
when it is full. Where on a GPU a partition may begin is not modelled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

#: The API server accepts at most this many devices in a slice, devices that take counters, and sets of counters.
SLICE_DEVICES = 128
SLICE_PARTITIONED_DEVICES = 64
SLICE_COUNTER_SETS = 8
API_VERSION = "resource.k8s.io/v1"
#: The name of the driver, which selects the devices: device.driver == "gpu.perfscale.seatrial".
DRIVER = "gpu.perfscale.seatrial"
_PROFILE = re.compile(r"[a-z0-9]+([.+-][a-z0-9]+)*\Z")
_LONGEST_PROFILE = 32
#: GPUs of a simulated node that share a NUMA node.
NUMA_GPUS = 4


@dataclass(frozen=True)
class GpuPartition:
    """A kind of partition: its name, how many compute slices of the GPU it takes, and its memory in MiB."""

    profile: str
    slices: int
    memory_mib: int

    @property
    def device_name(self) -> str:
        """The profile as a part of the names of devices, which have no dots."""
        return re.sub(r"[.+]", "-", self.profile)


@dataclass(frozen=True)
class GpuPartitioning:
    """The compute slices of each GPU, and the partitions that it can be divided into; none for whole GPUs only."""

    slices: int = 7
    partitions: tuple[GpuPartition, ...] = ()

    def check(self, memory_mib: int) -> None:
        """Raise InputError for partitions that a GPU with this much memory cannot have."""
        if self.partitions and self.slices < 1:
            raise InputError(f"fake_gpu_partition_slices is {self.slices}, at least 1 is required")
        for partition in self.partitions:
            where = f"fake_gpu_partitions: {partition.profile}"
            if not _PROFILE.match(partition.profile) or len(partition.profile) > _LONGEST_PROFILE:
                raise InputError(
                    f"fake_gpu_partitions: profile '{partition.profile}' is not valid: lower-case letters and digits,"
                    f" between them single dots, dashes or plus signs, at most {_LONGEST_PROFILE} characters"
                )
            for what, value, most in (
                ("slices", partition.slices, self.slices),
                ("memory_mib", partition.memory_mib, memory_mib),
            ):
                if not 1 <= value <= most:
                    raise InputError(f"{where} has {what} {value}, it must be 1 to {most}, which is that of the GPU")
        names = [partition.device_name for partition in self.partitions]
        if len(set(names)) < len(names):
            raise InputError(f"fake_gpu_partitions: each needs a name of its own, and these are {', '.join(names)}")

    def count(self, partition: GpuPartition, memory_mib: int) -> int:
        """Return how many partitions of a kind a GPU with this much memory has room for, if it has no others."""
        return min(self.slices // partition.slices, memory_mib // partition.memory_mib)


@dataclass(frozen=True)
class DeviceShape:
    """The GPUs of one node: their number, their product, the memory of each in MiB, and its partitions."""

    gpus: int
    product: str
    memory_mib: int
    partitioning: GpuPartitioning = GpuPartitioning()


def devices_of_gpu(shape: DeviceShape, number: int) -> list[dict[str, Any]]:
    """Return the devices of one GPU: the whole GPU, then its partitions."""
    slices, partitions = shape.partitioning.slices, shape.partitioning.partitions
    whole = _device(shape, number, f"gpu-{number}", {"type": {"string": "gpu"}, "index": {"int": number}})
    whole["capacity"] = {"memory": {"value": f"{shape.memory_mib}Mi"}}
    if partitions:
        whole["consumesCounters"] = _consumed_counters(number, slices, shape.memory_mib)
    devices = [whole]
    for partition in partitions:
        own = {
            "type": {"string": "mig"},
            "profile": {"string": partition.profile},
            "parentIndex": {"int": number},
        }
        for place in range(shape.partitioning.count(partition, shape.memory_mib)):
            device = _device(shape, number, f"gpu-{number}-{partition.device_name}-{place}", own)
            device["capacity"] = _counters(partition.slices, partition.memory_mib)
            device["consumesCounters"] = _consumed_counters(number, partition.slices, partition.memory_mib)
            devices.append(device)
    return devices


def _device(shape: DeviceShape, number: int, name: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a device of a GPU. NVIDIA's driver names attributes the same, as far as it has them."""
    shared = {
        "productName": {"string": shape.product},
        "numaNode": {"int": number // NUMA_GPUS},
        "simulated": {"bool": True},
    }
    return {"name": name, "attributes": {**attributes, **shared}}


def node_slices(shape: DeviceShape, node: Mapping[str, Any], labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the slices of a node. They belong to it, so that the API server deletes them after it.

    Counters are in slices without devices, as Kubernetes demands.
    """
    metadata, divided = node["metadata"], bool(shape.partitioning.partitions)
    numbers = range(shape.gpus)
    devices = [device for number in numbers for device in devices_of_gpu(shape, number)]
    sets = [
        _counter_set(number, shape.partitioning.slices, shape.memory_mib) for number in (numbers if divided else ())
    ]
    parts = [
        *(
            (f"counters-{place}", {"sharedCounters": part})
            for place, part in enumerate(_parts(sets, SLICE_COUNTER_SETS))
        ),
        *(
            (f"gpu-{place}", {"devices": part})
            for place, part in enumerate(_parts(devices, SLICE_PARTITIONED_DEVICES if divided else SLICE_DEVICES))
        ),
    ]
    owner = {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]}
    return [
        {
            "apiVersion": API_VERSION,
            "kind": "ResourceSlice",
            "metadata": {
                "name": f"{metadata['name']}-{name}",
                "labels": dict(labels),
                "ownerReferences": [owner],
            },
            "spec": {
                "driver": DRIVER,
                "nodeName": metadata["name"],
                "pool": {"name": metadata["name"], "generation": 1, "resourceSliceCount": len(parts)},
                **content,
            },
        }
        for name, content in parts
    ]


def _parts(items: Sequence[dict[str, Any]], size: int) -> list[list[dict[str, Any]]]:
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def _counter_set(number: int, slices: int, memory_mib: int) -> dict[str, Any]:
    """Return the set of counters of a GPU: all that its devices can take together."""
    return {"name": f"gpu-{number}", "counters": _counters(slices, memory_mib)}


def _consumed_counters(number: int, slices: int, memory_mib: int) -> list[dict[str, Any]]:
    """Return what a device takes of the counters of its GPU."""
    return [{"counterSet": f"gpu-{number}", "counters": _counters(slices, memory_mib)}]


def _counters(slices: int, memory_mib: int) -> dict[str, Any]:
    return {"slices": {"value": str(slices)}, "memory": {"value": f"{memory_mib}Mi"}}
