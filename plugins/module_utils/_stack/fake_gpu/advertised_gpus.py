# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs that nodes only advertise: in the status of a node, and as devices in ResourceSlices.

A node with a kubelet keeps the GPUs that its status states. ResourceSlices are for simulated nodes: one pool for each.
No driver runs. The scheduler allocates devices from ResourceSlices alone, and KWOK starts pods without asking a driver
to prepare them. https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    OwnershipError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import parse_kube_quantity
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.lost_labels import refuse_lost_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import get_label

from .simulated_gpu_slices import API_VERSION

GPU = "nvidia.com/gpu"
#: Value of the label of nodes whose GPUs belong to no run.
NO_RUN = "none"
_PAUSE = 0.2


def gpu_node_labels(gpus: int, product: str, memory_mib: int) -> dict[str, str]:
    """Return the labels that the GPU operator would give a node with these GPUs."""
    return {
        f"{GPU}.present": "true",
        f"{GPU}.count": str(gpus),
        f"{GPU}.product": product,
        f"{GPU}.memory": str(memory_mib),
    }


def add_gpus_to_node_status(
    client: Client, selector: str, labels: Mapping[str, str], run_id: str, timeout: float, say: Say, check: bool = False
) -> list[str]:
    """Add GPUs to the nodes of a label selector; return the names of those that changed.

    labels: as labels_of() returns them. Raises InputError without such a node, OwnershipError for a node with other
    GPUs or with those of another run, WaitTimeout if the nodes do not offer them after ``timeout`` seconds.
    """
    nodes = client.list(client.kind("v1", "Node"), label_selector=selector)[0]
    if not nodes:
        raise InputError(f"fake_gpu_node_selector: no node has the labels '{selector}'")
    for node in nodes:
        check_node_may_get_gpus(node, run_id, "fake_gpu_node_selector")
    count = labels[f"{GPU}.count"]
    wanted = [node for node in nodes if not has_labels_and_gpus(node, labels)]
    names = [node["metadata"]["name"] for node in wanted]
    if check or not names:
        return names
    say(f"adding {formats.format_count(int(count), 'GPU')} to the status of {formats.format_count(len(names), 'node')}")
    for name in names:
        # The label first: a node with our GPUs is always found.
        set_gpu_labels(client, name, {run_labels.FAKE_GPUS: run_id or NO_RUN, **labels})
        _patch_gpu_capacity(client, name, count)
    _wait_for_gpus(client, selector, labels, timeout)
    return names


def set_gpu_labels(client: Client, name: str, labels: Mapping[str, str]) -> None:
    """Set labels of a node. Raises OwnershipError if the cluster takes one of ours; the others are removed again."""
    path = client.kind("v1", "Node").path(name=name)

    def patch(wanted: Mapping[str, str | None]) -> Any:
        return client.request("PATCH", path, {"metadata": {"labels": dict(wanted)}}, content_type=MERGE_PATCH)

    wanted = {"kind": "Node", "metadata": {"name": name, "labels": labels}}
    refuse_lost_labels(client.access.server, wanted, patch(labels), lambda: patch(dict.fromkeys(labels)))


def remove_gpus_from_node_status(
    client: Client, run_id: str, check: bool = False, others: Iterable[str] = ()
) -> list[str]:
    """Remove the GPUs that a run added (without a run: those of no run); return the names of the nodes.

    others: further labels to remove from these nodes.
    """
    kind, owner = client.kind("v1", "Node"), run_id or NO_RUN
    nodes = client.list(kind, label_selector=f"{run_labels.FAKE_GPUS}={owner}")[0]
    for node in nodes if not check else ():
        name = node["metadata"]["name"]
        _patch_gpu_capacity(client, name, None)
        marks = dict.fromkeys((run_labels.FAKE_GPUS, *gpu_node_labels(0, "", 0), *others))
        client.request("PATCH", kind.path(name=name), {"metadata": {"labels": marks}}, content_type=MERGE_PATCH)
    return [node["metadata"]["name"] for node in nodes]


def _patch_gpu_capacity(client: Client, name: str, count: str | None) -> None:
    path = client.kind("v1", "Node").path("", name, "status")
    # Kubelet would repeat the capacity in what is allocatable with its next report.
    client.request(
        "PATCH", path, {"status": {"capacity": {GPU: count}, "allocatable": {GPU: count}}}, content_type=MERGE_PATCH
    )


