# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KPI functions for evaluating a scheduler: waiting, utilisation, gangs, preemptions.

They need all pod lifetimes, and the requests of each workload, which the plan states as parameter ``scheduling`` of its
template: ``{queue, priority, pods, requests: {resource: quantity}, capacity: {resource: quantity}, weights: {queue:
number}}``. Without these they return no value and a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, isfinite, isnan, nan
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import parse_kube_quantity

from ..timeline.pod_lifetimes import SUCCEEDED, PodLifetime, PodLifetimes, first_moment_all_run, midpoint_of_span
from .censored_quantiles import DurationSample, parse_quantile
from .point_data import ENDED, SCHEDULING, SENT, KpiValue, NoFigure, PointData, kpi_function

#: Queue or priority of a workload that names none.
NONE = "none"
UNKNOWN = "the plan does not state the requests of the workloads"
NO_CAPACITY = "the capacity that the plan states has none of the requested resources"
PARTS = ("held", "useful", "unfinished", "waiting", "lost")


#: Most pods of all workloads of a point.
MOST_PODS = 20_000_000


class WorkloadGangs:
    """Gangs by the row of their workload. Times in seconds after the start of the load, as midpoints of spans."""

    def __init__(self, data: PointData, plan: Mapping[str, Any], pods: Iterable[PodLifetime]) -> None:
        templates = plan.get("templates") or []
        scheduling = {
            template["name"]: (template.get("parameters") or {}).get(SCHEDULING) or {} for template in templates
        }
        of = [scheduling.get(name, {}) for name in data.table.template]
        self.known = any(of)
        self.queue = [str(parameters.get("queue") or NONE) for parameters in of]
        self.priority = [str(parameters.get("priority") or NONE) for parameters in of]
        self.size = [int(parameters.get("pods") or 1) for parameters in of]
        if (number := sum(self.size)) > MOST_PODS:
            raise DataError(f"the plan has {number:,} pods of workloads, and {MOST_PODS:,} are the most of a point")
        self.request = [
            {name: parse_kube_quantity(text) for name, text in (parameters.get("requests") or {}).items()}
            for parameters in of
        ]
        first: Mapping[str, Any] = next((parameters for parameters in of if parameters), {})
        self.capacity = {
            name: parse_kube_quantity(text)
            for name, text in (first.get("capacity") or {}).items()
            if parse_kube_quantity(text) > 0
        }
        self.weights = {str(name): float(weight) for name, weight in (first.get("weights") or {}).items()}
        self.quotas = {
            str(queue): {name: parse_kube_quantity(text) for name, text in quota.items()}
            for queue, quota in (first.get("quotas") or {}).items()
        }
        #: What placement_functions reads and keeps.
        # The first template has it, which need not be that of the first row.
        self.stated_topology: Mapping[str, Any] = next((one["topology"] for one in of if one.get("topology")), {})
        self.topology: Any = None
        self.free_slots: dict[str, Any] = {}
        #: What fairness_functions keeps.
        self.queue_shares: dict[str, Any] = {}
        self.horizon = max(data.end - data.start, 0.0)
        row_of = {index: row for row, index in enumerate(data.table.index)}
        self.lives: list[list[PodLifetime]] = [[] for _row in of]
        for life in pods:
            if life.index in row_of:
                self.lives[row_of[life.index]].append(life)
        self.began = [first_moment_all_run(lives, size) for lives, size in zip(self.lives, self.size, strict=True)]
        self.done = [self._complete(lives, size) for lives, size in zip(self.lives, self.size, strict=True)]
        #: Whether all pods of a gang succeeded.
        self.succeeded = [
            sum(life.end == SUCCEEDED for life in lives) >= size
            for lives, size in zip(self.lives, self.size, strict=True)
        ]

    def _complete(self, lives: list[PodLifetime], size: int) -> float:
        """Return since when all pods that succeeded or still run ran together; infinite if fewer than ``size``."""
        final = [midpoint_of_span(life.running, inf) for life in lives if life.end in ("", SUCCEEDED)]
        final = sorted(moment for moment in final if isfinite(moment))
        return final[size - 1] if len(final) >= size else inf

    def held(self, row: int, life: PodLifetime) -> tuple[float, float] | None:
        """Return the time in which a pod held its requests: from its scheduling until its end."""
        begin = midpoint_of_span(life.scheduled)
        if isnan(begin):
            return None
        return begin, max(midpoint_of_span(life.ended, self.horizon), begin)

    def worked(self, row: int, life: PodLifetime) -> tuple[float, float] | None:
        """Return the time of a pod in which its whole gang ran, if it succeeded or still runs."""
        held = self.held(row, life)
        if held is None or life.end not in ("", SUCCEEDED) or not isfinite(self.done[row]):
            return None
        begin = max(midpoint_of_span(life.running, inf), self.done[row])
        return (begin, held[1]) if held[1] > begin else None

    def work(self, row: int) -> float | None:
        """Return how long the gang ran as a whole, in seconds; None for one that did not succeed."""
        if not isfinite(self.done[row]) or any(life.end == "" for life in self.lives[row]):
            return None
        ends = [midpoint_of_span(life.ended) for life in self.lives[row] if life.end == SUCCEEDED]
        return max(ends) - self.done[row] if len(ends) >= self.size[row] else None

    def resources(self) -> list[str]:
        """Return the resources that are requested and whose capacity is known."""
        asked = {name for request in self.request for name, value in request.items() if value > 0}
        return [name for name in self.capacity if name in asked]

    def bottleneck(self) -> str | None:
        """Return the resource with the largest requested share of its capacity, over all workloads, or None."""
        share = {
            name: sum(share.get(name, 0.0) * size for share, size in zip(self.request, self.size, strict=True))
            / capacity
            for name, capacity in self.capacity.items()
        }
        return max(self.resources(), key=lambda name: share[name], default=None)


