# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Narrow the intervals of stages by the order of stages: no stage precedes one that it waits for.

The intervals of two stages may overlap, and their midpoints may then be in the wrong order. So the earliest time of a
stage is raised to that of each stage that it waits for, and the latest time of those is lowered to its own. The
midpoints of the narrowed intervals are in order, and each lies within the measured interval. Intervals that contradict
the order stay as measured: the timeline lists those rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .timeline_table import Table

#: Stage name -> arrays (rows,) of the earliest and the latest times; NaN where a workload did not reach it.
Spans = dict[str, tuple[Any, Any]]


def narrowed_spans(table: Table) -> Spans:
    """Return the narrowed intervals of the stages of a timeline, in seconds on the point's clock."""
    import numpy

    def view(column: Any) -> Any:
        return numpy.frombuffer(column) if len(table) else numpy.empty(0)

    sent = view(table.moments["sent"])
    measured = {name: (view(table.earliest[name]), view(table.latest[name])) for name in table.latest}
    needs = {name: [one for one in table.needs.get(name, ()) if one in measured] for name in measured}
    # The header lists stages after those that they wait for.
    order = [one["name"] for one in table.stages if one["name"] in measured]
    return narrow_by_order(measured, [(name, needs[name]) for name in order], sent)


def narrow_by_order(
    measured: Mapping[str, tuple[Any, Any]], order: Iterable[tuple[str, Iterable[str]]], floor: Any
) -> Spans:
    """Return the intervals narrowed by ``order``: (stage, its needs), each stage after its needs.

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
