# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Views of a timeline: intervals narrowed by the order of stages, rows by client, rows on real and simulated nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError

from .timeline_table import TimelineTable

#: Stage name -> arrays (rows,) of the earliest and the latest times; NaN where a workload did not reach it.
Spans = dict[str, tuple[Any, Any]]
#: The writer of the stages that a node makes.
NODE = "node"
#: The nodes of a workload: all real, all simulated, or some of each.
REAL, SIMULATED, MIXED = "real", "simulated", "mixed"
_BY_BITS = (None, REAL, SIMULATED, MIXED)
#: Most clients of a load: what others wrote must not fill the memory.
MOST_CLIENTS = 10_000


def rows_by_client(table: TimelineTable) -> dict[int, list[int]]:
    """Return client -> numbers of its rows, also of clients without any; empty for a load by one client."""
    clients = int(table.header.get("clients") or 0)
    if clients > MOST_CLIENTS:
        raise DataError(f"the timeline is of {clients:,} clients, and {MOST_CLIENTS:,} are the most of a load")
    rows: dict[int, list[int]] = {client: [] for client in range(clients)}
    for row, index in enumerate(table.index if clients else ()):
        rows[index % clients].append(row)
    return rows


def narrowed_spans(table: TimelineTable) -> Spans:
    """Return the narrowed intervals of the stages of a timeline, in seconds on the point's clock."""
    import numpy

    def view(column: Any) -> Any:
        return numpy.frombuffer(column) if len(table) else numpy.empty(0)

    sent = view(table.moments["sent"])
    measured = {name: (view(table.earliest[name]), view(table.latest[name])) for name in table.latest}
    needs = {name: [need for need in table.needs.get(name, ()) if need in measured] for name in measured}
    # The header lists stages after those that they wait for.
    order = [stage["name"] for stage in table.stages if stage["name"] in measured]
    return narrow_by_order(measured, [(name, needs[name]) for name in order], sent)


def narrow_by_order(
    measured: Mapping[str, tuple[Any, Any]], order: Iterable[tuple[str, Iterable[str]]], floor: Any
) -> Spans:
    """Return the intervals narrowed by ``order``: (stage, its needs), each stage after its needs.

    The intervals of two stages may overlap, and their midpoints may then be in the wrong order. So the earliest time of
    a stage is raised to that of each stage that it waits for, and the latest time of those is lowered to its own. The
    midpoints of the narrowed intervals are in order, and each lies within the measured interval. Intervals that
    contradict the order stay as measured: the timeline lists those rows.

    floor: array (rows,) of lower bounds for all stages, NaN for none.
    """
    import numpy

    first = {name: span[0] for name, span in measured.items()}
    last = {name: span[1] for name, span in measured.items()}
    steps = [(name, list(needs)) for name, needs in order]
    for name, needs in steps:
        for before in (floor, *(first[need] for need in needs)):
            # Comparisons with NaN are false: unknown times narrow nothing.
            fits = (before > first[name]) & (before <= last[name])
            first[name] = numpy.where(fits, before, first[name])
    for name, needs in reversed(steps):
        for need in needs:
            fits = (last[name] < last[need]) & (last[name] >= first[need])
            last[need] = numpy.where(fits, last[name], last[need])
    return {name: (first[name], last[name]) for name in measured}


class WorkloadNodes:
    """Notes for each of ``rows`` workloads the nodes of its pods. ``real``: names; every other node is simulated."""

    def __init__(self, rows: int, real: Iterable[str]) -> None:
        self._real = frozenset(real)
        self._seen = bytearray(rows)

    def see(self, row: int, node: str) -> None:
        """Note that a pod of a workload was bound to ``node``."""
        self._seen[row] |= 1 if node in self._real else 2

    def kinds_by_workload(self) -> list[str | None]:
        """Return the kind of nodes of each workload, None for one without a bound pod."""
        return [_BY_BITS[bits] for bits in self._seen]


def node_kind_of_timeline(table: TimelineTable) -> str | None:
    """Return the kind of nodes on which the workloads of a table ran, None if it is unknown."""
    kinds = set(table.nodes) - {None}
    return MIXED if len(kinds) > 1 else kinds.pop() if kinds else None


def split_real_simulated(table: TimelineTable) -> tuple[TimelineTable, TimelineTable] | None:
    """Return the workloads on real nodes, and the others; None unless there are both.

    A workload with pods on both kinds of nodes is among the others. One of which no pod was bound counts as real,
    unless its template ran on simulated nodes only: a figure must not look better for what never ran.
    """
    if node_kind_of_timeline(table) != MIXED:
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
    stages = [
        {**stage, "simulated": not others.isdisjoint((stage["writer"], *stage["needs"]))} for stage in table.stages
    ]
    return (
        table.taken(rows[0], {**table.header, "planned": len(rows[0]), "stages": stages}),
        table.taken(rows[1], {**table.header, "planned": len(rows[1])}),
    )