def seconds_until_load_ended(data: PointData) -> float:
    """Return the length of the load in seconds: until the last workload ended, or the observation if some did not."""
    if not data.of:
        return 0.0
    ended = data.stage_midpoints(ENDED) if data.knows(ENDED) else data.np.array([data.np.nan])
    stop = max(data.end - data.start, 0.0)
    return stop if data.np.isnan(ended).any() else float(ended.max())


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


def gangs_of_point(data: PointData) -> WorkloadGangs | None:
    """Return the gangs of a point, computed once; None if the plan does not describe them."""
    if data.gangs is None:
        lives: PodLifetimes | None = data.extras.lives() if data.extras.lives else None
        data.gangs = WorkloadGangs(data, lives.plan, lives.pods) if lives is not None else False
    return data.gangs if data.gangs and data.gangs.known else None


def distinct_queue_names(data: PointData) -> list[str]:
    """Return the queues that workloads name, sorted."""
    gangs = gangs_of_point(data)
    return sorted(set(gangs.queue)) if gangs else []


def distinct_priority_names(data: PointData) -> list[str]:
    """Return the priorities that workloads name, sorted."""
    gangs = gangs_of_point(data)
    return sorted(set(gangs.priority)) if gangs else []


def unknown_kpi_value(data: PointData) -> KpiValue:
    return KpiValue(None, 0, data.of, note=UNKNOWN, inapplicable=True)


def require_gangs(data: PointData) -> WorkloadGangs:
    """Return the gangs of a point. Raises NoFigure if the plan does not describe them."""
    gangs = gangs_of_point(data)
    if gangs is None:
        raise NoFigure(unknown_kpi_value(data))
    return gangs


def require_bottleneck_resource(data: PointData, gangs: WorkloadGangs) -> str:
    """Return the resource with the largest requested share. Raises NoFigure if no capacity is stated for any.

    The point could have the figure, with another capacity, so the figure is not inapplicable.
    """
    name = gangs.bottleneck()
    if name is None:
        raise NoFigure(KpiValue(None, 0, data.of, note=NO_CAPACITY))
    return name


def simulated_kpi_arguments(data: PointData) -> dict[str, Any]:
    """Return the arguments simulated and writers of a KpiValue that depends on whole pod lifetimes."""
    stages = [stage for stage in ("pods_running", "running", "succeeded") if data.knows(stage)]
    provenances = [data.provenance(stage) for stage in stages]
    writers = sorted({writer for provenance in provenances for writer in provenance["writers"]})
    return {"simulated": any(provenance["simulated"] for provenance in provenances), "writers": tuple(writers)}


