# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KPI functions of fairness between queues: shares over time against entitlements, starvation, lost work.

The share of a queue is its dominant share: the largest of the shares that its pods hold of any resource (A. Ghodsi et
al., Dominant Resource Fairness, NSDI 2011). A queue is entitled to the dominant share of as much of what it
requests as fits into its quota; queues that state none divide the rest of the capacity by their weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..timeline.pod_lifetimes import SUCCEEDED, midpoint_of_span
from .point_data import ENDED, SENT, KpiValue, PointData, kpi_function
from .scheduler_functions import (
    WorkloadGangs,
    gang_wait_times,
    require_bottleneck_resource,
    require_gangs,
    seconds_until_load_ended,
    simulated_kpi_arguments,
)

#: A workload starves if it waits longer than this multiple of the median wait and than this many seconds.
STARVING, STARVING_LEAST = 4.0, 10.0
#: Shares below this are none: sums of decimal fractions are not exact.
ROUNDING = 1e-9
#: Ends of pods whose work was lost.
LOST = ("failed", "deleted")


@dataclass(frozen=True)
class QueueShares:
    """A queue over time, as steps from ``moments[i]`` on: the share that its pods held, and what waited, 0 to 1.

    wanted: the dominant share of all workloads that were sent and had not done their work.
    """

    entitlement: float
    moments: list[float]
    held: list[float]
    wanted: list[float]

    def spans(self, until: float) -> Iterable[tuple[float, float, float]]:
        """Yield (seconds, held, waiting) of each step between 0 and ``until``."""
        for place, begin in enumerate(self.moments):
            end = self.moments[place + 1] if place + 1 < len(self.moments) else until
            seconds = min(end, until) - max(begin, 0.0)
            if seconds > 0:
                yield seconds, self.held[place], max(self.wanted[place] - self.held[place], 0.0)


def dominant_share(amounts: Mapping[str, float], capacity: Mapping[str, float]) -> float:
    """Return the largest share of any resource, 0 to 1. Resources without a capacity do not count."""
    return max((amount / capacity[name] for name, amount in amounts.items() if capacity.get(name)), default=0.0)


def entitlements_of_queues(gangs: WorkloadGangs) -> dict[str, float]:
    """Return the share of the capacity that each queue with workloads is entitled to, 0 to 1."""
    stated = {queue: _share_of_quota(gangs, queue) for queue in dict.fromkeys(gangs.queue)}
    rest = max(1.0 - sum(stated.values()), 0.0)
    weights = {queue: gangs.weights.get(queue, 1.0) for queue, share in stated.items() if share <= 0}
    whole = sum(weights.values()) or 1.0
    return {queue: share or rest * weights.get(queue, 0.0) / whole for queue, share in stated.items()}


def _share_of_quota(gangs: WorkloadGangs, queue: str) -> float:
    """Return the dominant share of as much of what a queue requests as its quota holds; 0 without a quota."""
    quota = gangs.quotas.get(queue, {})
    requested: dict[str, float] = {}
    for row in (row for row, name in enumerate(gangs.queue) if name == queue):
        for resource, amount in gangs.request[row].items():
            requested[resource] = requested.get(resource, 0.0) + amount * gangs.size[row]
    parts = [quota[resource] / amount for resource, amount in requested.items() if amount > 0 and resource in quota]
    return min(parts) * dominant_share(requested, gangs.capacity) if parts else 0.0


def shares_of_queue(data: PointData, queue: str) -> QueueShares:
    """Return the shares of a queue over time, computed once. Raises NoFigure if the plan does not describe them."""
    gangs = require_gangs(data)
    require_bottleneck_resource(data, gangs)
    known: QueueShares | None = gangs.queue_shares.get(queue)
    if known is None:
        known = gangs.queue_shares[queue] = _shares_of_queue(data, gangs, queue)
    return known


