# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KPI functions over a timeline. Each takes a PointData and the arguments of a definition and returns a KpiValue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_views import rows_by_client

from .censored_quantiles import (
    BootstrapResampling,
    DurationSample,
    QuantileEstimate,
    parse_quantile,
    percentile_interval,
)
from .point_data import ENDED, INTENDED, NEEDED, SENT, KpiValue, NoFigure, PointData, kpi_function


@kpi_function
def workloads(data: PointData, outcome: str | Sequence[str] = "") -> KpiValue:
    """Count the workloads with ``outcome``; without it all planned ones."""
    wanted = {outcome} if isinstance(outcome, str) else set(outcome)
    if not any(wanted):
        return KpiValue(float(data.of), data.of, data.of)
    number = sum(1 for outcome in data.table.outcome if outcome in wanted)
    ends = [stage["name"] for stage in data.table.stages if stage["ends"] in wanted]
    provenances = [data.provenance(end) for end in ends]
    return KpiValue(
        float(number),
        data.of,
        data.of,
        any(provenance["simulated"] for provenance in provenances),
        writers=tuple(sorted({writer for provenance in provenances for writer in provenance["writers"]})),
    )


@kpi_function
def reached(data: PointData, stage: str | Sequence[str]) -> KpiValue:
    """Count the workloads that reached a stage."""
    name = data.require_stage(stage)
    number = int((~data.np.isnan(data.stage_bounds(name)[1])).sum())
    return KpiValue(float(number), data.of, data.of, labels={"stage": name}, **data.provenance(name))


@kpi_function
def rate(data: PointData, stage: str | Sequence[str]) -> KpiValue:
    """Workloads per second that reached a stage: their number over the time from the start of the load to the last.

    The confidence interval is a block bootstrap of the interarrival times.
    """
    name = data.require_stage(stage)
    first, last = data.stage_bounds(name)
    n = int((~data.np.isnan(last)).sum())
    provenance = data.provenance(name)
    if not n:
        return KpiValue(None, 0, data.of, note="no workload reached it", labels={"stage": name}, **provenance)
    early, late = float(data.np.nanmax(first)), float(data.np.nanmax(last))
    middle = (early + late) / 2
    if middle <= 0:
        return KpiValue(None, n, data.of, note="no time passed", labels={"stage": name}, **provenance)
    interval = (n / late, n / early) if early > 0 else None
    value = n / middle

    def interarrivals(drawing: BootstrapResampling) -> Any:
        moments = data.np.sort(((first + last) / 2)[~data.np.isnan(last)])
        return 1 / data.np.maximum(drawing.means(data.np.diff(data.np.maximum(moments, 0.0), prepend=0.0)), 1e-9)

    bootstrap = data.bootstrap(n, value, interarrivals, "time")
    return KpiValue(value, n, data.of, interval=interval, labels={"stage": name}, **bootstrap, **provenance)


@kpi_function
def makespan(data: PointData, stage: str | Sequence[str] = ENDED) -> KpiValue:
    """Seconds from the start of the load until the last planned workload reached ``stage``."""
    name = data.require_stage(stage)
    first, last = data.stage_bounds(name)
    n = int((~data.np.isnan(last)).sum())
    provenance = data.provenance(name)
    if n < data.of:
        note = f"{data.of - n:,} of {data.of:,} did not reach it"
        return KpiValue(None, n, data.of, note=note, at_least=max(data.end - data.start, 0.0), **provenance)
    if not n:
        return KpiValue(None, 0, 0, note="nothing was planned", **provenance)
    early, late = float(first.max()), float(last.max())
    return KpiValue((early + late) / 2, n, data.of, interval=(early, late), **provenance)


