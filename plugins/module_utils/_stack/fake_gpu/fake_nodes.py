# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes with GPUs that exist only in the API: created in bulk, simulated by KWOK."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    InputError,
    OwnershipError,
    SeatrialError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ThreadPool
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say, wait_until_gone
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import Broken
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import format_object_title
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import (
    SILENCE,
    WatchConnection,
    events_of_watch_connection,
)

from . import advertised_gpus, fake_gpu_operator, kwok_on_real_cluster, simulated_gpu_slices
from .fake_gpu_operator import NODE_LABELS
from .simulated_node_pool import (
    NodePoolSpec,
    compute_pool_changes,
    is_node_schedulable,
    owner_run_id,
    requested_node_names,
)

#: Requests in flight. More only lengthen the API server's queue on two cores.
WORKERS = 24

#: Seconds after its requested end in which a server may end a watch.
_GRACE = 5.0


def list_nodes_of_pool(client: Client, name: str) -> list[dict[str, Any]]:
    """Return the nodes of one pool that carry our labels."""
    return client.list(client.kind("v1", "Node"), label_selector=_pool_label_selector(name))[0]


def list_fake_nodes_of_run(client: Client, run_id: str) -> list[dict[str, Any]]:
    """Return the nodes of all pools of a run, which its KWOK simulates."""
    wanted = (
        f"{run_labels.SIMULATED}=true,{run_labels.RUN}={run_id}"
        if run_id
        else f"{run_labels.SIMULATED}=true,!{run_labels.RUN}"
    )
    return client.list(client.kind("v1", "Node"), label_selector=wanted, metadata_only=True)[0]


def _pool_label_selector(name: str) -> str:
    return f"{run_labels.SIMULATED}=true,{run_labels.POOL}={name}"


def create_fake_nodes(
    client: Client, spec: NodePoolSpec, timeout: float, say: Say, check: bool = False
) -> dict[str, Any]:
    """Give a pool the requested nodes and wait until pods can be scheduled on all of them; return the result.

    timeout: seconds. Raises InputError, OwnershipError, ApiError, WaitTimeout.
    """
    spec.check()
    kwok_on_real_cluster.check_fake_nodes_allowed(client, spec.permission, spec.run_id)
    added = _add_gpus(client, spec, timeout, say, check) if spec.add_to else []
    if spec.operator.pools:
        added += fake_gpu_operator.install_fake_gpu_operator(client, spec.operator, spec.run_id, timeout, say, check)
    pool_nodes = list_nodes_of_pool(client, spec.pool)
    changes, wanted = compute_pool_changes(spec, pool_nodes), requested_node_names(spec, pool_nodes)
    result: dict[str, Any] = {"created": len(changes.create), "removed": len(changes.remove), "nodes": spec.count}
    result["gpus"] = spec.count * spec.shape.gpus
    result["gpus_added_to"] = added
    result["changed"] = bool(changes.create or changes.remove or added)
    result["diff"] = _format_node_diff(
        [fake_node for fake_node in pool_nodes if fake_node["metadata"]["name"] in changes.remove], changes.create
    )
    if check:
        result["changed"] = _publish_devices(client, spec, wanted, say, check) or result["changed"]
        return result
    began = time.monotonic()
    if changes.remove:
        removed = [fake_node for fake_node in pool_nodes if fake_node["metadata"]["name"] in changes.remove]
        _delete_nodes_and_wait(client, removed, timeout)
    if spec.permission.kwok_image:
        installed = kwok_on_real_cluster.install_kwok(client, spec.permission, spec.run_id)
        if installed:
            result["changed"] = True
            say(f"created {', '.join(installed)}: KWOK simulates the nodes")
    if changes.create:
        nodes, gpus = formats.format_count(len(changes.create), "node"), formats.format_count(spec.shape.gpus, "GPU")
        say(f"creating {nodes} with {gpus} each")
        _send_all(client.create, changes.create)
    await_fake_nodes_ready(client, spec, wanted, timeout, say)
    result["changed"] = _publish_devices(client, spec, wanted, say, check) or result["changed"]
    result["seconds"] = round(time.monotonic() - began, 2)
    if result["changed"] and spec.count:
        nodes, gpus = formats.format_count(spec.count, "node"), formats.format_count(result["gpus"], "GPU")
        say(f"ready after {result['seconds']:.1f} s: {nodes} with {gpus} (simulated)")
    return result


