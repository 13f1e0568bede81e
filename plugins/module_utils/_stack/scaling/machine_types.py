# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPU and memory of machine types: families of AWS, profiles of IBM Cloud, and types of the user or of a lab."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest

from . import node_sizing
from .node_sizing import NodeSize

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


def _of_aws() -> dict[str, NodeSize]:
    found = {}
    for family, (per_cpu, sizes) in AWS_FAMILIES.items():
        for size in sizes.split():
            cpu = 2 if size == "large" else 4 * int(size.removesuffix("xlarge") or 1)
            found[f"{family}.{size}"] = NodeSize(cpu, cpu * per_cpu, volumes=AWS_VOLUMES)
    return {**found, **{name: NodeSize(*both, volumes=AWS_VOLUMES) for name, both in AWS_OTHERS.items()}}


AWS = _of_aws()


def size_of(name: str, more: Iterable[Mapping[str, Any]] = ()) -> NodeSize:
    """Return the size of a machine type. more: further types, with name and fields of NodeSize; they come first.

    Raises InputError for an unknown type, or one with wrong fields.
    """
    given: dict[str, NodeSize] = {}
    for entry in more:
        if "name" not in entry:
            raise InputError(f"node_scaling_machine_types: {dict(entry)} has no name")
        called = str(entry["name"])
        values = {key: value for key, value in entry.items() if key != "name"}
        size = node_sizing.checked(NodeSize, f"machine type {called}", values)
        if size is not None:
            given[called] = size
    if name in given:
        return given[name]
    if name in AWS:
        return AWS[name]
    ibm = _IBM.fullmatch(name)
    if ibm:
        return NodeSize(float(ibm["cpu"]), float(ibm["memory"]), volumes=IBM_VOLUMES)
    raise InputError(
        f"machine type '{name}' is not known{nearest(name, [*given, *AWS])}; give its CPU and memory in "
        "node_scaling_machine_types"
    )
