# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the number of nodes for a number of users from the limits of a node."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest


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


def checked(of: type[Fields], name: str, given: Mapping[str, Any] | None) -> Fields | None:
    """Return ``given`` as NodeSize or UserDemand, None without it. Raises InputError naming ``name``."""
    if given is None:
        return None
    known = [one.name for one in fields(of)]  # type: ignore[arg-type]  # both are dataclasses
    wrong = next((key for key in given if key not in known), None)
    if wrong is not None:
        raise InputError(f"{name}: unknown field '{wrong}'{nearest(wrong, known)}")
    try:
        values = {key: (int if key in COUNTS else float)(value) for key, value in given.items()}
        return of(**values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: {error}") from error


def nodes_for(users: int, user: UserDemand, node: NodeSize) -> dict[str, Any]:
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