@kpi_function
def duration(
    data: PointData, stage: str | Sequence[str], quantile: Any, since: str | Sequence[str] = NEEDED
) -> KpiValue:
    """A quantile of the seconds that ``stage`` took after ``since``, over all planned workloads; Kaplan-Meier.

    since: ``needed`` (the last of the stages that it waits for), ``sent``, ``intended``, or a stage.
    """
    name = data.require_stage(stage)
    begin = NEEDED if since == NEEDED else data.require_stage(since)
    if name == data.sent_is and begin in (NEEDED, SENT):
        return KpiValue(None, 0, data.of, note="others sent the load, and this stage shows when")
    q = parse_quantile(quantile)
    sample = data.sample(name, begin)
    estimate = sample.quantile(q)
    replicates = data.replicates(name, begin, q) if 0 < q < 1 else None  # no bootstrap of extremes
    confidence = None
    if replicates is not None and data.resampling is not None:
        confidence = percentile_interval(replicates, estimate.value, data.resampling.method)
    return KpiValue.of_estimate(
        estimate,
        note=_quantile_estimate_note(estimate, q, sample.censored),
        labels={"stage": name, "since": begin, "quantile": str(quantile)},
        confidence=confidence,
        replicates=replicates,
        **data.provenance(name, begin),
    )


@kpi_function
def spread(data: PointData, stage: str | Sequence[str], since: str | Sequence[str]) -> KpiValue:
    """The largest minus the smallest time that ``stage`` took after ``since``, of the workloads that reached it."""
    name, begin = data.require_stage(stage), data.require_stage(since)
    first, last = data.stage_bounds(name)
    begin_first, begin_last = data.stage_bounds(begin)
    middle = (first + last) / 2 - (begin_first + begin_last) / 2
    seen = ~data.np.isnan(middle)
    n = int(seen.sum())
    if not n:
        return KpiValue(None, 0, data.of, note=f"no workload was seen to reach {name}", **data.provenance(name, begin))
    least, most = (first - begin_last)[seen], (last - begin_first)[seen]
    bounds = max(0.0, float(least.max() - most.min())), float(most.max() - least.min())
    value = float(middle[seen].max() - middle[seen].min())
    labels = {"stage": name, "since": begin}
    note = f"{data.of - n:,} of {data.of:,} were not seen to reach it" if n < data.of else ""
    return KpiValue(value, n, data.of, interval=bounds, note=note, labels=labels, **data.provenance(name, begin))


def _quantile_estimate_note(estimate: QuantileEstimate, q: float, censored: int = 0) -> str:
    n, of = estimate.n, estimate.of
    if estimate.at_least is not None:
        return f"{of - n:,} of {of:,} were not seen to reach it"
    if censored:
        return f"{censored:,} of {of:,} were still waiting at the end: Kaplan-Meier estimate"
    if 0.5 < q < 1 and of * (1 - q) < 1:
        return f"close to the maximum, because there are few rows ({of:,}) for this quantile"
    return ""


@kpi_function
def lateness(data: PointData, quantile: Any, client: Any = None, until: str = SENT) -> KpiValue:
    """A quantile of the lateness in seconds: when the first attempt was sent minus when it was due.

    client: of the workloads of one of several clients. until: ``created`` for the lateness as the API server saw it.
    """
    np, name = data.np, data.require_stage(until)
    intended = data.stage_bounds(INTENDED)[0]
    due = ~np.isnan(intended)
    if client is not None:
        of_client = np.zeros(data.of, dtype=bool)
        of_client[rows_by_client(data.table).get(int(client), [])] = True
        due &= of_client
    of = int(due.sum())
    if not of:
        return KpiValue(None, 0, 0, note="closed loop: no workload had a due time")
    early, late = ((moment - intended)[due] for moment in data.stage_bounds(name))
    waited = np.maximum(data.end - data.start - intended[due], 0.0)
    sample = DurationSample((early + late) / 2, early, late, waited)
    q = parse_quantile(quantile)
    estimate = sample.quantile(q)
    silent = {
        outcome
        for outcome, known in zip(data.table.outcome, ~np.isnan(data.stage_bounds(SENT)[0]), strict=True)
        if not known
    }
    never = "were lost with their client or never sent" if "lost" in silent else "were never sent"
    note = _quantile_estimate_note(estimate, q)
    if name == SENT:
        note = note.replace("were not seen to reach it", never)
    labels = {"quantile": str(quantile), **({} if client is None else {"client": str(client)})}
    labels |= {} if name == SENT else {"stage": name}
    return KpiValue.of_estimate(
        estimate,
        of,
        note=note,
        labels=labels,
        **({} if name == SENT else data.provenance(name)),
        **data.bootstrap_quantile(sample, q, estimate.value),
    )


