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
from math import comb, exp, inf, isfinite, nan, sqrt
from typing import Any

from ..statistics import comparison_scale, group_comparison_intervals, noise_between_runs, student_t, time_dependence
from ..statistics.group_comparison_intervals import GroupDifference
from ..statistics.noise_between_runs import Shift
from ..statistics.readings_from_p_values import FigureEvidence
from ..statistics.shift_posterior import FigureRuns
from ..statistics.time_dependence import ChangePoint, TimeDependence
from .history_settings import HistorySettings
from .past_run_data import KpiSeries, RunValue

#: The method, as verdict.json names it.
METHOD = "posterior of the shift"
#: Level of the intervals.
INTERVAL = 0.95
#: Where a figure may be of which only the bound is known: shares of the way from it to the highest of all runs. How far
#: above that it is, is no further evidence.
_TO_HIGHEST = (0.25, 0.5, 0.75, 1.0)
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
        logarithmic = comparison_scale.is_compared_on_log_scale(*groups)
        return [comparison_scale.convert_to_scale(values, logarithmic) for values in groups]


@dataclass(frozen=True)
class HistoryFinding:
    """What was found for one KPI, before the correction for many.

    compared: the same by Student's t-test, which shows the noise. old_value, new_value: locations, in the unit of the
    KPI; NaN if unknown. reason: why there are no p-values.
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
        width *= student_t.student_t_upper_tail_quantile((1.0 - INTERVAL) / 2.0, compared.df)
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


def compare_kpis_with_baselines(
    suite: Sequence[KpiSeries],
    segments: Sequence[KpiRunSegments],
    dependence: TimeDependence,
    settings: HistorySettings,
    judged: Sequence[bool],
) -> list[HistoryFinding]:
    """Compare the new runs of each KPI of a suite with its baseline.

    dependence: of all KPIs of the run. judged: which KPIs count; the noise of runs is learned from these. A point that
    is repeated until decided gets the interval that holds at every look.
    """
    pairs = list(zip(suite, segments, strict=True))
    findings = [_compare_by_variance(series, of_kpi, dependence, settings) for series, of_kpi in pairs]
    known = [place for place, finding in enumerate(findings) if not finding.reason]
    known.sort(key=lambda place: not judged[place])
    figures = [_figure_runs(segments[place], findings[place].compared.logarithmic, dependence) for place in known]
    stretches = [
        dependence.variance_of_difference(len(runs.old), len(runs.new)) / (1 / len(runs.old) + 1 / len(runs.new))
        for runs in figures
    ]
    others = sum(not judged[place] for place in known)
    shifts = noise_between_runs.estimate_shifts_of_suite(figures, stretches, INTERVAL, others)
    for group, cautious in (("old", _shift_without_fall), ("new", _shift_without_rise)):
        bounds = [_bounds_among(segments[at].baseline if group == "old" else segments[at].new) for at in known]
        for share in _TO_HIGHEST if any(each.any() for each in bounds) else ():
            moved = [_move_bounds(runs, group, each, share) for runs, each in zip(figures, bounds, strict=True)]
            above = noise_between_runs.estimate_shifts_of_suite(moved, stretches, INTERVAL, others)
            shifts = [
                cautious(shift, other, _p_of_ranks(runs, group, each)) if each.any() else shift
                for shift, other, runs, each in zip(shifts, above, figures, bounds, strict=True)
            ]
    for place, shift in zip(known, shifts, strict=True):
        findings[place] = _finding_of_shift(suite[place], segments[place], findings[place], shift)
    return findings


def _bounds_among(runs: Sequence[RunValue]) -> Any:
    """Return for each run that has a figure whether only a bound of it is known."""
    import numpy

    known = comparison_scale.mask_of_finite_values(comparison_scale.float_array(_run_values(runs)))
    return numpy.array([run.at_least is not None for run in runs], dtype=bool)[known]


def _move_bounds(runs: FigureRuns, group: str, bounds: Any, share: float) -> FigureRuns:
    """Return the runs with those of a group of which only a bound is known on their way to the highest of all."""
    highest = max(runs.old.max(), runs.new.max())
    values = getattr(runs, group)
    return replace(runs, **{group: values + bounds * share * (highest - values)})


def _p_of_ranks(runs: FigureRuns, group: str, bounds: Any) -> float:
    """Return how probably those of a group whose figure is known are by chance all below the other group."""
    exact = int((~bounds).sum())
    return comb(len(getattr(runs, group)), exact) / comb(len(runs.old) + len(runs.new), exact)


def _shift_without_fall(shift: Shift, above: Shift, least: float) -> Shift:
    """Return what of a shift remains true if old figures are above their bounds. least: of the p-value."""
    return replace(shift, low=min(shift.low, above.low), p_greater=max(shift.p_greater, above.p_greater, least))


def _shift_without_rise(shift: Shift, above: Shift, least: float) -> Shift:
    """Return the same if new ones are: how much higher they are is not known. least: of the p-value."""
    return replace(shift, high=inf, p_less=max(shift.p_less, above.p_less, least))


def _compare_by_variance(
    series: KpiSeries, segments: KpiRunSegments, dependence: TimeDependence, settings: HistorySettings
) -> HistoryFinding:
    """Return the finding of Student's t-test, which shows how much runs differ, and why a KPI can't be compared."""
    old, new = segments.baseline, segments.new
    compared = group_comparison_intervals.compare_groups(
        _run_values(old),
        _run_values(new),
        old_errors=_run_value_errors(old),
        new_errors=_run_value_errors(new),
        earlier=[_run_values(runs) for runs in segments.earlier],
        dependence=dependence,
        level=INTERVAL,
    )
    evidence = FigureEvidence(series.direction, nan, nan, nan, nan, nan, settings.least_of(series.name))
    before, after = (_mean_run_value(runs, compared.logarithmic) for runs in (old, new))
    finding = HistoryFinding(evidence, compared, METHOD, before, after, segments.changes, compared.reason)
    return _finding_with_interval(finding, compared.difference, compared.low, compared.high)


def _figure_runs(segments: KpiRunSegments, logarithmic: bool, dependence: TimeDependence) -> FigureRuns:
    *earlier, old, new = segments.on_scale()
    values = _finite_run_values([run for runs in (*segments.earlier, segments.baseline) for run in runs])
    base = float(_finite_run_values(segments.baseline).mean()) if logarithmic else 1.0
    errors = [*_run_value_errors(segments.baseline), *_run_value_errors(segments.new)]
    floor = max(
        sqrt(group_comparison_intervals.mean_variance_within_runs(errors, base)),
        noise_between_runs.least_scale_of_rounded_figures(values, base),
    )
    earlier = [runs for runs in earlier if len(runs) > 1]
    freedom = (dependence.freedom(len(old), *map(len, earlier)), dependence.freedom(len(new)))
    return FigureRuns(old, new, tuple(earlier), floor, logarithmic, freedom)


def _finding_of_shift(
    series: KpiSeries, segments: KpiRunSegments, finding: HistoryFinding, shift: Shift
) -> HistoryFinding:
    old, new = segments.baseline, segments.new
    p_values = (shift.p_greater, shift.p_less)
    method = METHOD
    if series.repeated:
        always = group_comparison_intervals.interval_of_group_difference(finding.compared, 1.0 - INTERVAL)
        p_values = (
            max(shift.p_greater, always.p_value) if always.difference > 0 else 1.0,
            max(shift.p_less, always.p_value) if always.difference < 0 else 1.0,
        )
        shift = replace(shift, difference=always.difference, low=always.low, high=always.high)
        method = f"{METHOD}, at every look"
        if _bounds_among(new).any():  # an interval for every look is not known for figures above their bounds
            shift, p_values = replace(shift, high=inf), (p_values[0], 1.0)
        if _bounds_among(old).any():
            shift, p_values = replace(shift, low=-inf), (1.0, p_values[1])
    logarithmic = finding.compared.logarithmic
    finding = replace(
        finding,
        evidence=replace(finding.evidence, p_greater=p_values[0], p_less=p_values[1]),
        method=method,
        old_value=exp(shift.old_location) if logarithmic else shift.old_location,
        new_value=exp(shift.new_location) if logarithmic else shift.new_location,
    )
    return _finding_with_interval(finding, shift.difference, shift.low, shift.high)


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


def _detect_change_points(runs: Sequence[RunValue], settings: HistorySettings, level: float) -> list[ChangePoint]:
    return time_dependence.change_points(
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
