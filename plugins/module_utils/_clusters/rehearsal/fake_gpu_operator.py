# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install the fake-gpu-operator on a cluster with real nodes and no GPUs, and remove it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, run_labels, wait_until
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.kube_quantity import amount
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_fields import label

from . import added_gpus
from . import fake_gpu_operator_objects as manifests
from .fake_gpu_operator_objects import NodePool, OperatorSpec

_PAUSE = 0.2
Say = Callable[[str], None]


def present(
    client: Client, spec: OperatorSpec, run_id: str, timeout: float, say: Say, check: bool = False
) -> list[str]:
    """Install the operator and wait until the nodes of its pools offer their GPUs; return the nodes that changed.

    timeout: seconds. Raises InputError for a pool without nodes or nodes in two pools, OwnershipError beside real GPUs,
    a GPU operator or an installation of another run, WaitTimeout.
    """
    spec.check()
    nodes = _nodes_of(client, spec, run_id)
    _refuse_real_gpus(client, nodes)
    wanted = manifests.objects(spec, run_id)
    missing = _missing(client, wanted, run_id)
    fresh = [name for name, (node, pool) in nodes.items() if not added_gpus.offers(node, pool.labels())]
    if check:
        return fresh
    for manifest in missing:
        client.create(manifest, {"fieldValidation": "Strict"})
    if missing:
        say(f"created {formats.count(len(missing), 'object')} of the fake-gpu-operator {spec.version}")
    kind = client.kind("v1", "Node")
    for name in fresh:
        marks = {run_labels.FAKE_GPUS: run_id or added_gpus.NO_RUN, **nodes[name][1].labels()}
        client.request("PATCH", kind.path(name=name), {"metadata": {"labels": marks}}, content_type=MERGE_PATCH)
    _await_gpus(client, nodes, timeout)
    return fresh


def absent(client: Client, run_id: str, timeout: float, say: Say, check: bool = False) -> list[str]:
    """Delete this run's installation and wait until it is gone, the device plugin included; return what was deleted.

    The labels of the nodes remain; they are removed with the GPUs, which a device plugin would offer again.
    """
    deleted = []
    namespaces = client.kind("v1", "Namespace")
    for manifest in reversed(manifests.objects(OperatorSpec(), run_id)):
        kind, meta = client.kind_of(manifest), manifest["metadata"]
        found = client.get(kind, meta["name"], meta.get("namespace", ""))
        if found is None or label(found, run_labels.RUN) != run_id:
            continue
        deleted.append(f"{manifest['kind']} {meta['name']}")
        if not check:
            client.delete(kind, meta["name"], meta.get("namespace", ""))
    if deleted and not check:
        say("removing the fake-gpu-operator")
        name = f"Namespace {manifests.NAME}"
        wait_until.wait_until_gone(lambda: [name] if client.get(namespaces, manifests.NAME) else [], timeout, _PAUSE)
    return deleted


def _nodes_of(client: Client, spec: OperatorSpec, run_id: str) -> dict[str, tuple[dict[str, Any], NodePool]]:
    """Return name -> (node, its pool)."""
    found: dict[str, tuple[dict[str, Any], NodePool]] = {}
    for pool in spec.pools:
        nodes = client.list(client.kind("v1", "Node"), label_selector=pool.node_selector)[0]
        if not nodes:
            raise InputError(
                f"fake_gpu_operator_pools: no node has the labels '{pool.node_selector}' of pool '{pool.name}'"
            )
        for node in nodes:
            name = node["metadata"]["name"]
            if name in found:
                raise InputError(f"fake_gpu_operator_pools: node {name} is in pools {found[name][1].name}, {pool.name}")
            added_gpus.check_node(node, run_id, "fake_gpu_operator_pools")
            found[name] = (node, pool)
    return found


def _refuse_real_gpus(client: Client, ours: Mapping[str, Any]) -> None:
    """Raise OwnershipError on a cluster with GPUs, whose operator would use the same labels of nodes."""
    for node in client.list(client.kind("v1", "Node"))[0]:
        name = node["metadata"]["name"]
        there = amount(((node.get("status") or {}).get("capacity") or {}).get(added_gpus.GPU, "0"))
        simulated = label(node, run_labels.SIMULATED) == "true" or label(node, run_labels.FAKE_GPUS)
        if there and name not in ours and not simulated:
            raise OwnershipError(
                f"{client.access.server} has real GPUs, {there:g} on node {name}: the fake-gpu-operator is not"
                " installed beside them, because it uses the labels of the GPU operator. Nothing was changed"
            )
    try:
        policies = client.list(client.kind("nvidia.com/v1", "ClusterPolicy"))[0]
    except InputError:  # the kind does not exist
        return
    if policies:
        raise OwnershipError(
            f"{client.access.server} has the GPU operator (ClusterPolicy {policies[0]['metadata']['name']}): it would"
            " put its own device plugin on the same nodes. Nothing was changed"
        )


def _missing(client: Client, wanted: Sequence[dict[str, Any]], run_id: str) -> list[dict[str, Any]]:
    """Return the objects that do not exist. Raises OwnershipError for those of another run or of somebody else."""
    missing = []
    for manifest in wanted:
        meta = manifest["metadata"]
        found = client.get(client.kind_of(manifest), meta["name"], meta.get("namespace", ""))
        if found is None:
            missing.append(manifest)
        elif label(found, run_labels.RUN) != run_id:
            raise OwnershipError(
                f"{manifest['kind']} {meta['name']} exists and was not created by this run: another run has installed"
                " the fake-gpu-operator. Nothing was changed"
            )
        elif manifest["kind"] == "ConfigMap" and found.get("data") != manifest["data"]:
            raise InputError(
                "fake_gpu_operator_pools differ from those that this run has installed: remove them first (entry point"
                " absent of role fake_gpu)"
            )
    return missing


def _await_gpus(client: Client, nodes: Mapping[str, tuple[dict[str, Any], NodePool]], timeout: float) -> None:
    def look() -> tuple[bool | None, str]:
        found = {one["metadata"]["name"]: one for one in client.list(client.kind("v1", "Node"))[0]}
        lacking = [
            name
            for name, (_node, pool) in nodes.items()
            if name not in found or not added_gpus.offers(found[name], pool.labels())
        ]
        return (None if lacking else True), formats.listed(lacking, 3)

    def late(names: str) -> str:
        return (
            f"after {timeout:.0f} s {names} do not offer the GPUs of the fake-gpu-operator:"
            f" see the pods of namespace {manifests.NAME}"
        )

    wait_until.wait_until(look, timeout, _quiet, late, _PAUSE)


def _quiet(_text: str) -> None:
    """Report nothing: the module has its own lines."""
