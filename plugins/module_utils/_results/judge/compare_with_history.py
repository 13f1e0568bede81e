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
from math import exp, isfinite, isnan, nan, sqrt
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
from ..statistics.readings import Evidence
from ..statistics.time_dependence import Dependence
from .history_settings import CHANGE_POINTS, GROUPS, ROBUST_Z, HistorySettings
from .past_runs import KpiSeries, RunValue

#: Level of the intervals.
INTERVAL = 0.95
#: Wider bands end here: beyond it a figure is infinite.
LARGEST_EXPONENT = 100.0
Changes = tuple[tuple[str, ChangePoint], ...]


@dataclass(frozen=True)
class Segments:
    """Old runs of a KPI, split at change points, and the new ones. changes: with the first run after each."""

    earlier: tuple[tuple[RunValue, ...], ...]
    baseline: tuple[RunValue, ...]
    new: tuple[RunValue, ...]
    changes: Changes

    def counts(self) -> tuple[int, int]:
        """Return the number of values of the baseline and of the new runs."""
        return len(_numbers(self.baseline)), len(_numbers(self.new))

    def on_scale(self) -> list[Any]:
        """Return all segments and the new runs as arrays, on the scale of the comparison."""
        groups = [_numbers(runs) for runs in (*self.earlier, self.baseline, self.new)]
        logarithmic = comparison_scale.on_log_scale(*groups)
        return [comparison_scale.scaled(values, logarithmic) for values in groups]


@dataclass(frozen=True)
class HistoryFinding:
    """What a method found for one KPI, before the correction for many.

    compared: the same by Student's t-test, which shows the noise. old_value, new_value: means or medians, in the unit
    of the KPI; NaN if unknown. reason: why there are no p-values.
    """

    evidence: Evidence
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
        width *= student_t.quantile((1.0 - INTERVAL) / 2.0, compared.df)
        if compared.logarithmic:
            return self.old_value * exp(-width), self.old_value * exp(min(width, LARGEST_EXPONENT))
        return self.old_value - width, self.old_value + width


def split_at_change_points(series: KpiSeries, settings: HistorySettings, count: int) -> Segments:
    """Split the old runs of a KPI at their change points.

    count: KPIs that are judged together. They share the level: a wrong split makes an extreme part the baseline.
    """
    changes = _changes(series.old, settings, settings.level / count)
    bounds = [0, *(change.index for change in changes), len(series.old)]
    *earlier, baseline = [series.old[begin:end] for begin, end in pairwise(bounds)]
    return Segments(tuple(earlier), baseline, series.new, _with_runs(series.old, changes))


def compare(
    series: KpiSeries, segments: Segments, dependence: Dependence, settings: HistorySettings, count: int
) -> HistoryFinding:
    """Compare the new runs of a KPI with its baseline by the chosen method.

    dependence: of all KPIs of the run. count: KPIs that are judged together. A repeated point is compared by groups.
    """
    by_groups = _by_groups(series, segments, dependence, settings)
    if series.repeated:
        return _at_every_look(by_groups)
    if settings.method == ROBUST_Z:
        return _by_score(by_groups, segments, settings)
    if settings.method == CHANGE_POINTS:
        return _by_change_points(series, by_groups, dependence, settings, count)
    return by_groups


def _by_groups(
    series: KpiSeries, segments: Segments, dependence: Dependence, settings: HistorySettings
) -> HistoryFinding:
    old, new = segments.baseline, segments.new
    compared = group_comparison.compare_groups(
        _values(old),
        _values(new),
        old_errors=_errors(old),
        new_errors=_errors(new),
        earlier=[_values(runs) for runs in segments.earlier],
        dependence=dependence,
        level=INTERVAL,
    )
    p_values = (compared.p_greater, compared.p_less)
    evidence = Evidence(series.direction, nan, nan, nan, *p_values, settings.least_of(series.name))
    before, after = (_mean(runs, compared.logarithmic) for runs in (old, new))
    finding = HistoryFinding(evidence, compared, GROUPS, before, after, segments.changes, compared.reason)
    return _with_interval(finding, compared.difference, compared.low, compared.high)


