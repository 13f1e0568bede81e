# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many nodes a number of users needs: the rule, and the limits that it rests on."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError


@dataclass(frozen=True)
class NodeSize:
    """One node. ``cpu`` in cores, ``memory`` in GiB; what is reserved of them is for the system and its daemons.

    ``pods``: how many the kubelet admits (OpenShift's default is 250), ``volumes``: how many can be attached (0: no
    limit is known).
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
    """What one user needs at once. ``cpu`` in cores, ``memory`` in GiB."""

    cpu: float
    memory: float
    pods: int = 1
    volumes: int = 0


def nodes_for(users: int, user: UserDemand, node: NodeSize) -> dict[str, Any]:
    """Return the number of nodes, what each limit alone asks for, and which of them decides.

    Pods are not split over nodes, so of each limit only whole users count: floor(room / need) fit on a node.
    ``nodes_if_split`` is what the usual rule says, ceil(users * need / room) of the scarcest, which may be too few.
    Raises InputError when one user does not fit.
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
        # A little more than exactly what is there is what arithmetic in binary makes of 0.1 + 0.2.
        fit[name] = math.floor(room / need + 1e-9)
        if fit[name] < 1:
            raise InputError(f"a user needs {need:g} of {name}, and a node has room for {max(room, 0):g}")
    by_limit = {name: math.ceil(users / number) for name, number in fit.items()}
    # A node has to stay within all limits with the same users on it.
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
