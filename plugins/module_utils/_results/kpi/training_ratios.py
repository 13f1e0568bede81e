# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KPI functions that compare the trainings of a point with those of another point of the matrix.

Their intervals are of the ratio of the means over the jobs of both points, by Student's t on logarithms; a job is one
observation. They need three jobs at both points together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..statistics import comparison_scale, group_comparison
from .bootstrap_interval import LEVEL, Confidence
from .log_and_metric_functions import printed_figures
from .point_data import KpiValue, MeasuredPoint, PointData

METHOD = "Student's t on logarithms, over the jobs of both points"
MODELS = "fine_tuning_models"


def is_scaled(data: PointData, over: Sequence[str] = (), **_others: Any) -> bool:
    """Return whether the matrix of the run varies one of these settings."""
    return data.extras.matrix is not None and any(name in data.extras.matrix.values for name in over)


def scaling_efficiency(data: PointData, figure: str, over: Sequence[str]) -> KpiValue:
    """Throughput per accelerator in percent of that of the point with the fewest accelerators, all else being equal.

    figure: the throughput, as trainings print it; the median over the jobs counts. over: settings whose product is the
    number of accelerators of a job; 0 counts as 1, a pod without GPUs.
    """
    labels: dict[str, Any] = {"figure": figure, "over": list(over)}
    rows, values = printed_figures(data, [figure])
    mine = data.extras.matrix
    if not values or mine is None or data.extras.others is None:
        return KpiValue(None, 0, data.of, note="no log contains this figure", labels=labels)
    simulated = any(one["simulated"] for one in rows)
    found = [(_accelerators(mine, over), values, mine)]
    for one in data.extras.others():
        if _rest(one, over) == _rest(mine, over) and (theirs := _values(one.training, figure, simulated)):
            found.append((_accelerators(one, over), theirs, one))
    least, theirs, reference = min(found, key=lambda one: (one[0], float(data.np.median(one[1])) / one[0]))
    count = _accelerators(mine, over)
    labels |= {"accelerators": count, "reference": least}
    own = [one / count for one in values]
    return _percent(data, own, [one / least for one in theirs], data.of, simulated, labels, reference is mine)


def speed_beside_others(data: PointData, figure: str, template: str, apart: str = MODELS) -> KpiValue:
    """Throughput of the workloads of a template in percent of that at the point that has only this template.

    figure: the throughput, as trainings print it; the median over the jobs counts. template: its name. apart: the
    setting by which the points differ; all else is equal. Of several such points, that with the fewest jobs counts.
    """
    labels: dict[str, Any] = {"figure": figure, "template": template}
    rows, own = printed_figures(data, [figure], template)
    planned = data.table.template.count(template)
    mine = data.extras.matrix
    if not own or mine is None or data.extras.others is None:
        return KpiValue(None, 0, planned, note="no log contains this figure", labels=labels)
    simulated = any(one["simulated"] for one in rows)
    alone = [
        theirs
        for one in data.extras.others()
        if tuple(one.templates) == (template,) and _rest(one, [apart]) == _rest(mine, [apart])
        if (theirs := _values(one.training, figure, simulated))
    ]
    if not alone:
        note = "no point of the matrix trains this model only"
        return KpiValue(None, 0, planned, simulated, note=note, labels=labels)
    return _percent(data, own, min(alone, key=len), planned, simulated, labels)


def templates(data: PointData) -> list[str]:
    """Return the names of the templates of a load, if it has several."""
    found = sorted(set(data.table.template))
    return found if len(found) > 1 else []


def _percent(
    data: PointData,
    own: Sequence[float],
    reference: Sequence[float],
    planned: int,
    simulated: bool,
    labels: Mapping[str, Any],
    itself: bool = False,
) -> KpiValue:
    """Return the median of ``own`` in percent of that of ``reference``. itself: whether both are the same."""
    n, of = len(own), max(planned, len(own))
    base = float(data.np.median(reference))
    if not base:
        return KpiValue(None, 0, of, simulated, note="the reference has no throughput", labels=labels)
    value = 100 * float(data.np.median(own)) / base
    found = None if itself else _interval(own, reference, value)
    return KpiValue(value, n, of, simulated, labels=labels, confidence=found, writers=("training",))


def _interval(own: Iterable[float], reference: Iterable[float], value: float) -> Confidence | None:
    found = group_comparison.compare_groups(reference, own, level=LEVEL)
    if not found.logarithmic or not math.isfinite(found.low) or not math.isfinite(found.high):
        return None
    low, high = (100 + 100 * comparison_scale.relative(end, True, 0.0) for end in (found.low, found.high))
    return Confidence(min(low, value), max(high, value), METHOD)


def _values(rows: Sequence[Mapping[str, Any]], figure: str, simulated: bool) -> list[float]:
    return [float(row["figures"][figure]) for row in rows if figure in row["figures"] and row["simulated"] is simulated]


def _rest(point: MeasuredPoint, over: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in point.values.items() if name not in over}


def _accelerators(point: MeasuredPoint, over: Sequence[str]) -> int:
    return math.prod(max(int(point.settings.get(name) or 1), 1) for name in over)
