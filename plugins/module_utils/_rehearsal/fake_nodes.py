# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes with GPUs that only exist in the API: made in bulk, played by KWOK."""

from __future__ import annotations

import itertools
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import (
    ApiError,
    InputError,
    OwnershipError,
    SeatrialError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import Broken
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_fields import holds, label
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import Watch, events
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube_quantity import amount
from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal import kwok_on_real_cluster
from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal.kwok_on_real_cluster import Leave
from ansible_collections.perfscale.seatrial.plugins.module_utils._threads import ThreadPool

#: On this annotation KWOK takes a node over.
PLAYED = "kwok.x-k8s.io/node"
#: Until the node controller has taken this taint away no pod is scheduled, although the node says Ready.
NOT_READY = "node.kubernetes.io/not-ready"

#: Requests in flight. More than this only makes the API server's queue longer on two cores.
WORKERS = 24
_POOL_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?\Z")

Say = Callable[[str], None]


@dataclass(frozen=True)
class NodeShape:
    """What one node has. Memory in GiB, the GPU's own in MiB."""

    gpus: int = 8
    product: str = "NVIDIA-A100-SXM4-80GB"
    gpu_memory_mib: int = 81920
    cpu: int = 96
    memory_gib: int = 1024
    pods: int = 250


@dataclass(frozen=True)
class NodePoolSpec:
    """How many nodes of which shape a pool is to have, and for whom. ``run_id`` may be empty."""

    count: int
    shape: NodeShape = NodeShape()
    pool: str = "fake-gpu"
    run_id: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    leave: Leave = Leave()

    def check(self) -> None:
        """Raise InputError for what can't be meant."""
        if not _POOL_NAME.match(self.pool):
            raise InputError(f"pool '{self.pool}' can't begin the names of nodes (lower-case letters, digits, dashes)")
        least = {"count": 0, "gpus": 0, "gpu_memory_mib": 1, "cpu": 1, "memory_gib": 1, "pods": 1}
        for name, value in {"count": self.count, **self.shape.__dict__}.items():
            if name in least and value < least[name]:
                raise InputError(f"{name} is {value}, at least {least[name]} is needed")


def name_of(order: NodePoolSpec, index: int) -> str:
    """Return the name of a node: the same every time, so that a second call finds what the first one made."""
    return f"{order.pool}-{index:04d}"


def node(order: NodePoolSpec, name: str) -> dict[str, Any]:
    """Return the manifest of one node."""
    shape = order.shape
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        # The node controller would add these two, one more write for each node.
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "node-role.kubernetes.io/worker": "",
        _labels.SIMULATED: "true",
        _labels.POOL: order.pool,
    }
    if order.run_id:
        labels[_labels.RUN] = order.run_id
    room = {"cpu": str(shape.cpu), "memory": f"{shape.memory_gib}Gi", "pods": str(shape.pods)}
    if shape.gpus:
        room["nvidia.com/gpu"] = str(shape.gpus)
        labels["nvidia.com/gpu.present"] = "true"
        labels["nvidia.com/gpu.count"] = str(shape.gpus)
        labels["nvidia.com/gpu.product"] = shape.product
        labels["nvidia.com/gpu.memory"] = str(shape.gpu_memory_mib)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, **order.labels}, "annotations": {PLAYED: "fake"}},
        **({"spec": {"taints": [kwok_on_real_cluster.TAINT]}} if order.leave.allowed else {}),
        "status": {"capacity": room, "allocatable": room},
    }


