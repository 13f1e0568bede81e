# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the number of nodes for a number of users, from the limits of a node; sizes of known machine types."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name


@dataclass(frozen=True)
class NodeSize:
    """One node. ``cpu`` in cores, ``memory`` in GiB; the reserved amounts are for the system and its daemons.

    ``pods``: the limit of the kubelet (OpenShift's default is 250). ``volumes``: the largest number of attached volumes
    (0: no known limit).
    """

    cpu: float
    memory: float
    reserved_cpu: float = 2.0
    reserved_memory: float = 4.0
    pods: int = 250
    reserved_pods: int = 15
    volumes: int = 0


@dataclass(frozen=True)
class UserDemand:
    """The simultaneous demand of one user. ``cpu`` in cores, ``memory`` in GiB."""

    cpu: float
    memory: float
    pods: int = 1
    volumes: int = 0


Fields = TypeVar("Fields")
#: Fields that are whole numbers.
COUNTS = ("pods", "reserved_pods", "volumes")


def read_size_or_demand(of: type[Fields], name: str, values_by_field: Mapping[str, Any] | None) -> Fields | None:
    """Return ``values_by_field`` as NodeSize or UserDemand, None without it. Raises InputError naming ``name``."""
    if values_by_field is None:
        return None
    known = [field.name for field in fields(of)]  # type: ignore[arg-type]  # both are dataclasses
    wrong = next((key for key in values_by_field if key not in known), None)
    if wrong is not None:
        raise InputError(f"{name}: unknown field '{wrong}'{suggest_similar_name(wrong, known)}")
    try:
        values = {key: (int if key in COUNTS else float)(value) for key, value in values_by_field.items()}
        return of(**values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: {error}") from error


def node_count_and_deciding_limit(users: int, user: UserDemand, node: NodeSize) -> dict[str, Any]:
    """Return the number of nodes, the number that each limit alone requires, and the deciding limit.

    A user is not split over nodes, so floor(room / need) users fit on a node for each limit. ``nodes_if_split`` is the
    common estimate, ceil(users * need / room) of the scarcest resource, which may be too low. Raises InputError if one
    user does not fit.
    """
    if users < 0:
        raise InputError(f"users is {users}, it must be 0 or more")
    rooms = {
        "cpu": (node.cpu - node.reserved_cpu, user.cpu),
        "memory": (node.memory - node.reserved_memory, user.memory),
        "pods": (float(node.pods - node.reserved_pods), float(user.pods)),
        "volumes": (float(node.volumes), float(user.volumes) if node.volumes else 0.0),
    }
    fit: dict[str, int] = {}
    for name, (room, need) in rooms.items():
        if need < 0:
            raise InputError(f"{name} of a user is {need:g}, it must be 0 or more")
        if need == 0:
            continue
        # The tolerance is for rounding errors of binary floating point, such as 0.1 + 0.2 > 0.3.
        fit[name] = math.floor(room / need + 1e-9)
        if fit[name] < 1:
            raise InputError(f"a user needs {need:g} of {name}, and a node has room for {max(room, 0):g}")
    by_limit = {name: math.ceil(users / number) for name, number in fit.items()}
    # A node must stay within all limits with the same users.
    per_node = min(fit.values(), default=0)
    count = math.ceil(users / per_node) if per_node else (1 if users else 0)
    decides = min(fit, key=lambda name: fit[name]) if fit else ""
    split = max((math.ceil(users * need / room - 1e-9) for room, need in rooms.values() if need), default=count)
    return {
        "nodes": count,
        "nodes_if_split": split,
        "users_per_node": per_node,
        "decides": decides,
        "by_limit": by_limit,
        "users": users,
        "user": asdict(user),
        "node": asdict(node),
    }


#: Families of AWS: GiB per vCPU, and the sizes. An <n>xlarge has 4 n vCPUs.
AWS_FAMILIES = {
    "m5": (4, "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge"),
    "m6i": (4, "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 32xlarge"),
    "m7i": (4, "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge"),
    "c5": (2, "large xlarge 2xlarge 4xlarge 9xlarge 12xlarge 18xlarge 24xlarge"),
    "c6i": (2, "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 32xlarge"),
    "r5": (8, "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge"),
    "r6i": (8, "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 32xlarge"),
    "g4dn": (4, "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge"),
    "g5": (4, "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge"),
    "g6": (4, "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge"),
    "g6e": (8, "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge"),
}
#: Types of AWS that follow no family: vCPUs and GiB.
AWS_OTHERS = {
    "p3.2xlarge": (8, 61),
    "p3.8xlarge": (32, 244),
    "p3.16xlarge": (64, 488),
    "p4d.24xlarge": (96, 1152),
    "p4de.24xlarge": (96, 1152),
    "p5.48xlarge": (192, 2048),
    "p5en.48xlarge": (192, 2048),
}
#: Volumes that pods can attach to one machine: AWS counts root disk and network interface among its 28.
AWS_VOLUMES, IBM_VOLUMES = 26, 12
#: A profile of IBM Cloud has its vCPUs and GiB in its name: bx2-8x32, gx3-16x80x1l4.
_IBM = re.compile(r"[a-z]+[0-9][a-z]*-(?P<cpu>[0-9]+)x(?P<memory>[0-9]+)(x[0-9]+[a-z0-9]+)?")


def _aws_node_sizes() -> dict[str, NodeSize]:
    node_sizes = {}
    for family, (per_cpu, sizes) in AWS_FAMILIES.items():
        for size in sizes.split():
            cpu = 2 if size == "large" else 4 * int(size.removesuffix("xlarge") or 1)
            node_sizes[f"{family}.{size}"] = NodeSize(cpu, cpu * per_cpu, volumes=AWS_VOLUMES)
    return {**node_sizes, **{name: NodeSize(*both, volumes=AWS_VOLUMES) for name, both in AWS_OTHERS.items()}}


AWS = _aws_node_sizes()


def size_of_machine_type(name: str, more: Iterable[Mapping[str, Any]] = ()) -> NodeSize:
    """Return the size of a machine type. more: further types, with name and fields of NodeSize; they come first.

    Raises InputError for an unknown type, or one with wrong fields.
    """
    extra_sizes: dict[str, NodeSize] = {}
    for entry in more:
        if "name" not in entry:
            raise InputError(f"node_scaling_machine_types: {dict(entry)} has no name")
        called = str(entry["name"])
        values = {key: value for key, value in entry.items() if key != "name"}
        size = read_size_or_demand(NodeSize, f"machine type {called}", values)
        if size is not None:
            extra_sizes[called] = size
    if name in extra_sizes:
        return extra_sizes[name]
    if name in AWS:
        return AWS[name]
    ibm = _IBM.fullmatch(name)
    if ibm:
        return NodeSize(float(ibm["cpu"]), float(ibm["memory"]), volumes=IBM_VOLUMES)
    raise InputError(
        f"machine type '{name}' is not known{suggest_similar_name(name, [*extra_sizes, *AWS])}; give its"
        " CPU and memory in "
        "node_scaling_machine_types"
    )
