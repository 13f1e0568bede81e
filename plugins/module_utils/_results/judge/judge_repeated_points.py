# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge points that are repeated until decided (keyword ``repeat``): one figure and one reading for all attempts.

The figure is the mean over the attempts. The test of group_comparison_intervals.py says whether it differs from its
limit at every look with one error rate; Holm's correction covers all limits of all points, so that ``results_level`` is
the chance of any wrong decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite, nan
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run

from ..statistics import comparison_scale, group_comparison_intervals
from ..statistics.group_comparison_intervals import AnytimeDifference
from ..statistics.readings_from_p_values import ACROSS, NOT_MEASURED, OUTSIDE, WITHIN, adjust_by_holm
from . import kpi_limits
from .kpi_limits import KpiLimit
from .past_run_data import WIDTH

Kpi = Mapping[str, Any]
#: Logarithm of a number beyond any figure.
_LARGEST = 700.0
METHOD = "mean of the attempts, at every look"


def passed_attempts_by_point(run: Run) -> dict[str, list[Point]]:
    """Return the passed attempts at each point of a run that repeats its points; empty for any other run.

    An attempt that was resumed does not count: its times include the interruption, and another one is made.
    """
    attempts: dict[str, list[Point]] = {}
    for point in run.points if run.repeats else ():
        if point.status == "passed" and not point.resumed and point.kpis is not None:
            attempts.setdefault(point.of, []).append(point)
    return attempts


