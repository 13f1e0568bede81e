# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where latency bends as the rate of a load rises: the knee of a saturation curve.

The method is Kneedle (V. Satopaa, J. Albrecht, D. Irwin, B. Raghavan: "Finding a 'Kneedle' in a Haystack: Detecting
Knee Points in System Behavior", ICDCS Workshops 2011), for a curve that rises and is convex: rate and latency are
scaled to 0..1, and the knee is where the curve lies furthest below the diagonal. Here it is applied to the logarithms
of both. Beyond its capacity a queue grows from step to step, so that on a linear scale the largest latencies would
decide alone, and the knee would lie beyond the first step that was too fast. And rates are tried in multiples, so that
on a linear scale the many steps beyond the knee would crowd those before it together. Latencies are first made to rise
(the running maximum), since one lucky step among few is no property of the system; and a curve that does not at least
double has not bent: then the knee lies beyond the last step.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import log
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _format
from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi.censored_quantile import Sample
from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi.point_data import (
    INTENDED,
    NEEDED,
    KpiValue,
    PointData,
    missing,
    probability,
)

#: Fewer workloads in a step say nothing of its latency.
LEAST_IN_STEP = 5
#: By so much the latency must grow from the first step to the slowest, or nothing has bent.
BENT = 2.0
#: Kneedle's sensitivity: by how many mean steps of the rates the distance must fall behind a maximum; usually 1.
SENSITIVITY = 1.0


def kneedle(rates: Sequence[float], latencies: Sequence[float], sensitivity: float = SENSITIVITY) -> int | None:
    """Return the index of the knee of a rising, convex curve, or None when there is none.

    rates: rising, above 0. latencies: seconds, as many. A maximum of the distance to the diagonal is the knee once the
    distance has fallen behind it by ``sensitivity`` times the mean step of the rates, or at the end of the curve.
    """
    rising = list(accumulate(latencies, max))
    if len(rates) < 3 or rising[-1] < BENT * max(rising[0], 1e-9):
        return None
    x = [log(one / rates[0]) / log(rates[-1] / rates[0]) for one in rates]
    least = max(rising[0], 1e-9)
    y = [log(max(one, least) / least) / log(rising[-1] / least) for one in rising]
    distance = [a - b for a, b in zip(x, y, strict=True)]
    fall = sensitivity * sum(b - a for a, b in pairwise(x)) / (len(x) - 1)
    best = 0
    for index, value in enumerate(distance):
        if value > distance[best]:
            best = index
        elif distance[best] > 0 and value < distance[best] - fall:
            return best
    return best if distance[best] > 0 else 0


def by_step(data: PointData, stage: str, since: str, quantile: float) -> list[tuple[float, float, int]]:
    """Return (rate, latency, workloads) of each step of the load that had enough workloads, by rising rate.

    A latency that is only known to be longer than something counts as that: it is the bound that bends.
    """
    np = data.np
    whole = data.sample(stage, since)
    first, last = data.span(stage)
    begin_first, begin_last = data.needed(stage) if since == NEEDED else data.span(since)
    due = data.span(INTENDED)[0]
    found, begin = [], 0.0
    for rate, span in data.extras.steps:
        chosen = (due >= begin - 1e-6) & (due < begin + span - 1e-6)
        begin += span
        count = int(chosen.sum())
        if rate <= 0 or count < LEAST_IN_STEP:
            continue
        sample = Sample(
            whole.rows[chosen],
            (first - begin_last)[chosen],
            (last - begin_first)[chosen],
            whole.waited[chosen],
            data.waiting[chosen],
        )
        value = sample.quantile(quantile)
        latency = value.value if value.value is not None else value.at_least
        if latency is not None and np.isfinite(latency):
            found.append((rate, float(latency), count))
    return sorted(found)


def knee(
    data: PointData, stage: str | Sequence[str], quantile: Any = "p95", since: str | Sequence[str] = NEEDED
) -> KpiValue:
    """The rate (workloads a second) of the last step before a stage's latency bends; Kneedle, see the module.

    Of a load in steps. Without a bend the value is missing, and the note says up to which rate there was none.
    """
    name = data.pick(stage)
    begin = NEEDED if since == NEEDED else data.pick(since)
    if name is None or begin is None:
        return missing(data, stage if name is None else since)
    curve = by_step(data, name, begin, probability(quantile))
    of = len(data.extras.steps)
    labels = {
        "stage": name,
        "since": begin,
        "quantile": str(quantile),
        "method": "Kneedle (Satopaa et al., 2011) over log rate and log latency, sensitivity 1",
        "curve": [{"rate": rate, "latency": round(latency, 6), "n": count} for rate, latency, count in curve],
    }
    rests = data.rests(name, begin)
    if len(curve) < 3:
        note = f"{len(curve)} of {of} steps had {LEAST_IN_STEP} workloads or more; three are needed"
        return KpiValue(None, len(curve), of, note=note, labels=labels, **rests)
    place = kneedle([one[0] for one in curve], [one[1] for one in curve])
    if place is None:
        low, high = curve[0][1], max(one[1] for one in curve)
        note = (
            f"≥ {_format.value(curve[-1][0], '1/s')}: from {_format.seconds(low)} to "
            f"{_format.seconds(high)}, nothing bent"
        )
        return KpiValue(None, len(curve), of, note=note, labels=labels, **rests)
    rate, latency, _count = curve[place]
    most = _format.seconds(max(one[1] for one in curve))
    note = f"{_format.seconds(latency)} at this rate, up to {most} beyond it"
    if place == 0:
        note += "; it is the first step, so the knee may lie below it"
    return KpiValue(rate, len(curve), of, note=note, labels=labels, **rests)
