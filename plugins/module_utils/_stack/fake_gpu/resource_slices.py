# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs of simulated nodes as devices of dynamic resource allocation: one pool of ResourceSlices for each node.

No driver runs. The scheduler allocates devices from ResourceSlices alone, and KWOK starts pods without asking a driver
to prepare them. https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import parse_kube_quantity
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

API_VERSION = "resource.k8s.io/v1"
#: The name of the driver, which selects the devices: device.driver == "gpu.perfscale.seatrial".
DRIVER = "gpu.perfscale.seatrial"
#: The API server accepts at most this many devices in a slice.
SLICE_DEVICES = 128
#: Sends a request for each item, in parallel.
SendAll = Callable[[Callable[[Any], object], list[Any]], None]
#: GPUs of a simulated node that share a NUMA node.
NUMA_GPUS = 4


@dataclass(frozen=True)
class DeviceShape:
    """The GPUs of one node: their number, their product, and the memory of each in MiB."""

    gpus: int
    product: str
    memory_mib: int


def device_manifest(shape: DeviceShape, number: int) -> dict[str, Any]:
    """Return one device. Its attributes have the names that NVIDIA's driver uses, as far as it has them."""
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "type": {"string": "gpu"},
            "productName": {"string": shape.product},
            "index": {"int": number},
            "numaNode": {"int": number // NUMA_GPUS},
            "simulated": {"bool": True},
        },
        "capacity": {"memory": {"value": f"{shape.memory_mib}Mi"}},
    }


def node_slices(shape: DeviceShape, node: Mapping[str, Any], labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the slices of a node. They belong to it, so that the API server deletes them after it."""
    metadata = node["metadata"]
    devices = [device_manifest(shape, number) for number in range(shape.gpus)]
    parts = [devices[start : start + SLICE_DEVICES] for start in range(0, len(devices), SLICE_DEVICES)]
    owner = {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]}
    return [
        {
            "apiVersion": API_VERSION,
            "kind": "ResourceSlice",
            "metadata": {
                "name": f"{metadata['name']}-gpu-{number}",
                "labels": dict(labels),
                "ownerReferences": [owner],
            },
            "spec": {
                "driver": DRIVER,
                "nodeName": metadata["name"],
                "pool": {"name": metadata["name"], "generation": 1, "resourceSliceCount": len(parts)},
                "devices": part,
            },
        }
        for number, part in enumerate(parts)
    ]


@dataclass(frozen=True)
class SliceChanges:
    """Slices to create, and the names of those to remove before; one that changes is in both."""

    create: list[dict[str, Any]]
    remove: list[str]


def compute_slice_changes(wanted: Sequence[Mapping[str, Any]], present: Iterable[Mapping[str, Any]]) -> SliceChanges:
    """Return the changes that leave the slices ``wanted`` of those that are present."""
    have = {resource_slice["metadata"]["name"]: resource_slice for resource_slice in present}
    named = {manifest["metadata"]["name"]: manifest for manifest in wanted}
    same = {name for name, manifest in named.items() if name in have and _is_same(manifest, have[name])}
    return SliceChanges(
        [dict(manifest) for name, manifest in named.items() if name not in same], sorted(have.keys() - same)
    )


def _is_same(wanted: Mapping[str, Any], have: Mapping[str, Any]) -> bool:
    owners = [owner["uid"] for owner in have["metadata"].get("ownerReferences") or ()]
    uid = wanted["metadata"]["ownerReferences"][0]["uid"]
    return owners == [uid] and _comparable_devices(have) == _comparable_devices(wanted)


def _comparable_devices(resource_slice: Mapping[str, Any]) -> list[tuple[str, Any, dict[str, Any]]]:
    """Return the devices of a slice. The API server writes quantities in another unit, 80Gi for 81920Mi."""
    return [
        (
            device["name"],
            device.get("attributes"),
            {name: parse_kube_quantity(size["value"]) for name, size in (device.get("capacity") or {}).items()},
        )
        for device in resource_slice["spec"].get("devices") or ()
    ]


def list_slices(client: Client, selector: str) -> list[dict[str, Any]]:
    """Return the slices with these labels, none on a cluster without the kind. Raises ApiError."""
    try:
        kind = client.kind(API_VERSION, "ResourceSlice")
    except InputError:
        return []
    return client.list(kind, label_selector=selector)[0]


def apply_slices(client: Client, changes: SliceChanges, send_all: SendAll) -> None:
    """Remove and create slices. Raises InputError on a cluster without the kind, OwnershipError, ApiError."""
    try:
        kind = client.kind(API_VERSION, "ResourceSlice")
    except InputError as error:
        raise InputError(f"{error}; devices of simulated nodes need Kubernetes 1.34 or newer") from error
    send_all(lambda name: client.delete(kind, name), changes.remove)
    send_all(lambda manifest: client.request("POST", kind.path(), manifest), changes.create)


def slice_labels(pool: str, run_id: str) -> dict[str, str]:
    """Return the labels of the slices of a pool that a run published."""
    return {run_labels.SIMULATED: "true", run_labels.POOL: pool, **({run_labels.RUN: run_id} if run_id else {})}
