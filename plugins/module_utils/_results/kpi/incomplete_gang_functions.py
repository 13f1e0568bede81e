# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KPI functions of gangs that hold room while they are incomplete: partial starts and deadlocks.

A gang holds room while any of its pods is on a node, and is complete while all of its pods run. Only workloads of more
than one pod start partially; one of a single pod is complete when that pod runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import isfinite, isnan

from ..timeline.pod_lifetimes import midpoint_of_span
from .point_data import KpiValue, PointData, kpi_function
from .scheduler_functions import WorkloadGangs, require_gangs, simulated_kpi_arguments

#: Seconds for which gangs block each other before it counts: much longer than the gap between two pods of a gang.
DEADLOCK_LEAST = 10.0


@kpi_function
def partial_starts(data: PointData) -> KpiValue:
    """Count the gangs that lost a pod before they were complete for the first time, or held room and never were."""
    gangs = require_gangs(data)
    rows = [row for row in range(data.of) if gangs.size[row] > 1]
    count = sum(1 for row in rows if _started_partially(gangs, row))
    return KpiValue(float(count), len(rows), len(rows), **simulated_kpi_arguments(data))


def _started_partially(gangs: WorkloadGangs, row: int) -> bool:
    on_nodes = [life for life in gangs.lives[row] if gangs.held(row, life) is not None]
    lost = [midpoint_of_span(life.ended) for life in on_nodes if life.end in ("failed", "deleted")]
    return bool(on_nodes) and (not isfinite(gangs.began[row]) or any(moment < gangs.began[row] for moment in lost))


@kpi_function
def deadlocks(data: PointData, least: float = DEADLOCK_LEAST) -> KpiValue:
    """Count how often two or more incomplete gangs held room for ``least`` seconds while no workload was complete.

    A deadlock ends when a workload is complete, or when at most one incomplete gang is left that holds room.
    """
    gangs = require_gangs(data)
    spans = [end - begin for begin, end in blocked_spans(gangs)]
    count = sum(1 for seconds in spans if seconds >= least)
    note = f"the longest lasted {max(spans):.1f} s" if count else ""
    return KpiValue(float(count), data.of, data.of, note=note, **simulated_kpi_arguments(data))


def blocked_spans(gangs: WorkloadGangs) -> Iterator[tuple[float, float]]:
    """Yield begin and end of each time in which incomplete gangs held room, at least two, and none was complete."""
    changes: dict[float, list[tuple[int, int, int]]] = {}  # moment -> (row, pods on nodes, pods that run)
    for row, lives in enumerate(gangs.lives):
        for life in lives:
            held = gangs.held(row, life)
            if held is None:
                continue
            running = midpoint_of_span(life.running)
            begin, end = held
            changes.setdefault(begin, []).append((row, 1, 0))
            changes.setdefault(end, []).append((row, -1, 0))
            if not isnan(running):
                changes.setdefault(running, []).append((row, 0, 1))
                changes.setdefault(max(end, running), []).append((row, 0, -1))
    on_nodes, running_pods = Counter[int](), Counter[int]()
    incomplete, complete = set[int](), set[int]()
    since: float | None = None
    for moment in sorted(changes):
        for row, on_node, runs in changes[moment]:
            on_nodes[row] += on_node
            running_pods[row] += runs
        for row in {change[0] for change in changes[moment]}:
            whole = running_pods[row] >= gangs.size[row]
            (complete.add if whole else complete.discard)(row)
            blocks = gangs.size[row] > 1 and on_nodes[row] > 0 and not whole
            (incomplete.add if blocks else incomplete.discard)(row)
        blocked = len(incomplete) > 1 and not complete
        if blocked and since is None:
            since = moment
        elif not blocked and since is not None:
            yield since, moment
            since = None