def _shares_of_queue(data: PointData, gangs: WorkloadGangs, queue: str) -> QueueShares:
    sent = data.stage_bounds(SENT)[0]
    resources = gangs.resources()
    capacity = data.np.array([gangs.capacity[name] for name in resources])
    changes: dict[float, list[tuple[int, Any]]] = {0.0: []}
    for row in (row for row, one in enumerate(gangs.queue) if one == queue):
        request = data.np.array([gangs.request[row].get(name, 0.0) for name in resources])
        spans = [(0, request, span) for life in gangs.lives[row] if (span := gangs.held(row, life))]
        if not data.np.isnan(sent[row]):
            spans += [(1, request, (float(sent[row]), end)) for end in _ends_of_work(gangs, row)]
        for kind, amount, (begin, end) in spans:
            changes.setdefault(begin, []).append((kind, amount))
            changes.setdefault(end, []).append((kind, -amount))
    levels = data.np.zeros((2, len(resources)))
    shares = QueueShares(entitlements_of_queues(gangs).get(queue, 0.0), [], [], [])
    for moment in sorted(changes):
        for kind, amount in changes[moment]:
            levels[kind] += amount
        held, wanted = (levels / capacity).max(axis=1, initial=0.0)
        shares.moments.append(moment)
        shares.held.append(float(held))
        shares.wanted.append(float(wanted))
    return shares


def _ends_of_work(gangs: WorkloadGangs, row: int) -> list[float]:
    """Return when each pod of a gang had done its work; the end of the observation for those that had not."""
    ends = [midpoint_of_span(life.ended) for life in gangs.lives[row] if life.end == SUCCEEDED][: gangs.size[row]]
    return ends + [gangs.horizon] * (gangs.size[row] - len(ends))


@kpi_function
def share_held(data: PointData, queue: str) -> KpiValue:
    """Dominant share of a queue in percent, mean over the time of the load in which it had workloads."""
    shares = shares_of_queue(data, queue)
    rows = require_gangs(data).queue.count(queue)
    steps = shares.spans(seconds_until_load_ended(data))
    spans = [(seconds, held) for seconds, held, waiting in steps if held + waiting > ROUNDING]
    length = sum(seconds for seconds, _held in spans)
    labels = {"queue": queue, "entitlement": round(100 * shares.entitlement, 1)}
    if not length:
        return KpiValue(None, 0, rows, note="it had no workload", labels=labels, **simulated_kpi_arguments(data))
    value = 100 * sum(seconds * held for seconds, held in spans) / length
    note = f"entitled to {formats.format_number(100 * shares.entitlement)} %"
    return KpiValue(value, rows, rows, note=note, labels=labels, **simulated_kpi_arguments(data))


@kpi_function
def share_withheld(data: PointData, queue: str) -> KpiValue:
    """Share of what a queue is entitled to that it did not hold although its workloads waited for it, in percent.

    Over the time of the load: the area between entitlement and held share, but no more than what waited.
    """
    shares = shares_of_queue(data, queue)
    rows = require_gangs(data).queue.count(queue)
    length = seconds_until_load_ended(data)
    labels = {"queue": queue, "entitlement": round(100 * shares.entitlement, 1)}
    if not length or not shares.entitlement:
        note = "it is entitled to nothing" if length else "no time passed"
        return KpiValue(None, 0, rows, note=note, labels=labels, **simulated_kpi_arguments(data))
    lacking = sum(
        seconds * min(max(shares.entitlement - held, 0.0), waiting) for seconds, held, waiting in shares.spans(length)
    )
    value = 100 * lacking / (shares.entitlement * length)
    return KpiValue(value, rows, rows, labels=labels, **simulated_kpi_arguments(data))


@kpi_function
def work_lost(data: PointData, queue: str = "", per: str = "seconds") -> KpiValue:
    """Work that pods had done before they were preempted or failed.

    per: ``seconds``, amounts of the scarcest resource times the seconds for which these pods had run; ``held``, the
    percentage of all that pods held of it, over ``queue`` if given.
    """
    if per not in ("seconds", "held"):
        raise formats.unknown_value_error("per", per, ("seconds", "held"))
    gangs = require_gangs(data)
    name = require_bottleneck_resource(data, gangs)
    lost = whole = 0.0
    rows = [row for row, one in enumerate(gangs.queue) if queue in ("", one)]
    for row in rows:
        request = gangs.request[row].get(name, 0.0)
        for life in gangs.lives[row]:
            held = gangs.held(row, life)
            ran = midpoint_of_span(life.running)
            whole += (held[1] - held[0]) * request if held else 0.0
            if held and life.end in LOST and isfinite(ran):
                lost += max(held[1] - ran, 0.0) * request
    labels = {"resource": name, **({"queue": queue} if queue else {})}
    value = lost if per == "seconds" else 100 * lost / whole if whole else None
    note = "" if value is not None else "no pod had a node"
    return KpiValue(value, len(rows), len(rows), note=note, labels=labels, **simulated_kpi_arguments(data))


