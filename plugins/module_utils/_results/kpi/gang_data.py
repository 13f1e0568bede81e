# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gangs of a point: what each requested and what its pods held, from when to when. Input of scheduler_functions.

The plan states queue, priority, pods and requests of a workload as parameter ``scheduling`` of its template:
``{queue, priority, pods, requests: {resource: quantity}, capacity: {resource: quantity}, weights: {queue: number}}``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, isfinite, isnan
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.kube_quantity import amount

from ..timeline.pod_lifetimes import SUCCEEDED, PodLifetime, middle, whole_since
from .point_data import ENDED, PointData

PARAMETER = "scheduling"
#: Queue or priority of a workload that names none.
NONE = "none"


class Gangs:
    """Gangs by the row of their workload. Times in seconds after the start of the load, as midpoints of spans."""

    def __init__(self, data: PointData, plan: Mapping[str, Any], pods: Iterable[PodLifetime]) -> None:
        templates = plan.get("templates") or []
        scheduling = {one["name"]: (one.get("parameters") or {}).get(PARAMETER) or {} for one in templates}
        of = [scheduling.get(name, {}) for name in data.table.template]
        self.known = any(of)
        self.queue = [str(one.get("queue") or NONE) for one in of]
        self.priority = [str(one.get("priority") or NONE) for one in of]
        self.size = [int(one.get("pods") or 1) for one in of]
        self.request = [{name: amount(text) for name, text in (one.get("requests") or {}).items()} for one in of]
        first: Mapping[str, Any] = next((one for one in of if one), {})
        self.capacity = {name: amount(text) for name, text in (first.get("capacity") or {}).items() if amount(text) > 0}
        self.weights = {str(name): float(weight) for name, weight in (first.get("weights") or {}).items()}
        self.horizon = max(data.end - data.start, 0.0)
        row_of = {index: row for row, index in enumerate(data.table.index)}
        self.lives: list[list[PodLifetime]] = [[] for _row in of]
        for life in pods:
            if life.index in row_of:
                self.lives[row_of[life.index]].append(life)
        self.began = [whole_since(lives, size) for lives, size in zip(self.lives, self.size, strict=True)]
        self.done = [self._complete(lives, size) for lives, size in zip(self.lives, self.size, strict=True)]

    def _complete(self, lives: list[PodLifetime], size: int) -> float:
        """Return since when all pods that succeeded or still run ran together; infinite if fewer than ``size``."""
        final = [middle(one.running, inf) for one in lives if one.end in ("", SUCCEEDED)]
        final = sorted(one for one in final if isfinite(one))
        return final[size - 1] if len(final) >= size else inf

    def held(self, row: int, life: PodLifetime) -> tuple[float, float] | None:
        """Return the time in which a pod held its requests: from its scheduling until its end."""
        begin = middle(life.scheduled)
        if isnan(begin):
            return None
        return begin, max(middle(life.ended, self.horizon), begin)

    def worked(self, row: int, life: PodLifetime) -> tuple[float, float] | None:
        """Return the useful time of a pod: its whole gang ran, and it succeeded or still runs."""
        held = self.held(row, life)
        if held is None or life.end not in ("", SUCCEEDED) or not isfinite(self.done[row]):
            return None
        begin = max(middle(life.running, inf), self.done[row])
        return (begin, held[1]) if held[1] > begin else None

    def work(self, row: int) -> float | None:
        """Return how long the gang ran as a whole, in seconds; None for one that did not succeed."""
        if not isfinite(self.done[row]) or any(one.end == "" for one in self.lives[row]):
            return None
        ends = [middle(one.ended) for one in self.lives[row] if one.end == SUCCEEDED]
        return max(ends) - self.done[row] if len(ends) >= self.size[row] else None

    def resources(self) -> list[str]:
        """Return the resources that are requested and whose capacity is known."""
        asked = {name for one in self.request for name, value in one.items() if value > 0}
        return [name for name in self.capacity if name in asked]

    def bottleneck(self) -> str | None:
        """Return the resource with the largest requested share of its capacity, over all workloads, or None."""
        share = {
            name: sum(one.get(name, 0.0) * size for one, size in zip(self.request, self.size, strict=True)) / capacity
            for name, capacity in self.capacity.items()
        }
        return max(self.resources(), key=lambda name: share[name], default=None)


def span_of(data: PointData) -> float:
    """Return the length of the load in seconds: until the last workload ended, or the observation if some did not."""
    if not data.of:
        return 0.0
    ended = data.middle(ENDED) if data.knows(ENDED) else data.np.array([data.np.nan])
    stop = max(data.end - data.start, 0.0)
    return stop if data.np.isnan(ended).any() else float(ended.max())


def within(span: tuple[float, float] | None, window: tuple[float, float]) -> float:
    """Return how many seconds of ``span`` lie in ``window``."""
    return max(min(span[1], window[1]) - max(span[0], window[0]), 0.0) if span else 0.0


def jain(shares: Iterable[float]) -> float | None:
    """Return Jain's index of fairness (R. Jain, D. Chiu, W. Hawe, DEC TR-301, 1984): (Σx)² / (n Σx²).

    1 if all shares are equal, 1/n if one has everything. None if all shares are 0.
    """
    values = list(shares)
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares > 0 else None


def least_makespan(released: Iterable[float], works: Iterable[float], rates: Iterable[float]) -> float:
    """Return a lower bound of the makespan of any schedule, in seconds after 0.

    released: release times, in seconds. works: run times, in seconds. rates: share of the capacity that each job uses
    while it runs. The maximum of two bounds: a job ends no earlier than its release plus its run time; and for each
    time t, the jobs released from t on need at least the sum of their run time × share.
    """
    rows = sorted(zip(released, works, rates, strict=True))
    bound = max((begin + work for begin, work, _rate in rows), default=0.0)
    left = 0.0
    for begin, work, rate in reversed(rows):
        left += work * rate
        bound = max(bound, begin + left)
    return bound
