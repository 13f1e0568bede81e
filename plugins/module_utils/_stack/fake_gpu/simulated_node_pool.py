# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pool of simulated nodes: what it is, the manifest of a node, and what a pool has to change.

Labels of the nodes say in which racks, blocks and other levels of a topology they are.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import parse_kube_quantity
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    get_label,
    is_condition_true,
)

from . import advertised_gpus, kwok_on_real_cluster
from .fake_gpu_operator import FakeGpuOperatorSpec
from .kwok_on_real_cluster import FakeNodePermission
from .simulated_gpu_slices import GpuPartitioning


@dataclass(frozen=True)
class TopologyLevel:
    """A level of the topology of nodes, such as racks: the label that names the rack, and the nodes of each."""

    label: str
    nodes: int


def check_topology_levels(levels: Sequence[TopologyLevel]) -> None:
    """Raise InputError unless each level divides the one before it."""
    for place, level in enumerate(levels):
        if level.nodes < 1:
            raise InputError(
                f"fake_gpu_topology: {level.label} has {level.nodes} nodes for each value, at least 1 is required"
            )
        if place and (level.nodes >= levels[place - 1].nodes or levels[place - 1].nodes % level.nodes):
            wide = levels[place - 1]
            raise InputError(
                f"fake_gpu_topology: {wide.nodes} nodes of {wide.label} can't be divided into parts of {level.nodes}"
                f" nodes of {level.label}: name the widest level first, each with a divisor of the nodes of the one"
                " before it"
            )
    if len({level.label for level in levels}) < len(levels):
        raise InputError("fake_gpu_topology: each level needs a label of its own")


def topology_labels(levels: Sequence[TopologyLevel], name: str) -> dict[str, str]:
    """Return the labels of a node for the levels of the topology: node pool-0005 of racks of four is in rack-1."""
    index = int(name.rpartition("-")[2])
    return {level.label: f"{level.label.rpartition('/')[2]}-{index // level.nodes}" for level in levels}


#: KWOK manages nodes with this annotation.
KWOK_NODE = "kwok.x-k8s.io/node"
#: Until the node controller has removed this taint, no pod is scheduled, although the node is Ready.
NOT_READY = "node.kubernetes.io/not-ready"
_POOL_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?\Z")


@dataclass(frozen=True)
class NodeShape:
    """Resources of one node. Memory in GiB, memory of a GPU in MiB."""

    gpus: int = 8
    product: str = "NVIDIA-A100-SXM4-80GB"
    gpu_memory_mib: int = 81920
    cpu: int = 96
    memory_gib: int = 1024
    pods: int = 250


@dataclass(frozen=True)
class NodePoolSpec:
    """Number and shape of a pool's nodes, and the run that they belong to ("" for none)."""

    count: int
    shape: NodeShape = NodeShape()
    pool: str = "fake-gpu"
    run_id: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    permission: FakeNodePermission = FakeNodePermission()
    #: Label selector of existing nodes, to which GPUs of this shape are added.
    add_to: str = ""
    #: Existing nodes, to which the fake-gpu-operator gives GPUs.
    operator: FakeGpuOperatorSpec = FakeGpuOperatorSpec()
    #: Whether the GPUs are also devices of dynamic resource allocation.
    devices: bool = False
    #: Levels of the topology, widest first.
    topology: tuple[TopologyLevel, ...] = ()
    #: Into which partitions the devices can be divided.
    partitioning: GpuPartitioning = GpuPartitioning()

    def check(self) -> None:
        """Raise InputError for an invalid value."""
        if not _POOL_NAME.match(self.pool):
            raise InputError(f"pool '{self.pool}' is not a valid pool name (lower-case letters, digits, dashes)")
        least = {"count": 0, "gpus": 0, "gpu_memory_mib": 1, "cpu": 1, "memory_gib": 1, "pods": 1}
        for name, value in {"count": self.count, **self.shape.__dict__}.items():
            if name in least and value < least[name]:
                raise InputError(f"{name} is {value}, at least {least[name]} is required")
        check_topology_levels(self.topology)
        self.partitioning.check(self.shape.gpu_memory_mib)


def format_node_name(spec: NodePoolSpec, index: int) -> str:
    """Return the name of a node, the same in every call, so that a second call finds the nodes of the first."""
    return f"{spec.pool}-{index:04d}"