def overlap_of_time_spans(span: tuple[float, float] | None, window: tuple[float, float]) -> float:
    """Return how many seconds of ``span`` lie in ``window``."""
    return max(min(span[1], window[1]) - max(span[0], window[0]), 0.0) if span else 0.0


def jain_fairness_index(shares: Iterable[float]) -> float | None:
    """Return Jain's index of fairness (R. Jain, D. Chiu, W. Hawe, DEC TR-301, 1984): (Σx)² / (n Σx²).

    1 if all shares are equal, 1/n if one has everything. None if all shares are 0.
    """
    values = list(shares)
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares > 0 else None


@kpi_function
def fairness(data: PointData, resource: str = "") -> KpiValue:
    """Jain's fairness index of the resource-seconds that queues held, over their weights; 1 is even.

    Over the time in which every queue had workloads. resource: by default the one with the largest requested share.
    """
    gangs = require_gangs(data)
    name = resource or require_bottleneck_resource(data, gangs)
    window = _time_all_queues_busy(data, gangs)
    if window is None:
        return KpiValue(None, 0, data.of, note="at no time did two queues have workloads")
    shares: dict[str, float] = {}
    for row, queue in enumerate(gangs.queue):
        seconds = sum(overlap_of_time_spans(gangs.held(row, life), window) for life in gangs.lives[row])
        weight = gangs.weights.get(queue, 1.0) or 1.0
        shares[queue] = shares.get(queue, 0.0) + seconds * gangs.request[row].get(name, 0.0) / weight
    value = jain_fairness_index(shares.values())
    note = (
        f"in the {formats.format_duration(window[1] - window[0])} in which"
        f" {formats.format_count(len(shares), 'queue')} had workloads"
    )
    labels = {"resource": name, "share": {queue: round(share, 3) for queue, share in sorted(shares.items())}}
    return KpiValue(value, data.of, data.of, note=note, labels=labels, **simulated_kpi_arguments(data))


def _time_all_queues_busy(data: PointData, gangs: WorkloadGangs) -> tuple[float, float] | None:
    """Return the time from when every queue had a workload until the first queue was empty."""
    sent = data.stage_bounds(SENT)[0]
    ended = data.stage_midpoints(ENDED) if data.knows(ENDED) else data.np.full(data.of, nan)
    begin: dict[str, float] = {}
    end: dict[str, float] = {}
    for row, queue in enumerate(gangs.queue):
        if data.np.isnan(sent[row]):
            continue
        stop = float(ended[row]) if not data.np.isnan(ended[row]) else gangs.horizon
        begin[queue] = min(begin.get(queue, float(sent[row])), float(sent[row]))
        end[queue] = max(end.get(queue, stop), stop)
    if len(begin) < 2:
        return None
    window = max(begin.values()), min(end.values())
    return window if window[1] > window[0] else None


@kpi_function
def starving(data: PointData, factor: float = STARVING, least: float = STARVING_LEAST) -> KpiValue:
    """Count the workloads that waited longer than ``factor`` times the median wait and than ``least`` seconds.

    For a workload that never ran as a whole, the wait is its whole observed time.
    """
    gangs = require_gangs(data)
    np = data.np
    sample = gang_wait_times(data, gangs, np.ones(data.of, dtype=bool))
    waits = np.where(np.isnan(sample.rows), sample.waited, sample.rows)
    limit = max(float(np.median(waits)) * float(factor), float(least)) if data.of else 0.0
    count = int((waits > limit).sum())
    note = f"longer than {formats.format_duration(limit)}"
    return KpiValue(float(count), data.of, data.of, note=note, **simulated_kpi_arguments(data))