def same(wanted: dict[str, Any], found: dict[str, Any]) -> bool:
    """Tell whether a node in the cluster has the shape and the labels of a manifest (others may be added)."""
    labels = found["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in wanted["metadata"]["labels"].items() if key != _labels.RUN):
        return False
    room = (found.get("status") or {}).get("capacity") or {}
    return {name: amount(value) for name, value in room.items()} == {
        name: amount(value) for name, value in wanted["status"]["capacity"].items()
    }


def is_ready(found: dict[str, Any]) -> bool:
    """Tell whether pods can be scheduled on a node: it says Ready, and the taint of a new node is gone."""
    return holds(found, "Ready") and not any(
        one["key"] == NOT_READY for one in (found.get("spec") or {}).get("taints") or []
    )


@dataclass
class NodePoolChanges:
    """What a pool lacks, by name: manifests to make, names to remove (those to be replaced stand in both)."""

    make: list[dict[str, Any]]
    remove: list[str]


def compare(order: NodePoolSpec, found: list[dict[str, Any]]) -> NodePoolChanges:
    """Return what has to change so that a pool is as ordered. Nodes of other runs neither count nor change.

    Raises OwnershipError when a node of no run would have to be removed or replaced for a run.
    """
    wanted = {name: node(order, name) for name in names(order, found)}
    have = {one["metadata"]["name"]: one for one in found if not of_another(order, one)}
    remove = [name for name, one in have.items() if name not in wanted or not same(wanted[name], one)]
    foreign = [name for name in remove if owner_of(have[name]) != order.run_id]
    if foreign:
        raise OwnershipError(
            f"pool {order.pool}: {len(foreign)} nodes of no run stand in the way"
            f" ({foreign[0]}{', …' if len(foreign) > 1 else ''}), and only those of run {order.run_id} are removed:"
            " remove them, or ask for the same shape and at least as many"
        )
    return NodePoolChanges([one for name, one in wanted.items() if name not in have or name in remove], sorted(remove))


def names(order: NodePoolSpec, found: list[dict[str, Any]]) -> list[str]:
    """Return the names of the order's nodes: those of no run, then its own, then the lowest that nobody has taken."""
    owners = {one["metadata"]["name"]: owner_of(one) for one in found}
    usable = [[name for name in sorted(owners) if owners[name] == owner] for owner in dict.fromkeys(("", order.run_id))]
    fresh = (name for index in itertools.count() if (name := name_of(order, index)) not in owners)
    return list(itertools.islice(itertools.chain(*usable, fresh), order.count))


def of_another(order: NodePoolSpec, found: dict[str, Any]) -> bool:
    """Return whether a node belongs to another run. What belongs to no run, such as a standing cluster's, is shared."""
    return owner_of(found) not in ("", order.run_id)


def owner_of(found: dict[str, Any]) -> str:
    """Return the run that a node belongs to, "" for none."""
    return label(found, _labels.RUN)


def list_pool(client: Client, name: str) -> list[dict[str, Any]]:
    """Return the nodes of one pool that carry our labels."""
    return client.list(client.kind("v1", "Node"), label_selector=_selector(name))[0]


def list_run(client: Client, run_id: str) -> list[dict[str, Any]]:
    """Return the nodes of every pool of a run: what its KWOK is there for."""
    wanted = (
        f"{_labels.SIMULATED}=true,{_labels.RUN}={run_id}" if run_id else f"{_labels.SIMULATED}=true,!{_labels.RUN}"
    )
    return client.list(client.kind("v1", "Node"), label_selector=wanted, metadata_only=True)[0]


def _selector(name: str) -> str:
    return f"{_labels.SIMULATED}=true,{_labels.POOL}={name}"


def present(client: Client, order: NodePoolSpec, timeout: float, say: Say, check: bool = False) -> dict[str, Any]:
    """Give a pool the nodes that were ordered and wait until pods can be scheduled on all of them."""
    order.check()
    kwok_on_real_cluster.check(client, order.leave, order.run_id)
    found = list_pool(client, order.pool)
    changes, wanted = compare(order, found), names(order, found)
    result: dict[str, Any] = {"created": len(changes.make), "removed": len(changes.remove), "nodes": order.count}
    result["gpus"] = order.count * order.shape.gpus
    result["changed"] = bool(changes.make or changes.remove)
    if check:
        return result
    began = time.monotonic()
    if changes.remove:
        _remove(client, changes.remove, timeout)
    if order.leave.kwok_image:
        made = kwok_on_real_cluster.bring_kwok(client, order.leave, order.run_id)
        if made:
            result["changed"] = True
            say(f"made {', '.join(made)}, so that KWOK plays the nodes")
    if changes.make:
        say(f"making {len(changes.make)} nodes with {order.shape.gpus} GPUs each")
        kind = client.kind("v1", "Node")
        _send_all(lambda one: client.request("POST", kind.path(), one), changes.make)
    await_ready(client, order, wanted, timeout, say)
    result["seconds"] = round(time.monotonic() - began, 2)
    if result["changed"]:
        say(f"{order.count} nodes with {result['gpus']} GPUs are ready after {result['seconds']:.1f} s (simulated)")
    return result


def await_ready(client: Client, order: NodePoolSpec, wanted: list[str], timeout: float, say: Say) -> None:
    """Wait until the nodes ``wanted`` are ready. Raises WaitTimeout naming some that are not.

    A list to begin with, then a watch: listing a thousand nodes again and again costs the API server more time than
    making them.
    """
    deadline = time.monotonic() + timeout
    kind, selector = client.kind("v1", "Node"), _selector(order.pool)
    told = time.monotonic()
    while True:
        found, version = client.list(kind, label_selector=selector)
        waiting = set(wanted)
        waiting -= {one["metadata"]["name"] for one in found if is_ready(one)}
        left = deadline - time.monotonic()
        if waiting and left <= 0:
            raise WaitTimeout(
                f"{len(waiting)} of {order.count} nodes are not ready after {timeout:.0f} s,"
                f" such as {', '.join(sorted(waiting)[:3])}: does KWOK run?"
            )
        if not waiting:
            return
        watch = Watch(client, kind, version, label_selector=selector, life=max(1, math.ceil(left)))
        try:
            for event in events(watch):
                if event["type"] != "BOOKMARK" and is_ready(event["object"]):
                    waiting.discard(event["object"]["metadata"]["name"])
                if not waiting:
                    return
                if time.monotonic() - told > 5:
                    say(f"{order.count - len(waiting)} of {order.count} nodes are ready")
                    told = time.monotonic()
        except (ApiError, Broken):
            time.sleep(0.2)  # the server ended it, or it fell behind: list and look again
        finally:
            watch.close()


def absent(client: Client, order: NodePoolSpec, timeout: float, say: Say, check: bool = False) -> dict[str, Any]:
    """Remove the nodes of a pool that belong to the order's run (to no run when it has none)."""
    order.check()
    mine = [one["metadata"]["name"] for one in list_pool(client, order.pool) if owner_of(one) == order.run_id]
    if mine and not check:
        say(f"removing {len(mine)} nodes")
        _remove(client, mine, timeout)
    gone = (
        []
        if list_run(client, order.run_id) and not check
        else kwok_on_real_cluster.remove_kwok(client, order.run_id, check)
    )
    return {"changed": bool(mine or gone), "created": 0, "removed": len(mine), "nodes": 0, "gpus": 0}


def _remove(client: Client, names: list[str], timeout: float) -> None:
    """Delete nodes and wait until they are gone. Raises ApiError, WaitTimeout."""
    kind = client.kind("v1", "Node")
    _send_all(lambda name: client.delete(kind, name), names)
    deadline = time.monotonic() + timeout
    left = set(names)
    while left:
        # Only names: the whole nodes are twenty times as much to list.
        found = client.list(kind, label_selector=f"{_labels.SIMULATED}=true", metadata_only=True)[0]
        left &= {one["metadata"]["name"] for one in found}
        if left and time.monotonic() > deadline:
            raise WaitTimeout(f"{len(left)} deleted nodes are still there after {timeout:.0f} s, such as {min(left)}")
        if left:
            time.sleep(0.2)


def _send_all(request: Callable[[Any], object], items: list[Any]) -> None:
    """Call ``request`` with every item. Raises OwnershipError, ApiError for the first that failed, after all."""

    def attempt(item: Any) -> SeatrialError | None:
        try:
            request(item)
        except SeatrialError as error:
            return error
        return None

    with ThreadPool(WORKERS) as pool:
        failed = [error for error in pool.map(attempt, items) if error]
    if not failed:
        return
    error = failed[0]
    what = f"{len(failed)} of {len(items)} requests failed, the first: {error}"
    if isinstance(error, ApiError) and error.status == 409:
        raise OwnershipError(f"{what}. A node of that name is there and does not carry our labels") from error
    raise ApiError(what, getattr(error, "status", 0), getattr(error, "reason", "")) from error