@kpi_function
def waiting(data: PointData, quantile: Any, queue: str = "", priority: str = "") -> KpiValue:
    """A quantile of the seconds from sending a workload until its whole gang ran at once for the first time.

    Over all planned workloads, or those of ``queue`` and ``priority`` if given. Kaplan-Meier (censored_quantiles.py).
    """
    gangs = require_gangs(data)
    np = data.np
    chosen = np.array(
        [
            queue in ("", gang_queue) and priority in ("", two)
            for gang_queue, two in zip(gangs.queue, gangs.priority, strict=True)
        ]
    )
    sample = gang_wait_times(data, gangs, chosen)
    q = parse_quantile(quantile)
    estimate = sample.quantile(q)
    note = ""
    if estimate.at_least is not None:
        note = f"{sample.of - estimate.n:,} of {sample.of:,} never ran as a whole"
    elif sample.censored:
        note = f"{sample.censored:,} of {sample.of:,} were still waiting at the end: Kaplan-Meier estimate"
    labels = {name: text for name, text in (("queue", queue), ("priority", priority)) if text}
    return KpiValue.of_estimate(
        estimate,
        note=note,
        labels={**labels, "quantile": str(quantile)},
        **data.bootstrap_quantile(sample, q, estimate.value),
        **simulated_kpi_arguments(data),
    )


def gang_wait_times(data: PointData, gangs: WorkloadGangs, chosen: Any) -> DurationSample:
    np = data.np
    sent = data.stage_bounds(SENT)[0]
    began = np.array([moment if isfinite(moment) else nan for moment in gangs.began]) - sent
    waited = np.nan_to_num(np.maximum(gangs.horizon - sent, 0.0), nan=0.0)
    return DurationSample(began[chosen], began[chosen], began[chosen], waited[chosen], data.waiting[chosen])


@kpi_function
def ideal_makespan(data: PointData) -> KpiValue:
    """Lower bound of the makespan in seconds: no schedule of these jobs on this capacity is shorter.

    Computed from the measured run times, as the maximum over resources of least_makespan().
    """
    gangs = require_gangs(data)
    value, n = _ideal_makespan_of_point(data, gangs)
    note = "" if n == data.of else f"{data.of - n:,} of {data.of:,} did not succeed and are left out"
    return KpiValue(value, n, data.of, note=note, **simulated_kpi_arguments(data))


def _ideal_makespan_of_point(data: PointData, gangs: WorkloadGangs) -> tuple[float | None, int]:
    sent = data.stage_bounds(SENT)[0]
    rows = [(row, work) for row in range(data.of) if (work := gangs.work(row)) is not None]
    if not rows:
        return None, 0
    bounds = []
    for resource in gangs.resources() or [""]:
        rates = [
            gangs.request[row].get(resource, 0.0) * gangs.size[row] / gangs.capacity.get(resource, 1.0)
            for row, _w in rows
        ]
        bounds.append(least_makespan([float(sent[row]) for row, _work in rows], [work for _row, work in rows], rates))
    return max(bounds), len(rows)


@kpi_function
def efficiency(data: PointData) -> KpiValue:
    """Efficiency: the lower bound of the makespan (ideal_makespan) over the measured one, in percent."""
    gangs = require_gangs(data)
    ideal, n = _ideal_makespan_of_point(data, gangs)
    first, last = data.stage_bounds(ENDED)
    if ideal is None or n < data.of or data.np.isnan(last).any():
        return KpiValue(None, n, data.of, note="not all workloads succeeded", **simulated_kpi_arguments(data))
    value = 200 * ideal / float((first + last).max())
    interval = (100 * ideal / float(last.max()), 100 * ideal / float(first.max()))
    return KpiValue(value, n, data.of, interval=interval, **simulated_kpi_arguments(data))


