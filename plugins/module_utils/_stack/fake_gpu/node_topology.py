# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Racks, blocks and other levels of the topology of simulated nodes, as labels of the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError


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
