# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KPI functions of the rate that inference servers bear with their service level objective, from steps or a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.capacity_search import (
    USUAL_HIGH,
    USUAL_LOW,
    CapacitySearch,
    SearchStep,
)

from .estimators import ConfidenceInterval, percentile_interval
from .point_data import KpiValue, PointData, kpi_function
from .request_functions import LAST, needed_requests, point_settings, requests_within_slo
from .saturation_knee import LEAST_IN_STEP, rows_by_step

#: Differences of shares that come from rounding.
ROUNDING = 1e-9


def falling_fit(shares: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the weighted least-squares fit of shares that never rises: pool adjacent violators (Ayer et al., 1955)."""
    blocks: list[list[float]] = []  # sum, weight, steps
    for share, weight in zip(shares, weights, strict=True):
        blocks.append([share * weight, weight, 1])
        while len(blocks) > 1 and blocks[-1][0] * blocks[-2][1] > blocks[-2][0] * blocks[-1][1]:
            last = blocks.pop()
            blocks[-1] = [mine + other for mine, other in zip(blocks[-1], last, strict=True)]
    return [total / max(weight, 1e-9) for total, weight, steps in blocks for _step in range(int(steps))]


def crossing(rates: Sequence[float], shares: Sequence[float], share: float) -> tuple[float, float, float]:
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
    if needed_requests(data).steps:
        return _searched_capacity(data, kept, share, labels)
    if len(steps) < 2:
        note = f"{len(steps)} of {of} steps had at least {LEAST_IN_STEP} requests; two are needed"
        return KpiValue(None, len(steps), of, note=note, labels=labels, **provenance)

    def fitted(weights: Any) -> tuple[float, float, float]:
        counted = [(rate, float(weights[rows].sum()), float(weights[rows][kept[rows]].sum())) for rate, rows in steps]
        there = [step for step in counted if step[1]]  # a bootstrap sample may have no request of a step
        fit = falling_fit([hits / count for _rate, count, hits in there], [count for _rate, count, _hits in there])
        return crossing([rate for rate, _count, _hits in there], fit, share)

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
        note = f"the least rate, {formats.format_with_unit(low, '1/s')}, missed it"
        return KpiValue(None, n, n, note=note, labels=labels, **provenance)
    confidence = ConfidenceInterval(estimate.low, estimate.high, "probabilistic bisection")
    return KpiValue(estimate.value, n, n, confidence=confidence, labels=labels, **provenance)