@kpi_function
def utilisation(data: PointData, part: str = "held", resource: str = "") -> KpiValue:
    """Utilisation of a resource over the time of the load, in percent: integral of the amount held over the capacity.

    part: ``held``, from scheduling until the end of a pod; ``useful``, the part while the whole gang ran and then
    succeeded; ``unfinished``, while the whole gang ran, of gangs that had not succeeded at the end of the observation;
    ``waiting``, the part before the gang was complete; ``lost``, by pods that were preempted or failed. resource: by
    default the one with the largest requested share.
    """
    if part not in PARTS:
        raise formats.unknown_value_error("part", part, PARTS)
    gangs = require_gangs(data)
    name = resource or require_bottleneck_resource(data, gangs)
    capacity = gangs.capacity.get(name)
    if not capacity:
        return KpiValue(None, 0, data.of, note=f"the capacity of {name} is unknown")
    length = seconds_until_load_ended(data)
    each = [sum(_pod_seconds_of_part(gangs, row, life, part) for life in gangs.lives[row]) for row in range(data.of)]
    amounts = data.np.array([seconds * gangs.request[row].get(name, 0.0) for row, seconds in enumerate(each)])
    n = sum(1 for lives in gangs.lives if lives)
    if length <= 0:
        return KpiValue(None, n, data.of, note="no time passed")
    value = 100 * float(amounts.sum()) / (capacity * length)
    return KpiValue(value, n, data.of, labels={"resource": name, "part": part}, **simulated_kpi_arguments(data))


def _pod_seconds_of_part(gangs: WorkloadGangs, row: int, life: Any, part: str) -> float:
    """Return the seconds of a pod that belong to ``part``; ``held`` is the sum of the others."""
    held, worked = gangs.held(row, life), gangs.worked(row, life)
    if held is None:
        return 0.0
    whole, ran = held[1] - held[0], (worked[1] - worked[0] if worked else 0.0)
    lost, succeeded = life.end in ("failed", "deleted"), gangs.succeeded[row]
    return {
        "held": whole,
        "useful": ran if succeeded else 0.0,
        "unfinished": 0.0 if succeeded else ran,
        "lost": whole if lost else 0.0,
        "waiting": 0.0 if lost else whole - ran,
    }[part]


@kpi_function
def gang_gap(data: PointData, quantile: Any) -> KpiValue:
    """A quantile of the seconds between the first and the last pod of a gang to run, over pods that were not lost.

    Over the planned workloads of more than one pod. In that time the first pod holds its node and waits.
    """
    gangs = require_gangs(data)
    rows = [row for row in range(data.of) if gangs.size[row] > 1]
    gaps = []
    for row in rows:
        began = [midpoint_of_span(life.running) for life in gangs.lives[row] if life.end in ("", "succeeded")]
        known = [moment for moment in began if not isnan(moment)]
        gaps.append(gangs.done[row] - min(known) if known and isfinite(gangs.done[row]) else nan)
    values = data.np.array(gaps)
    estimate = DurationSample(values, values, values, data.np.zeros(len(rows))).quantile(parse_quantile(quantile))
    note = (
        ""
        if estimate.n == estimate.of
        else f"{estimate.of - estimate.n:,} of {estimate.of:,} gangs were never complete"
    )
    return KpiValue(
        estimate.value,
        estimate.n,
        estimate.of,
        note=note,
        labels={"quantile": str(quantile)},
        **simulated_kpi_arguments(data),
    )


@kpi_function
def preemptions(data: PointData, what: str = "preempted") -> KpiValue:
    """Count how often workloads were ``preempted`` or ``evicted`` by their queue, or how many pods were ``lost``.

    A pod is lost if it was deleted or failed before it succeeded, for any reason.
    """
    known = ("preempted", "evicted", "lost")
    if what not in known:
        raise formats.unknown_value_error("what", what, known)
    gangs = require_gangs(data)
    lives: PodLifetimes | None = data.extras.lives() if data.extras.lives else None
    if lives is None:
        return unknown_kpi_value(data)
    if what == "lost":
        count = sum(1 for row in gangs.lives for life in row if life.end in ("failed", "deleted"))
        return KpiValue(float(count), data.of, data.of, **simulated_kpi_arguments(data))
    indices = set(data.table.index)
    count = sum(1 for index, _span in lives.conditions[what] if index in indices)
    return KpiValue(float(count), data.of, data.of, writers=("controller",))