@kpi_function
def concurrency(
    data: PointData, begin: str | Sequence[str], until: str | Sequence[str] = ENDED, statistic: str = "max"
) -> KpiValue:
    """Number of workloads between two stages at one moment: the maximum, or the mean over the time of the load."""
    name, last = data.require_stage(begin), data.require_stage(until)
    known = {"max": _maximum_workload_level, "mean": _mean_workload_level}
    if statistic not in known:
        raise formats.unknown_value_error("statistic", statistic, known)
    first, second = data.stage_bounds(name), data.stage_bounds(last)
    n = int((~data.np.isnan(first[1])).sum())
    value = known[statistic](data, (first[0] + first[1]) / 2, (second[0] + second[1]) / 2)
    interval = (known[statistic](data, first[1], second[0]), known[statistic](data, first[0], second[1]))
    interval = (min(interval[0], value), max(interval[1], value))
    labels = {"stage": name, "until": last}
    return KpiValue(value, n, data.of, interval=interval, labels=labels, **data.provenance(last))


def workload_level_over_time(data: PointData, begin: Any, until: Any, weight: Any = None) -> tuple[Any, Any]:
    """Return two arrays: the ascending times at which the level between ``begin`` and ``until`` changes, and the level.

    begin, until: arrays (rows,) of times, NaN for never. weight: array (rows,) of what each row counts, 1 by default.
    """
    np = data.np
    weight = np.ones(len(begin)) if weight is None else weight
    came, left = ~np.isnan(begin), ~np.isnan(begin) & ~np.isnan(until)
    times = np.concatenate([begin[came], until[left]])
    steps = np.concatenate([weight[came], -weight[left]])
    order = np.lexsort((steps, times))  # ties: leaving first
    return times[order], np.cumsum(steps[order])


def _maximum_workload_level(data: PointData, begin: Any, until: Any) -> float:
    return float(workload_level_over_time(data, begin, until)[1].max(initial=0))


def _mean_workload_level(data: PointData, begin: Any, until: Any) -> float:
    """Return the mean from the first arrival until the last departure or the end of the observation."""
    np = data.np
    came = ~np.isnan(begin)
    if not came.any():
        return 0.0
    stop = np.where(np.isnan(until), max(data.end - data.start, 0.0), until)[came]
    length = float(stop.max() - begin[came].min())
    return float(np.maximum(stop - begin[came], 0.0).sum() / length) if length > 0 else 0.0


@kpi_function
def gpu_hours(data: PointData, begin: str | Sequence[str], until: str | Sequence[str] = ENDED) -> KpiValue:
    """GPU-hours between two stages, over all workloads; those that did not end count until the observation ended.

    Raises NoFigure if no pods were observed, and no workload states its GPUs: how many it requests is unknown.
    """
    name, last = data.require_stage(begin), data.require_stage(until)
    if not any(data.table.pods) and not any(data.table.gpus):
        raise NoFigure(KpiValue(None, 0, data.of, note="no pods were observed, which request GPUs", inapplicable=True))
    np = data.np
    gpus = np.asarray(data.table.gpus, dtype=float)
    first, second = data.stage_bounds(name), data.stage_bounds(last)
    began = ~np.isnan(first[1])
    running = began & np.isnan(second[1])
    stop = max(data.end - data.start, 0.0)

    def hours(start: Any, end: Any) -> Any:
        spent = np.where(began, np.where(running, stop, end) - start, 0.0)
        return gpus * np.maximum(spent, 0.0) / 3600

    each = hours((first[0] + first[1]) / 2, (second[0] + second[1]) / 2)
    value = float(each.sum())
    note = f"{int(running.sum()):,} counted until the observation ended" if running.any() else ""
    interval = (float(hours(first[1], second[0]).sum()), float(hours(first[0], second[1]).sum()))
    return KpiValue(
        value,
        int(began.sum()),
        data.of,
        interval=interval,
        note=note,
        labels={"stage": name, "until": last},
        **data.bootstrap(data.of, value, lambda drawing: drawing.means(each) * data.of),
        **data.provenance(last),
    )