def _publish_devices(client: Client, spec: NodePoolSpec, names: list[str], say: Say, check: bool) -> bool:
    """Publish the GPUs of these nodes as devices, or remove the slices of this run; return whether anything changed.

    Slices of other runs, on nodes that belong to no run, are used and stay.
    """
    try:
        present_slices = advertised_gpus.list_slices(client, _pool_label_selector(spec.pool))
    except ApiError as error:
        if spec.devices or error.status != 403:
            raise
        return False  # who may not list them has published none
    mine = {
        resource_slice["metadata"]["name"]
        for resource_slice in present_slices
        if owner_run_id(resource_slice) == spec.run_id
    }
    if not spec.devices and not mine:
        return False
    wanted: list[dict[str, Any]] = []
    if spec.devices:
        labels = advertised_gpus.slice_labels(spec.pool, spec.run_id)
        shape = simulated_gpu_slices.DeviceShape(
            spec.shape.gpus, spec.shape.product, spec.shape.gpu_memory_mib, spec.partitioning
        )
        nodes = [
            fake_node for fake_node in list_nodes_of_pool(client, spec.pool) if fake_node["metadata"]["name"] in names
        ]
        wanted = [
            manifest for fake_node in nodes for manifest in simulated_gpu_slices.node_slices(shape, fake_node, labels)
        ]
    changes = advertised_gpus.compute_slice_changes(wanted, present_slices)
    remove = [name for name in changes.remove if name in mine]
    if not check and (changes.create or remove):
        say(f"devices of simulated nodes: {len(changes.create)} slices are published, {len(remove)} removed")
        changes = advertised_gpus.SliceChanges(changes.create, remove)
        advertised_gpus.apply_slices(client, changes, present_slices, _send_all)
    return bool(changes.create or remove)


def _add_gpus(client: Client, spec: NodePoolSpec, timeout: float, say: Say, check: bool) -> list[str]:
    if not spec.shape.gpus:
        raise InputError("fake_gpu_node_selector is set, but fake_gpu_gpus_per_node is 0: nothing would be added")
    # The product of a machine's GPUs must not name what is not there.
    product = run_labels.SIMULATED_PRODUCT + spec.shape.product
    labels = advertised_gpus.gpu_node_labels(spec.shape.gpus, product, spec.shape.gpu_memory_mib)
    return advertised_gpus.add_gpus_to_node_status(client, spec.add_to, labels, spec.run_id, timeout, say, check)


def await_fake_nodes_ready(client: Client, spec: NodePoolSpec, wanted: list[str], timeout: float, say: Say) -> None:
    """Wait until the nodes ``wanted`` are ready. Raises WaitTimeout naming some that are not.

    One list, then a watch: listing a thousand nodes repeatedly costs the API server more time than creating them.
    """
    deadline = time.monotonic() + timeout
    kind, selector = client.kind("v1", "Node"), _pool_label_selector(spec.pool)
    reported = time.monotonic()
    while True:
        nodes, version = client.list(kind, label_selector=selector)
        waiting = set(wanted)
        waiting -= {fake_node["metadata"]["name"] for fake_node in nodes if is_node_schedulable(fake_node)}
        left = deadline - time.monotonic()
        if waiting and left <= 0:
            raise WaitTimeout(
                f"{len(waiting)} of {spec.count} nodes are not ready after {timeout:.0f} s,"
                f" such as {', '.join(sorted(waiting)[:3])}: does KWOK run?"
            )
        if not waiting:
            return
        life = max(1, math.ceil(left))
        silence = min(SILENCE, life + _GRACE)  # a server may not end the watch
        watch = WatchConnection(client, kind, version, label_selector=selector, life=life, silence=silence)
        try:
            for event in events_of_watch_connection(watch):
                if event["type"] != "BOOKMARK" and is_node_schedulable(event["object"]):
                    waiting.discard(event["object"]["metadata"]["name"])
                if not waiting:
                    return
                if time.monotonic() >= deadline:
                    break
                if time.monotonic() - reported > 5:
                    say(f"{spec.count - len(waiting)} of {spec.count} nodes are ready")
                    reported = time.monotonic()
        except (ApiError, Broken):
            time.sleep(0.2)  # the server ended the watch, or it fell behind: list again
        finally:
            watch.close()