def node_manifest(spec: NodePoolSpec, name: str) -> dict[str, Any]:
    """Return the manifest of one node."""
    shape = spec.shape
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        # The node controller would add these two with one more write per node.
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "node-role.kubernetes.io/worker": "",
        run_labels.SIMULATED: "true",
        run_labels.POOL: spec.pool,
    }
    if spec.run_id:
        labels[run_labels.RUN] = spec.run_id
    room = {"cpu": str(shape.cpu), "memory": f"{shape.memory_gib}Gi", "pods": str(shape.pods)}
    if shape.gpus:
        room["nvidia.com/gpu"] = str(shape.gpus)
        labels |= advertised_gpus.gpu_node_labels(shape.gpus, shape.product, shape.gpu_memory_mib)
    placed = topology_labels(spec.topology, name)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**placed, **labels, **spec.labels}, "annotations": {KWOK_NODE: "fake"}},
        **({"spec": {"taints": [kwok_on_real_cluster.TAINT]}} if spec.permission.allowed else {}),
        "status": {"capacity": room, "allocatable": room},
    }


def matches_manifest(wanted: dict[str, Any], fake_node: dict[str, Any]) -> bool:
    """Return whether a node in the cluster has the shape and the labels of a manifest (it may have more labels)."""
    labels = fake_node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in wanted["metadata"]["labels"].items() if key != run_labels.RUN):
        return False
    room = (fake_node.get("status") or {}).get("capacity") or {}
    return {name: parse_kube_quantity(value) for name, value in room.items()} == {
        name: parse_kube_quantity(value) for name, value in wanted["status"]["capacity"].items()
    }


def is_node_schedulable(fake_node: dict[str, Any]) -> bool:
    """Return whether pods can be scheduled on a node: it is Ready, without the taint of a new node."""
    return is_condition_true(fake_node, "Ready") and not any(
        taint["key"] == NOT_READY for taint in (fake_node.get("spec") or {}).get("taints") or []
    )


@dataclass
class NodePoolChanges:
    """Manifests to create and names to remove; nodes to be replaced are in both."""

    create: list[dict[str, Any]]
    remove: list[str]


def compute_pool_changes(spec: NodePoolSpec, nodes: list[dict[str, Any]]) -> NodePoolChanges:
    """Return the changes that give a pool the requested nodes. Nodes of other runs neither count nor change.

    Raises OwnershipError if a node of no run would have to be removed or replaced for a run.
    """
    wanted = {name: node_manifest(spec, name) for name in requested_node_names(spec, nodes)}
    have = {
        fake_node["metadata"]["name"]: fake_node for fake_node in nodes if not belongs_to_another_run(spec, fake_node)
    }
    remove = [
        name for name, fake_node in have.items() if name not in wanted or not matches_manifest(wanted[name], fake_node)
    ]
    foreign = [name for name in remove if owner_run_id(have[name]) != spec.run_id]
    if foreign:
        raise OwnershipError(
            f"pool {spec.pool}: {len(foreign)} nodes of no run are in the way"
            f" ({foreign[0]}{', …' if len(foreign) > 1 else ''}), and only those of run {spec.run_id} are removed:"
            " remove them, or request the same shape and at least as many"
        )
    return NodePoolChanges(
        [manifest for name, manifest in wanted.items() if name not in have or name in remove], sorted(remove)
    )


def requested_node_names(spec: NodePoolSpec, nodes: list[dict[str, Any]]) -> list[str]:
    """Return the names of the requested nodes: those of no run, then the run's, then the lowest unused ones."""
    owners = {fake_node["metadata"]["name"]: owner_run_id(fake_node) for fake_node in nodes}
    usable = [[name for name in sorted(owners) if owners[name] == owner] for owner in dict.fromkeys(("", spec.run_id))]
    fresh = (name for index in itertools.count() if (name := format_node_name(spec, index)) not in owners)
    return list(itertools.islice(itertools.chain(*usable, fresh), spec.count))


def belongs_to_another_run(spec: NodePoolSpec, fake_node: dict[str, Any]) -> bool:
    """Return whether a node belongs to another run. Nodes of no run, such as those started by hand, are shared."""
    return owner_run_id(fake_node) not in ("", spec.run_id)


def owner_run_id(fake_node: dict[str, Any]) -> str:
    """Return the run that a node belongs to, "" for none."""
    return get_label(fake_node, run_labels.RUN)