def judged_kpis_of_repeated_points(
    attempts: Mapping[str, Sequence[Point]],
    of_points: Mapping[str, Sequence[KpiLimit]],
    is_compared_with_history: Callable[[Kpi], bool],
    level: float,
    each: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return the figures on which the verdict depends, and limits without a figure, as in schema verdict/2.

    Args:
        attempts: Point -> those that count.
        of_points: Point -> its limits.
        is_compared_with_history: Whether a KPI is compared with history.
        level: Chance of any wrong decision.
        each: Names of figures whose limit holds for each attempt and not for the mean.
    """
    figures = [
        (point, kpis, [limit for limit in of_points.get(point, ()) if limit.matches(kpis[0]["name"])])
        for point, members in attempts.items()
        for kpis in _attempt_kpis_by_name(members)
    ]
    readings = iter(
        judge_kpis_against_limits([(limit, kpis) for _point, kpis, own in figures for limit in own], level, each)
    )
    entries = []
    for point, kpis, own in figures:
        of_limits = [next(readings) for _limit in own]
        if own or is_compared_with_history(kpis[0]):
            entries.append(_verdict_entry_of_kpi(point, kpis, own, of_limits, is_compared_with_history(kpis[0])))
    for point, members in attempts.items():
        names = {str(kpi["name"]) for member in members for kpi in member.kpis or []}
        absent = [limit for limit in of_points.get(point, ()) if not any(map(limit.matches, names))]
        entries += [kpi_limits.entry_of_missing_kpi(members[0].number, limit) for limit in absent]
    return entries


def _attempt_kpis_by_name(attempts: Sequence[Point]) -> list[list[dict[str, Any]]]:
    """Return the figures of the attempts by their name; ``attempt`` is the name of the folder."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for attempt in attempts:
        for kpi in attempt.kpis or []:
            by_name.setdefault(str(kpi["name"]), []).append({**kpi, "attempt": attempt.number})
    return list(by_name.values())


def _verdict_entry_of_kpi(
    point: str, kpis: Sequence[Kpi], own: Sequence[KpiLimit], readings: Sequence[RepeatedReading], compared: bool
) -> dict[str, Any]:
    values = [kpi["value"] for kpi in kpis if kpi["value"] is not None]
    bounded = any(kpi["value"] is None and kpi.get("at_least") is not None for kpi in kpis)
    entry = {
        **kpi_limits.judge_kpi_by_limits(point, kpis[0], own, readings, compared),
        "value": sum(values) / len(values) if values and not bounded else None,
        "simulated": any(kpi["simulated"] for kpi in kpis),
        "series": [_run_value(kpi) for kpi in kpis],
    }
    if not readings:
        return entry
    worst = kpi_limits.worst_reading(readings)
    numbers = {name: getattr(worst, name) for name in ("value", "low", "high", "p", "p_corrected")}
    known = {name: comparison_scale.finite_or_none(number) for name, number in numbers.items()}
    return {**entry, "method": METHOD, **known}


def _run_value(kpi: Kpi) -> dict[str, Any]:
    low, high = kpi_limits.kpi_uncertainty_interval(kpi)
    return {"run": kpi["attempt"], "group": "new", "value": kpi["value"], "low": low, "high": high}


@dataclass(frozen=True)
class RepeatedReading:
    """A figure by its limit. value, low, high: in its unit, NaN or infinite if unknown. p: NaN if it was not tested."""

    result: str
    text: str
    value: float = nan
    low: float = nan
    high: float = nan
    p: float = nan
    p_corrected: float = nan


@dataclass(frozen=True)
class _LimitTestResult:
    """The comparison of the mean with the ends of a limit. p: of the side that it lies on."""

    logarithmic: bool
    result: str
    p: float


def judge_kpis_against_limits(
    suite: Sequence[tuple[KpiLimit, Sequence[Kpi]]], level: float, each: Sequence[str] = ()
) -> list[RepeatedReading]:
    """Return a reading for each limit with the figure of each attempt, at least one."""
    tested = [None if kpis[0]["name"] in each else _judge_kpi_against_limit(limit, kpis) for limit, kpis in suite]
    p_values = [test.p if test else 1.0 for test in tested]
    corrected = adjust_by_holm(p_values)
    ranks = {index: rank for rank, index in enumerate(sorted(range(len(suite)), key=lambda index: p_values[index]))}
    return [
        _reading_of_test_result(limit, kpis, test, adjusted, level / (len(suite) - ranks[index]), level)
        if test
        else _reading_without_test(limit, kpis, kpis[0]["name"] in each)
        for index, ((limit, kpis), test, adjusted) in enumerate(zip(suite, tested, corrected, strict=True))
    ]


def _judge_kpi_against_limit(limit: KpiLimit, kpis: Sequence[Kpi]) -> _LimitTestResult | None:
    """Return the test of a figure, None for one without noise, or of which an end is not known in some attempt."""
    if any(None in (kpi_limits.finite_kpi_value(kpi), *kpi_limits.kpi_uncertainty_interval(kpi)) for kpi in kpis):
        return None
    ends = [end for end in (limit.least, limit.most) if end is not None]
    logarithmic = all(number > 0 for number in [*ends, *_scaled_kpi_values(kpis, False)])
    values = _scaled_kpi_values(kpis, logarithmic)
    if (
        len(kpis) > 1
        and not comparison_scale.pooled_variance_within_groups([values]).variance
        and not _mean_variance_within_attempts(kpis, logarithmic)
    ):
        return None
    differences = _mean_differences_from_limits(limit, kpis, logarithmic, 0.05)
    outside = [
        compared.p_value
        for is_upper, compared in differences
        if (compared.difference > 0 if is_upper else compared.difference < 0)
    ]
    if outside:
        return _LimitTestResult(logarithmic, OUTSIDE, min(1.0, min(outside) * len(differences)))
    return _LimitTestResult(logarithmic, WITHIN, max(compared.p_value for _is_upper, compared in differences))


def _mean_differences_from_limits(
    limit: KpiLimit, kpis: Sequence[Kpi], logarithmic: bool, alpha: float
) -> list[tuple[bool, AnytimeDifference]]:
    """Return the difference from each end of a limit, with whether it is an upper one."""
    values, within = list(_scaled_kpi_values(kpis, logarithmic)), _mean_variance_within_attempts(kpis, logarithmic)
    return [
        (
            is_upper,
            group_comparison_intervals.interval_of_mean_minus_limit(
                values, _scale_value(end, logarithmic), None, alpha, within
            ),
        )
        for is_upper, end in ((True, limit.most), (False, limit.least))
        if end is not None
    ]


def _scaled_kpi_values(kpis: Sequence[Kpi], logarithmic: bool) -> Any:
    return comparison_scale.convert_to_scale(comparison_scale.float_array([kpi["value"] for kpi in kpis]), logarithmic)


def _scale_value(amount: float | None, logarithmic: bool) -> float:
    return float(comparison_scale.convert_to_scale(amount, logarithmic))


def _mean_variance_within_attempts(kpis: Sequence[Kpi], logarithmic: bool) -> float:
    """Return the mean variance within the attempts, from the widths of their intervals."""
    widths = []
    for kpi in kpis:
        low, high = kpi_limits.kpi_uncertainty_interval(kpi)
        if low is not None and high is not None:
            widths.append((high - low) / (kpi["value"] if logarithmic else 1.0))
    return sum((width / WIDTH) ** 2 for width in widths) / len(widths) if widths else 0.0


def _reading_of_test_result(
    limit: KpiLimit, kpis: Sequence[Kpi], tested: _LimitTestResult, corrected: float, alpha: float, level: float
) -> RepeatedReading:
    """Return the reading of a tested figure. alpha: of its interval, as Holm's correction gives it."""
    logarithmic = tested.logarithmic
    is_upper, compared = _mean_differences_from_limits(limit, kpis, logarithmic, alpha)[0]
    origin = _scale_value(limit.most if is_upper else limit.least, logarithmic)

    def in_unit(amount: float) -> float:
        return (exp(amount) if amount < _LARGEST else inf) if logarithmic else amount

    value, low, high = (in_unit(origin + end) for end in (compared.difference, compared.low, compared.high))
    result = tested.result if corrected <= level else ACROSS
    return RepeatedReading(
        result, _format_reading_sentence(limit, kpis, result, value, low, high), value, low, high, tested.p, corrected
    )


def _format_reading_sentence(
    limit: KpiLimit, kpis: Sequence[Kpi], result: str, value: float, low: float, high: float
) -> str:
    unit = kpis[0]["unit"]
    if len(kpis) == 1:
        return f"One attempt does not show how much attempts differ; the limit is {limit.text}."
    about = (
        f" ({formats.format_interval_words(low, high, unit)} at every look)" if isfinite(high) and isfinite(low) else ""
    )
    mean = kpi_limits.format_value_near_limit(limit, value, unit)
    return f"The mean of {len(kpis)} attempts is {mean}{about}. It {kpi_limits.VERBS[result]} the limit, {limit.text}."


def _reading_without_test(limit: KpiLimit, kpis: Sequence[Kpi], each: bool) -> RepeatedReading:
    """Return the reading that all attempts agree on, without a test; the gravest if the limit is for each."""
    readings = [kpi_limits.check_kpi_against_limit(limit, kpi) for kpi in kpis]
    worst = kpi_limits.worst_reading(readings)
    results = {reading.result for reading in readings}
    result = worst.result if each or len(results) == 1 else ACROSS
    known = [value for kpi in kpis if (value := kpi_limits.finite_kpi_value(kpi)) is not None]
    value = sum(known) / len(known) if len(known) == len(kpis) else nan
    lows, highs = zip(*(kpi_limits.kpi_uncertainty_interval(kpi) for kpi in kpis), strict=True)
    low = nan if None in lows else min(lows)
    high = nan if None in highs else max(highs)
    text = worst.text
    if not (len(kpis) == 1 or result == NOT_MEASURED or each):
        verb = "agree" if len(results) == 1 else "do not agree"
        text = f"{len(kpis)} attempts {verb}: {worst.text}"
    return RepeatedReading(result, text, value, low, high)