def remove_fake_nodes(
    client: Client, spec: NodePoolSpec, timeout: float, say: Say, check: bool = False
) -> dict[str, Any]:
    """Remove the nodes of a pool and the GPUs that belong to the run (without a run: to no run)."""
    spec.check()
    operator = fake_gpu_operator.remove_fake_gpu_operator(client, spec.run_id, timeout, say, check)
    freed = advertised_gpus.remove_gpus_from_node_status(client, spec.run_id, check, NODE_LABELS)
    if freed:
        say(f"removing simulated GPUs from {formats.format_count(len(freed), 'node')}")
    nodes = [fake_node for fake_node in list_nodes_of_pool(client, spec.pool) if owner_run_id(fake_node) == spec.run_id]
    mine = [fake_node["metadata"]["name"] for fake_node in nodes]
    published = _publish_devices(client, replace(spec, devices=False), [], say, check)
    if mine and not check:
        say(f"removing {formats.format_count(len(mine), 'node')}")
        _delete_nodes_and_wait(client, nodes, timeout)
    deleted = (
        []
        if list_fake_nodes_of_run(client, spec.run_id) and not check
        else kwok_on_real_cluster.remove_kwok(client, spec.run_id, check)
    )
    result: dict[str, Any] = {
        "changed": bool(mine or deleted or freed or operator or published),
        "created": 0,
        "removed": len(mine),
    }
    return {**result, "nodes": 0, "gpus": 0, "gpus_added_to": [], "diff": _format_node_diff(nodes, [])}


def _format_node_diff(removed: Sequence[Mapping[str, Any]], created: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the nodes that are removed and those that are created, with their capacity, one on each line."""

    def lines(nodes: Sequence[Mapping[str, Any]]) -> str:
        shown = [
            f"{fake_node['metadata']['name']}:"
            f" {', '.join(f'{name} {size}' for name, size in sorted(_node_capacity(fake_node).items()))}"
            for fake_node in nodes
        ]
        return "".join(f"{line}\n" for line in sorted(shown))

    return {"before": lines(removed), "after": lines(created)}


def _node_capacity(node: Mapping[str, Any]) -> Mapping[str, Any]:
    return (node.get("status") or {}).get("capacity") or {}


def _delete_nodes_and_wait(client: Client, nodes: list[dict[str, Any]], timeout: float) -> None:
    """Delete nodes and wait until the API server has removed them. Raises ApiError, WaitTimeout."""
    kind = client.kind("v1", "Node")
    _send_all(lambda fake_node: client.delete_seen(kind, fake_node["metadata"]), nodes)

    def left() -> list[str]:
        # Metadata only: complete nodes are twenty times as large.
        listed = client.list(kind, label_selector=f"{run_labels.SIMULATED}=true", metadata_only=True)[0]
        there = {fake_node["metadata"].get("uid") for fake_node in listed}
        return [format_object_title(fake_node) for fake_node in nodes if fake_node["metadata"]["uid"] in there]

    wait_until_gone(left, timeout, 0.2)


def _send_all(request: Callable[[Any], object], items: list[Any]) -> None:
    """Call ``request`` with every item, then raise OwnershipError or ApiError for the first that failed."""

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
        raise OwnershipError(f"{what}. A node of that name exists without our labels") from error
    if isinstance(error, OwnershipError):
        raise OwnershipError(what) from error
    raise ApiError(what, getattr(error, "status", 0), getattr(error, "reason", "")) from error
