# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the nodes on which a workload's pods ran are real or simulated, on a cluster that has both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from .timeline_table import Table

#: The writer of the stages that a node makes.
NODE = "node"
#: The nodes of a workload: all real, all simulated, or some of each.
REAL, SIMULATED, MIXED = "real", "simulated", "mixed"
_BY_BITS = (None, REAL, SIMULATED, MIXED)


class WorkloadNodes:
    """Notes for each of ``rows`` workloads the nodes of its pods. ``real``: names; every other node is simulated."""

    def __init__(self, rows: int, real: Iterable[str]) -> None:
        self._real = frozenset(real)
        self._seen = bytearray(rows)

    def see(self, row: int, node: str) -> None:
        """Note that a pod of a workload was bound to ``node``."""
        self._seen[row] |= 1 if node in self._real else 2

    def kinds(self) -> list[str | None]:
        """Return the kind of nodes of each workload, None for one without a bound pod."""
        return [_BY_BITS[bits] for bits in self._seen]


def node_kinds_of(table: Table) -> str | None:
    """Return the kind of nodes on which the workloads of a table ran, None if it is unknown."""
    kinds = set(table.nodes) - {None}
    return MIXED if len(kinds) > 1 else kinds.pop() if kinds else None


def split_real_simulated(table: Table) -> tuple[Table, Table] | None:
    """Return the workloads on real nodes, and the others; None unless there are both.

    A workload with pods on both kinds of nodes is among the others. One of which no pod was bound counts as real,
    unless its template ran on simulated nodes only: a figure must not look better for what never ran.
    """
    if node_kinds_of(table) != MIXED:
        return None
    of_template: dict[str, set[str | None]] = defaultdict(set)
    for template, kind in zip(table.template, table.nodes, strict=True):
        of_template[template].add(kind)
    simulated_templates = {template for template, kinds in of_template.items() if REAL not in kinds and kinds != {None}}
    rows: tuple[list[int], list[int]] = ([], [])
    for row, kind in enumerate(table.nodes):
        real = kind == REAL or (kind is None and table.template[row] not in simulated_templates)
        rows[0 if real else 1].append(row)
    if not rows[0] or not rows[1]:
        return None
    others = set(table.header.get("simulated_writers") or ()) - {NODE}
    stages = [{**one, "simulated": not others.isdisjoint((one["writer"], *one["needs"]))} for one in table.stages]
    return (
        table.taken(rows[0], {**table.header, "planned": len(rows[0]), "stages": stages}),
        table.taken(rows[1], {**table.header, "planned": len(rows[1])}),
    )
