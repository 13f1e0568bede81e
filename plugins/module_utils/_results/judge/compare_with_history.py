# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare one KPI of a run with its history: the baseline, the difference, its interval and p-values.

Change points split the old runs into stable segments. The last one is the baseline; all of them show how much runs
differ. The methods are described in docs/statistics.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, inf, isfinite, isnan, nan, sqrt
from typing import Any

from ..statistics import (
    always_valid_interval,
    change_points,
    comparison_scale,
    group_comparison,
    robust_z_score,
    student_t,
)
from ..statistics.change_points import ChangePoint
from ..statistics.group_comparison import GroupDifference
from ..statistics.readings import FigureEvidence
from ..statistics.time_dependence import TimeDependence
from .history_settings import CHANGE_POINTS, GROUPS, ROBUST_Z, HistorySettings
from .past_runs import KpiSeries, RunValue

#: Level of the intervals.
INTERVAL = 0.95
#: Wider bands end here: beyond it a figure is infinite.
LARGEST_EXPONENT = 100.0
Changes = tuple[tuple[str, ChangePoint], ...]


@dataclass(frozen=True)
class KpiRunSegments:
    """Old runs of a KPI, split at change points, and the new ones. changes: with the first run after each."""

    earlier: tuple[tuple[RunValue, ...], ...]
    baseline: tuple[RunValue, ...]
    new: tuple[RunValue, ...]
    changes: Changes

    def counts(self) -> tuple[int, int]:
        """Return the number of values of the baseline and of the new runs."""
        return len(_finite_run_values(self.baseline)), len(_finite_run_values(self.new))

    def on_scale(self) -> list[Any]:
        """Return all segments and the new runs as arrays, on the scale of the comparison."""
        groups = [_finite_run_values(runs) for runs in (*self.earlier, self.baseline, self.new)]
        logarithmic = comparison_scale.on_log_scale(*groups)
        return [comparison_scale.convert_to_scale(values, logarithmic) for values in groups]


@dataclass(frozen=True)
class HistoryFinding:
    """What a method found for one KPI, before the correction for many.

    compared: the same by Student's t-test, which shows the noise. old_value, new_value: means or medians, in the unit
    of the KPI; NaN if unknown. reason: why there are no p-values.
    """

    evidence: FigureEvidence
    compared: GroupDifference
    method: str
    old_value: float
    new_value: float
    changes: Changes
    reason: str = ""

    @property
    def from_zero(self) -> bool:
        """Whether the old figure is 0, so that a difference is no share of it."""
        return self.compared.base == 0 and not self.compared.logarithmic

    @property
    def band(self) -> tuple[float, float] | None:
        """The interval in which one more old run is expected, in the unit of the KPI; None if the noise is unknown."""
        compared = self.compared
        width = compared.noise * sqrt(1.0 + 1.0 / compared.n_old) if compared.n_old else nan
        if not (isfinite(width) and compared.df > 0 and isfinite(self.old_value)):
            return None
        width *= student_t.upper_tail_quantile((1.0 - INTERVAL) / 2.0, compared.df)
        if compared.logarithmic:
            return self.old_value * exp(-width), self.old_value * exp(min(width, LARGEST_EXPONENT))
        return self.old_value - width, self.old_value + width


def split_at_change_points(series: KpiSeries, settings: HistorySettings, count: int) -> KpiRunSegments:
    """Split the old runs of a KPI at their change points.

    count: KPIs that are judged together. They share the level: a wrong split makes an extreme part the baseline.
    """
    changes = _detect_change_points(series.old, settings, settings.level / count)
    bounds = [0, *(change.index for change in changes), len(series.old)]
    *earlier, baseline = [series.old[begin:end] for begin, end in pairwise(bounds)]
    return KpiRunSegments(tuple(earlier), baseline, series.new, _change_points_with_runs(series.old, changes))


def compare_kpi_with_baseline(
    series: KpiSeries, segments: KpiRunSegments, dependence: TimeDependence, settings: HistorySettings, count: int
) -> HistoryFinding:
    """Compare the new runs of a KPI with its baseline by the chosen method.

    dependence: of all KPIs of the run. count: KPIs that are judged together. A repeated point is compared by groups.
    """
    by_groups = _compare_by_groups(series, segments, dependence, settings)
    if series.repeated:
        return _finding_for_sequential_tests(by_groups)
    if settings.method == ROBUST_Z:
        return _compare_by_robust_score(by_groups, segments, settings)
    if settings.method == CHANGE_POINTS:
        return _compare_by_change_points(series, by_groups, dependence, settings, count)
    return by_groups


def _compare_by_groups(
    series: KpiSeries, segments: KpiRunSegments, dependence: TimeDependence, settings: HistorySettings
) -> HistoryFinding:
    old, new = segments.baseline, segments.new
    compared = group_comparison.compare_groups(
        _run_values(old),
        _run_values(new),
        old_errors=_run_value_errors(old),
        new_errors=_run_value_errors(new),
        earlier=[_run_values(runs) for runs in segments.earlier],
        dependence=dependence,
        level=INTERVAL,
    )
    compared = _widen_for_bounds(compared, old, new)
    p_values = (compared.p_greater, compared.p_less)
    evidence = FigureEvidence(series.direction, nan, nan, nan, *p_values, settings.least_of(series.name))
    before, after = (_mean_run_value(runs, compared.logarithmic) for runs in (old, new))
    finding = HistoryFinding(evidence, compared, GROUPS, before, after, segments.changes, compared.reason)
    return _finding_with_interval(finding, compared.difference, compared.low, compared.high)


