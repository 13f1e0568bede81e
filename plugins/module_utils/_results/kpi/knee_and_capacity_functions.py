# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KPI functions of the rate that a system bears: the knee of its saturation curve, the capacity within an objective.

The knee is found by Kneedle (V. Satopaa, J. Albrecht, D. Irwin, B. Raghavan: "Finding a 'Kneedle' in a Haystack:
Detecting Knee Points in System Behavior", ICDCS Workshops 2011), for a curve that rises and is convex: rate and latency
are scaled to 0..1, and the knee is where the curve lies furthest below the diagonal. It is applied here to the
logarithms of both. Beyond capacity the queue grows with each step, so that on a linear scale the largest latencies
alone would decide, and the knee would lie beyond the first step that was too fast. Rates are tried in multiples, so
that on a linear scale the many steps beyond the knee would crowd together those before it. Latencies are first replaced
by their running maximum, because one fast step among few is not a property of the system. A curve that does not at
least double has no knee: it lies beyond the last step.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import log
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.capacity_search import (
    USUAL_HIGH,
    USUAL_LOW,
    CapacitySearch,
    SearchStep,
)

from .censored_quantiles import ConfidenceInterval, DurationSample, parse_quantile, percentile_interval
from .kpi_definitions import MISSED_AT
from .point_data import INTENDED, NEEDED, KpiValue, PointData, kpi_function
from .request_functions import LAST, point_settings, requests_within_slo, require_request_figures

#: Steps with fewer workloads have no latency.
LEAST_IN_STEP = 5
#: Minimum growth factor of the latency from the first step to the slowest for a knee.
BENT = 2.0
#: Kneedle's sensitivity S: how many mean rate steps the distance must fall below a maximum; usually 1.
SENSITIVITY = 1.0


def find_knee_by_kneedle(
    rates: Sequence[float], latencies: Sequence[float], sensitivity: float = SENSITIVITY
) -> int | None:
    """Return the index of the knee of an increasing, convex curve by Kneedle (see the module), None without one.

    rates: ascending, above 0, per second. latencies: in seconds, one per rate. A maximum of the distance to the
    diagonal is the knee once the distance has fallen below it by ``sensitivity`` times the mean rate step, or at the
    end of the curve.
    """
    rising = list(accumulate(latencies, max))
    if len(rates) < 3 or rising[-1] < BENT * max(rising[0], 1e-9):
        return None
    x = [log(rate / rates[0]) / log(rates[-1] / rates[0]) for rate in rates]
    least = max(rising[0], 1e-9)
    y = [log(max(latency, least) / least) / log(rising[-1] / least) for latency in rising]
    distance = [a - b for a, b in zip(x, y, strict=True)]
    fall = sensitivity * sum(b - a for a, b in pairwise(x)) / (len(x) - 1)
    best = 0
    for index, value in enumerate(distance):
        if value > distance[best]:
            best = index
        elif distance[best] > 0 and value < distance[best] - fall:
            return best
    return best if distance[best] > 0 else 0


def rows_by_step(data: PointData) -> list[tuple[float, Any]]:
    """Return (rate per second, row numbers) of each step with enough rows, by ascending rate."""
    np = data.np
    search_steps = data.extras.requests().steps if data.extras.requests is not None else ()
    if search_steps:  # of a search for the capacity, whose steps have no fixed duration
        index, ends = np.asarray(data.table.index), [*(first for first, _rate in search_steps[1:]), np.inf]
        return sorted(
            (
                (rate, rows)
                for (first, rate), end in zip(search_steps, ends, strict=True)
                if len(rows := np.flatnonzero((index >= first) & (index < end))) >= LEAST_IN_STEP
            ),
            key=lambda step: step[0],
        )
    due = data.stage_bounds(INTENDED)[0]
    if data.extras.requests is not None:  # of a load that was interrupted, without the interruption
        offsets = data.extras.requests().columns["offset"]
        due = data.np.where(data.np.isnan(offsets), due, offsets)
    steps, begin = [], 0.0
    for rate, span in data.extras.steps:
        rows = data.np.flatnonzero((due >= begin - 1e-6) & (due < begin + span - 1e-6))
        begin += span
        if rate > 0 and len(rows) >= LEAST_IN_STEP:
            steps.append((float(rate), rows))
    return sorted(steps, key=lambda step: step[0])


def latency_by_load_step(data: PointData, stage: str, since: str, quantile: float) -> list[tuple[float, float, int]]:
    """Return (rate per second, latency in seconds, workloads) of each step with enough workloads, by ascending rate.

    For a latency with only a lower bound, the bound is used.
    """
    np = data.np
    whole = data.sample(stage, since)
    first, last = data.stage_bounds(stage)
    begin_first, begin_last = data.needed_stage_bounds(stage) if since == NEEDED else data.stage_bounds(since)
    steps = []
    for rate, chosen in rows_by_step(data):
        sample = DurationSample(
            whole.rows[chosen],
            (first - begin_last)[chosen],
            (last - begin_first)[chosen],
            whole.waited[chosen],
            data.waiting[chosen],
        )
        value = sample.quantile(quantile)
        latency = value.value if value.value is not None else value.at_least
        if latency is not None and np.isfinite(latency):
            steps.append((rate, float(latency), len(chosen)))
    return sorted(steps)


@kpi_function
def knee(
    data: PointData, stage: str | Sequence[str], quantile: Any = "p95", since: str | Sequence[str] = NEEDED
) -> KpiValue:
    """The rate (workloads per second) of the last step before a stage's latency bends, by Kneedle (see the module).

    For a load in steps. Without a knee the value is None, and ``at_least`` is the rate up to which there was none.
    """
    name = data.require_stage(stage)
    begin = NEEDED if since == NEEDED else data.require_stage(since)
    curve = latency_by_load_step(data, name, begin, parse_quantile(quantile))
    of = len(data.extras.steps)
    labels = {
        "stage": name,
        "since": begin,
        "quantile": str(quantile),
        "method": "Kneedle (Satopaa et al., 2011) over log rate and log latency, sensitivity 1",
        "curve": [{"rate": rate, "latency": round(latency, 6), "n": count} for rate, latency, count in curve],
    }
    provenance = data.provenance(name, begin)
    if len(curve) < 3:
        note = f"{len(curve)} of {of} steps had at least {LEAST_IN_STEP} workloads; three are needed"
        return KpiValue(None, len(curve), of, note=note, labels=labels, **provenance)
    place = find_knee_by_kneedle([step[0] for step in curve], [step[1] for step in curve])
    if place is None:
        low, high = curve[0][1], max(step[1] for step in curve)
        note = f"from {formats.format_duration(low)} to {formats.format_duration(high)}, no knee"
        return KpiValue(None, len(curve), of, note=note, labels=labels, at_least=curve[-1][0], **provenance)
    rate, latency, _count = curve[place]
    most = formats.format_duration(max(step[1] for step in curve))
    note = f"{formats.format_duration(latency)} at this rate, up to {most} beyond it"
    if place == 0:
        note += "; it is the first step, so the knee may lie below it"
    return KpiValue(rate, len(curve), of, note=note, labels=labels, **provenance)


#: Differences of shares that come from rounding.
ROUNDING = 1e-9


def fit_non_increasing_shares(shares: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the weighted least-squares fit of shares that never rises: pool adjacent violators (Ayer et al., 1955)."""
    blocks: list[list[float]] = []  # sum, weight, steps
    for share, weight in zip(shares, weights, strict=True):
        blocks.append([share * weight, weight, 1])
        while len(blocks) > 1 and blocks[-1][0] * blocks[-2][1] > blocks[-2][0] * blocks[-1][1]:
            last = blocks.pop()
            blocks[-1] = [mine + other for mine, other in zip(blocks[-1], last, strict=True)]
    return [total / max(weight, 1e-9) for total, weight, steps in blocks for _step in range(int(steps))]


def rate_where_share_is_crossed(
    rates: Sequence[float], shares: Sequence[float], share: float
) -> tuple[float, float, float]:
    """Return the rate at which falling ``shares`` cross ``share``, and the rates of the steps around it.

    Below the first step the rate is 0 to that; beyond the last one it is infinite.
    """
    above = next((place for place, each in enumerate(shares) if each < share - ROUNDING), len(shares))
    if above == len(rates):
        return float("inf"), rates[-1], float("inf")
    if not above:
        return 0.0, 0.0, rates[0]
    low, high = rates[above - 1], rates[above]
    before, after = shares[above - 1], shares[above]
    return low + (high - low) * max(0.0, before - share) / (before - after), low, high


@kpi_function
def slo_capacity(data: PointData) -> KpiValue:
    """The rate of a load in steps up to which the share of requests that keep the SLO suffices.

    The shares of the steps are first made to fall, then interpolated. The confidence interval holds the steps around
    the crossing in 95 % of the bootstrap samples: what is between two steps was not measured.
    """
    np = data.np
    kept, share, text = requests_within_slo(data)
    steps = rows_by_step(data)
    of = len(data.extras.steps)
    rates = [rate for rate, _rows in steps]
    labels: dict[str, Any] = {
        "slo": f"{text} for {formats.format_percent(share)} % of the requests",
        "bounds": "",
        "curve": [{"rate": rate, "share": round(float(kept[rows].mean()), 6), "n": len(rows)} for rate, rows in steps],
    }
    provenance = data.provenance(LAST)
    if require_request_figures(data).steps:
        return _searched_capacity(data, kept, share, labels)
    if len(steps) < 2:
        note = f"{len(steps)} of {of} steps had at least {LEAST_IN_STEP} requests; two are needed"
        return KpiValue(None, len(steps), of, note=note, labels=labels, **provenance)

    def fitted(weights: Any) -> tuple[float, float, float]:
        counted = [(rate, float(weights[rows].sum()), float(weights[rows][kept[rows]].sum())) for rate, rows in steps]
        there = [step for step in counted if step[1]]  # a bootstrap sample may have no request of a step
        fit = fit_non_increasing_shares(
            [hits / count for _rate, count, hits in there], [count for _rate, count, _hits in there]
        )
        return rate_where_share_is_crossed([rate for rate, _count, _hits in there], fit, share)

    value, low, high = fitted(np.ones(data.of))
    if not np.isfinite(value):
        note = f"all steps up to {formats.format_with_unit(rates[-1], '1/s')} kept it"
        return KpiValue(None, len(steps), of, at_least=rates[-1], note=note, labels=labels, **provenance)
    confidence = None
    drawing = data.resampling_of(data.of)
    if drawing is not None:
        drawn = [fitted(weights) for weights in drawing.drawn]
        method = f"{drawing.method}; the steps around the crossing"
        lower, upper = (
            percentile_interval(np.array([sample[side] for sample in drawn]), bound, method)
            for side, bound in ((1, low), (2, high))
        )
        least = lower.low if lower is not None else low
        most = upper.high if upper is not None else None
        confidence = ConfidenceInterval(least, most, method)
        limit = "or more" if most is None else f"to {formats.format_number(most)}"
        labels["bounds"] = f" (95 %: {formats.format_number(least or 0.0)} {limit})"
    if not low:
        labels[MISSED_AT] = rates[0]
        note = f"the first step, {formats.format_with_unit(rates[0], '1/s')}, missed it"
        return KpiValue(None, len(steps), of, note=note, labels=labels, **provenance)
    return KpiValue(value, len(steps), of, interval=(low, high), confidence=confidence, labels=labels, **provenance)


def _searched_capacity(data: PointData, kept: Any, share: float, labels: dict[str, Any]) -> KpiValue:
    """Return the capacity of a load that looked for it: the median and the bounds of its distribution."""
    wanted = point_settings(data).get("serving_search") or {}
    provenance = data.provenance(LAST)
    low, high = float(wanted.get("low") or USUAL_LOW), float(wanted.get("high") or USUAL_HIGH)
    lost = data.np.array([outcome == "lost" for outcome in data.table.outcome], dtype=bool)
    search = CapacitySearch(low, high, share)
    for rate, rows in rows_by_step(data):
        if not lost[rows].any():  # it was interrupted
            search.take(SearchStep(rate, len(rows), int(kept[rows].sum())))
    n = search.steps
    if not n:
        return KpiValue(None, 0, 0, note="no step was completed", labels=labels, **provenance)
    estimate = search.estimate()
    text = f"{formats.format_number(estimate.low or 0.0)} "
    text += "or more" if estimate.high is None else f"to {formats.format_number(estimate.high)}"
    labels["bounds"] = f" (95 %: {text})"
    if estimate.value is None:
        if search.next_rate() >= high or estimate.low is not None:
            note = f"the highest rate, {formats.format_with_unit(high, '1/s')}, kept it"
            return KpiValue(None, n, n, at_least=estimate.low or low, note=note, labels=labels, **provenance)
        labels[MISSED_AT] = low
        note = f"the lowest rate, {formats.format_with_unit(low, '1/s')}, missed it"
        return KpiValue(None, n, n, note=note, labels=labels, **provenance)
    confidence = ConfidenceInterval(estimate.low, estimate.high, "probabilistic bisection")
    return KpiValue(estimate.value, n, n, confidence=confidence, labels=labels, **provenance)
