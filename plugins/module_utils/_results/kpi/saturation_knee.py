# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the rate at which latency bends: the knee of a saturation curve.

The method is Kneedle (V. Satopaa, J. Albrecht, D. Irwin, B. Raghavan: "Finding a 'Kneedle' in a Haystack: Detecting
Knee Points in System Behavior", ICDCS Workshops 2011), for a curve that rises and is convex: rate and latency are
scaled to 0..1, and the knee is where the curve lies furthest below the diagonal. It is applied here to the logarithms
of both. Beyond capacity the queue grows with each step, so that on a linear scale the largest latencies alone would
decide, and the knee would lie beyond the first step that was too fast. Rates are tried in multiples, so that on a
linear scale the many steps beyond the knee would crowd together those before it. Latencies are first replaced by their
running maximum, because one fast step among few is not a property of the system. A curve that does not at least double
has no knee: it lies beyond the last step.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import log
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from .estimators import DurationSample, parse_quantile
from .point_data import INTENDED, NEEDED, KpiValue, PointData, kpi_function

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