def _widen_for_bounds(compared: GroupDifference, old: Sequence[RunValue], new: Sequence[RunValue]) -> GroupDifference:
    """Return a comparison, in which bounds counted as values, with what remains true if the figures are higher."""
    if any(run.at_least is not None for run in new):
        compared = replace(compared, high=inf, p_less=compared.p_less if isnan(compared.p_less) else 1.0)
    if any(run.at_least is not None for run in old):
        compared = replace(compared, low=-inf, p_greater=compared.p_greater if isnan(compared.p_greater) else 1.0)
    return compared


def _finding_with_interval(finding: HistoryFinding, difference: float, low: float, high: float) -> HistoryFinding:
    """Return the finding with a difference and its interval, which are given on the scale of the comparison."""
    if finding.from_zero:  # every difference from 0 matters
        evidence = replace(finding.evidence, difference=difference, low=low, high=high, least=0.0)
        return replace(finding, evidence=evidence)
    logarithmic, base = finding.compared.logarithmic, finding.compared.base
    share, least, most = (
        comparison_scale.difference_as_share(value, logarithmic, base) for value in (difference, low, high)
    )
    return replace(finding, evidence=replace(finding.evidence, difference=share, low=least, high=most))


def _finding_for_sequential_tests(finding: HistoryFinding) -> HistoryFinding:
    """Return the finding with the interval and the p-values that hold at every look."""
    always = always_valid_interval.interval_of_group_difference(finding.compared, 1.0 - INTERVAL)
    evidence = finding.evidence
    if not isnan(evidence.p_greater):
        evidence = replace(
            evidence,
            p_greater=max(evidence.p_greater, always.p_value) if always.difference > 0 else 1.0,
            p_less=max(evidence.p_less, always.p_value) if always.difference < 0 else 1.0,
        )
    held = replace(finding, evidence=evidence, method=f"{GROUPS}, at every look")
    return _finding_with_interval(held, always.difference, always.low, always.high)


def _compare_by_robust_score(
    by_groups: HistoryFinding, segments: KpiRunSegments, settings: HistorySettings
) -> HistoryFinding:
    old, new = segments.baseline, segments.new
    score = robust_z_score.robust_score(
        _run_values(old),
        _run_values(new),
        errors=[*_run_value_errors(old), *_run_value_errors(new)],
        level=INTERVAL,
        seed=settings.seed,
    )
    finding = replace(
        by_groups,
        evidence=replace(by_groups.evidence, p_greater=score.p_greater, p_less=score.p_less),
        compared=replace(by_groups.compared, logarithmic=score.logarithmic, base=score.base),
        method=ROBUST_Z,
        old_value=_median_run_value(old),
        new_value=_median_run_value(new),
        reason=score.reason,
    )
    return _finding_with_interval(finding, score.difference, score.low, score.high)


def _compare_by_change_points(
    series: KpiSeries, by_groups: HistoryFinding, dependence: TimeDependence, settings: HistorySettings, count: int
) -> HistoryFinding:
    """Look for a change that the new runs reveal: one that the old runs alone do not show.

    The level of E-divisive is that of one of ``count`` KPIs, of rises and falls together.
    """
    runs, level = (*series.old, *series.new), min(0.5, 2.0 * settings.level / count)
    known = [change.index for change in _detect_change_points(series.old, settings, level)]
    changes = _detect_change_points(runs, settings, level)
    if not changes or any(abs(index - changes[-1].index) < settings.minimum_segment for index in known):
        p = nan if by_groups.reason else 1.0
        evidence = replace(by_groups.evidence, p_greater=p, p_less=p)
        return replace(
            by_groups, evidence=evidence, method=CHANGE_POINTS, changes=_change_points_with_runs(runs, changes)
        )
    last, begin = changes[-1], changes[-2].index if len(changes) > 1 else 0
    around = KpiRunSegments((), runs[begin : last.index], runs[last.index :], _change_points_with_runs(runs, changes))
    finding = _compare_by_groups(series, around, dependence, settings)
    rises = last.after > last.before
    p_greater, p_less = (last.p_value / 2, 1.0) if rises else (1.0, last.p_value / 2)
    evidence = replace(finding.evidence, p_greater=p_greater, p_less=p_less)
    return replace(finding, evidence=evidence, method=CHANGE_POINTS)


def _detect_change_points(runs: Sequence[RunValue], settings: HistorySettings, level: float) -> list[ChangePoint]:
    return change_points.change_points(
        _run_values(runs), level=level, minimum_segment=settings.minimum_segment, seed=settings.seed
    )


def _change_points_with_runs(runs: Sequence[RunValue], changes: Sequence[ChangePoint]) -> Changes:
    return tuple((runs[change.index].run, change) for change in changes)


def _run_values(runs: Sequence[RunValue]) -> list[float | None]:
    return [run.known for run in runs]


def _run_value_errors(runs: Sequence[RunValue]) -> list[float]:
    return [run.error for run in runs if run.value is not None]


def _finite_run_values(runs: Sequence[RunValue]) -> Any:
    return comparison_scale.finite_values(_run_values(runs))


def _mean_run_value(runs: Sequence[RunValue], logarithmic: bool) -> float:
    numbers = _finite_run_values(runs)
    if not len(numbers):
        return nan
    mean = float(comparison_scale.convert_to_scale(numbers, logarithmic).mean())
    return exp(mean) if logarithmic else mean


def _median_run_value(runs: Sequence[RunValue]) -> float:
    import numpy

    numbers = _finite_run_values(runs)
    return float(numpy.median(numbers)) if len(numbers) else nan