def has_labels_and_gpus(node: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a node has these labels, and the GPUs that they state in its status."""
    status = node.get("status") or {}
    there = [parse_kube_quantity((status.get(part) or {}).get(GPU, "0")) for part in ("capacity", "allocatable")]
    return (
        all(get_label(node, name) == value for name, value in labels.items())
        and there == [float(labels[f"{GPU}.count"])] * 2
    )


def check_node_may_get_gpus(node: Mapping[str, Any], run_id: str, setting: str) -> None:
    """Raise InputError for a simulated node, OwnershipError for a node with GPUs that this run did not add."""
    name, owner = node["metadata"]["name"], get_label(node, run_labels.FAKE_GPUS)
    if get_label(node, run_labels.SIMULATED):
        raise InputError(f"{setting}: node {name} is simulated; fake_gpu_gpus_per_node gives it its GPUs")
    if owner and owner != (run_id or NO_RUN):
        whose = "no run" if owner == NO_RUN else f"run {owner}"
        raise OwnershipError(f"node {name} has simulated GPUs of {whose}: they are not changed")
    there = parse_kube_quantity(((node.get("status") or {}).get("capacity") or {}).get(GPU, "0"))
    marks = [key for key in node["metadata"].get("labels") or {} if key.startswith(f"{GPU}.")]
    if not owner and (there or marks):
        raise OwnershipError(f"node {name} has GPUs or labels of GPUs ({GPU}: {there:g}): simulated ones are not added")


def _wait_for_gpus(client: Client, selector: str, labels: Mapping[str, str], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:
        nodes = client.list(client.kind("v1", "Node"), label_selector=selector)[0]
        lacking = [node["metadata"]["name"] for node in nodes if not has_labels_and_gpus(node, labels)]
        if not lacking:
            return
        if time.monotonic() > deadline:
            raise WaitTimeout(f"after {timeout:.0f} s {formats.format_list(lacking, 3)} do not offer the added GPUs")
        time.sleep(_PAUSE)


#: Sends a request for each item, in parallel.
SendAll = Callable[[Callable[[Any], object], list[Any]], None]


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
    return owners == [uid] and _comparable(have["spec"]) == _comparable(wanted["spec"])


def _comparable(part: Any) -> Any:
    """Return a part of a slice with quantities as numbers. The API server writes another unit, 80Gi for 81920Mi."""
    if isinstance(part, Mapping):
        return {
            key: parse_kube_quantity(value) if key == "value" else _comparable(value) for key, value in part.items()
        }
    return [_comparable(element) for element in part] if isinstance(part, (list, tuple)) else part


def list_slices(client: Client, selector: str) -> list[dict[str, Any]]:
    """Return the simulated slices with these labels, none on a cluster without the kind. Raises ApiError."""
    try:
        kind = client.kind(API_VERSION, "ResourceSlice")
    except InputError:
        return []
    return client.list(kind, label_selector=selector)[0]


def apply_slices(
    client: Client, changes: SliceChanges, present: Iterable[Mapping[str, Any]], send_all: SendAll
) -> None:
    """Remove and create slices. present: the slices from which the changes were computed.

    Raises InputError on a cluster without the kind, OwnershipError, ApiError.
    """
    try:
        kind = client.kind(API_VERSION, "ResourceSlice")
    except InputError as error:
        raise InputError(f"{error}; devices of simulated nodes need Kubernetes 1.34 or newer") from error
    _check_counters_are_kept(client, kind, changes.create)
    removed = [each["metadata"] for each in present if each["metadata"]["name"] in changes.remove]
    send_all(lambda metadata: client.delete_seen(kind, metadata), removed)
    send_all(client.create, changes.create)


def _check_counters_are_kept(client: Client, kind: ServedKind, slices: Sequence[dict[str, Any]]) -> None:
    """Raise InputError if the API server drops counters: then all partitions of a GPU could be allocated at once."""
    counters = next((manifest for manifest in slices if "sharedCounters" in manifest["spec"]), None)
    if counters is None:
        return
    trial = {**counters, "metadata": {**counters["metadata"], "name": f"{counters['metadata']['name']}-trial"}}
    stored = client.request("POST", kind.path(), trial, query={"dryRun": "All"})
    if not stored["spec"].get("sharedCounters"):
        raise InputError(
            "fake_gpu_partitions: the API server stores no counters of devices; they need Kubernetes 1.36 or newer,"
            " with its feature gate DRAPartitionableDevices"
        )


def slice_labels(pool: str, run_id: str) -> dict[str, str]:
    """Return the labels of the slices of a pool that a run published."""
    return {run_labels.SIMULATED: "true", run_labels.POOL: pool, **({run_labels.RUN: run_id} if run_id else {})}