def _with_interval(finding: HistoryFinding, difference: float, low: float, high: float) -> HistoryFinding:
    """Return the finding with a difference and its interval, which are given on the scale of the comparison."""
    if finding.from_zero:  # every difference from 0 matters
        evidence = replace(finding.evidence, difference=difference, low=low, high=high, least=0.0)
        return replace(finding, evidence=evidence)
    logarithmic, base = finding.compared.logarithmic, finding.compared.base
    share, least, most = (comparison_scale.relative(value, logarithmic, base) for value in (difference, low, high))
    return replace(finding, evidence=replace(finding.evidence, difference=share, low=least, high=most))


def _at_every_look(finding: HistoryFinding) -> HistoryFinding:
    """Return the finding with the interval and the p-values that hold at every look."""
    always = always_valid_interval.anytime(finding.compared, 1.0 - INTERVAL)
    evidence = finding.evidence
    if not isnan(evidence.p_greater):
        evidence = replace(
            evidence,
            p_greater=max(evidence.p_greater, always.p_value) if always.difference > 0 else 1.0,
            p_less=max(evidence.p_less, always.p_value) if always.difference < 0 else 1.0,
        )
    held = replace(finding, evidence=evidence, method=f"{GROUPS}, at every look")
    return _with_interval(held, always.difference, always.low, always.high)


def _by_score(by_groups: HistoryFinding, segments: Segments, settings: HistorySettings) -> HistoryFinding:
    old, new = segments.baseline, segments.new
    score = robust_z_score.robust_score(
        _values(old), _values(new), errors=[*_errors(old), *_errors(new)], level=INTERVAL, seed=settings.seed
    )
    finding = replace(
        by_groups,
        evidence=replace(by_groups.evidence, p_greater=score.p_greater, p_less=score.p_less),
        compared=replace(by_groups.compared, logarithmic=score.logarithmic, base=score.base),
        method=ROBUST_Z,
        old_value=_median(old),
        new_value=_median(new),
        reason=score.reason,
    )
    return _with_interval(finding, score.difference, score.low, score.high)


def _by_change_points(
    series: KpiSeries, by_groups: HistoryFinding, dependence: Dependence, settings: HistorySettings, count: int
) -> HistoryFinding:
    """Look for a change that the new runs reveal: one that the old runs alone do not show.

    The level of E-divisive is that of one of ``count`` KPIs, of rises and falls together.
    """
    runs, level = (*series.old, *series.new), min(0.5, 2.0 * settings.level / count)
    known = [change.index for change in _changes(series.old, settings, level)]
    changes = _changes(runs, settings, level)
    if not changes or any(abs(index - changes[-1].index) < settings.minimum_segment for index in known):
        p = nan if by_groups.reason else 1.0
        evidence = replace(by_groups.evidence, p_greater=p, p_less=p)
        return replace(by_groups, evidence=evidence, method=CHANGE_POINTS, changes=_with_runs(runs, changes))
    last, begin = changes[-1], changes[-2].index if len(changes) > 1 else 0
    around = Segments((), runs[begin : last.index], runs[last.index :], _with_runs(runs, changes))
    finding = _by_groups(series, around, dependence, settings)
    rises = last.after > last.before
    p_greater, p_less = (last.p_value / 2, 1.0) if rises else (1.0, last.p_value / 2)
    evidence = replace(finding.evidence, p_greater=p_greater, p_less=p_less)
    return replace(finding, evidence=evidence, method=CHANGE_POINTS)


def _changes(runs: Sequence[RunValue], settings: HistorySettings, level: float) -> list[ChangePoint]:
    return change_points.change_points(
        _values(runs), level=level, minimum_segment=settings.minimum_segment, seed=settings.seed
    )


def _with_runs(runs: Sequence[RunValue], changes: Sequence[ChangePoint]) -> Changes:
    return tuple((runs[change.index].run, change) for change in changes)


def _values(runs: Sequence[RunValue]) -> list[float | None]:
    return [run.value for run in runs]


def _errors(runs: Sequence[RunValue]) -> list[float]:
    return [run.error for run in runs if run.value is not None]


def _numbers(runs: Sequence[RunValue]) -> Any:
    return comparison_scale.finite(_values(runs))


def _mean(runs: Sequence[RunValue], logarithmic: bool) -> float:
    numbers = _numbers(runs)
    if not len(numbers):
        return nan
    mean = float(comparison_scale.scaled(numbers, logarithmic).mean())
    return exp(mean) if logarithmic else mean


def _median(runs: Sequence[RunValue]) -> float:
    import numpy

    numbers = _numbers(runs)
    return float(numpy.median(numbers)) if len(numbers) else nan
