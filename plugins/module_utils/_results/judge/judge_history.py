# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the KPIs of a run by its history: a reading for each, corrected for their number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from ..statistics import comparison_scale, multiple_testing, readings, time_dependence
from ..statistics.further_runs import further_runs
from ..statistics.readings import INCONCLUSIVE, LEAST_HISTORY, NO_HISTORY, NOT_MEASURED, Reading
from . import compare_with_history, history_reason
from .compare_with_history import HistoryFinding, Segments
from .history_settings import CORRECTIONS, HistorySettings
from .kpi_series import KpiSeries
from .overall_verdict import NOT_JUDGED

#: Larger differences are unknown ones: the noise between two runs that differ by little.
LARGEST_SHARE = 1e6
_CORRECT: Mapping[str, Callable[[Sequence[float]], list[float]]] = dict(
    zip(CORRECTIONS, (multiple_testing.holm, multiple_testing.benjamini_hochberg, readings.uncorrected), strict=True)
)


@dataclass(frozen=True)
class HistoryReading:
    """The reading of one KPI of one point, and why. p, p_corrected: in the direction of the difference."""

    series: KpiSeries
    result: str
    why: str
    finding: HistoryFinding
    p: float | None = None
    p_corrected: float | None = None
    further_runs: int | None = None

    def document(self) -> dict[str, Any]:
        """Return the comparison as in schema verdict/2, without the KPI itself (name, value, limit)."""
        found = self.finding
        share = None if found.from_zero else found.evidence
        band = found.band
        return {
            "reading": self.result,
            "why": self.why,
            "method": found.method,
            "old": {"n": found.compared.n_old, "value": comparison_scale.known(found.old_value)},
            "new": {"n": found.compared.n_new, "value": comparison_scale.known(found.new_value)},
            "change": _share(share.difference) if share else None,
            "change_low": _share(share.low) if share else None,
            "change_high": _share(share.high) if share else None,
            "p": self.p,
            "p_corrected": self.p_corrected,
            "change_points": [
                {"run": run, "p": one.p_value, "before": one.before, "after": one.after} for run, one in found.changes
            ],
            "further_runs": self.further_runs,
            "series": [
                {"run": one.run, "group": group, "value": one.value, "low": one.low, "high": one.high}
                for group, runs in (("old", self.series.old), ("new", self.series.new))
                for one in runs
            ],
            **({"band": list(band)} if band else {}),
        }


def judge_history(suite: Sequence[KpiSeries], settings: HistorySettings) -> list[HistoryReading]:
    """Return a reading for each KPI of all points of a run, in their order.

    Raises ValueError for a level, power or minimum_segment out of range.
    """
    cuts = max(1, sum(_is_judged(series) for series in suite))
    cut = [compare_with_history.cut(series, settings, cuts) for series in suite]
    dependence = time_dependence.of_suite([one.on_scale() for one in cut])
    judged = [_is_judged(series) and _is_enough(one) for series, one in zip(suite, cut, strict=True)]
    count = sum(judged)
    found = [
        compare_with_history.compare(series, one, dependence, settings, max(1, count))
        for series, one in zip(suite, cut, strict=True)
    ]
    evidence = [one.evidence for one, counts in zip(found, judged, strict=True) if counts]
    read = iter(readings.read_suite(evidence, settings.level, _CORRECT[settings.correction]))
    return [
        _judged(series, one, next(read), settings, count) if counts else _not_judged(series, one)
        for series, one, counts in zip(suite, found, judged, strict=True)
    ]


def _is_judged(series: KpiSeries) -> bool:
    return series.judged and series.direction in ("lower", "higher")


def _is_enough(cut: Segments) -> bool:
    old, new = cut.counts()
    return old >= LEAST_HISTORY and new > 0


def _judged(
    series: KpiSeries, found: HistoryFinding, read: Reading, settings: HistorySettings, count: int
) -> HistoryReading:
    p = _p(found)
    if read.result == NO_HISTORY:
        why = history_reason.not_enough(found, _past(series))
        return HistoryReading(series, NO_HISTORY, why, found)
    corrected = read.p_worse if found.evidence.worse[0] > 0 else read.p_better
    if read.result != INCONCLUSIVE:
        why = history_reason.decided(series, found, read.result, corrected, settings, count)
        return HistoryReading(series, read.result, why, found, p, corrected)
    further = _further_runs(series, found, settings, count)
    why = history_reason.inconclusive(series, found, further)
    return HistoryReading(series, INCONCLUSIVE, why, found, p, corrected, further)


def _not_judged(series: KpiSeries, found: HistoryFinding) -> HistoryReading:
    past = _past(series)
    if not _is_judged(series):
        known = isfinite(found.evidence.difference)
        why = history_reason.difference(series, found) if known else history_reason.not_enough(found, past)
        return HistoryReading(series, NOT_JUDGED, why, found, _p(found))
    if past and not found.compared.n_new:
        return HistoryReading(series, NOT_MEASURED, history_reason.not_measured(past), found)
    return HistoryReading(series, NO_HISTORY, history_reason.not_enough(found, past), found)


def _past(series: KpiSeries) -> int:
    return len(comparison_scale.finite(one.value for one in series.old))


def _p(found: HistoryFinding) -> float | None:
    return comparison_scale.known(found.evidence.p_greater if found.evidence.difference > 0 else found.evidence.p_less)


def _further_runs(series: KpiSeries, found: HistoryFinding, settings: HistorySettings, count: int) -> int | None:
    """Return how many further runs would find the least difference, by Student's t-test at the corrected level."""
    compared, least = found.compared, found.evidence.least
    higher = series.direction == "higher"
    shift = comparison_scale.to_scale(-least if higher else least, compared.logarithmic, compared.base)
    noise_df = compared.df - max(0, compared.n_old - 1) - max(0, compared.n_new - 1)
    return further_runs(
        compared.n_old,
        compared.n_new,
        compared.noise,
        max(0.0, noise_df),
        abs(shift),
        settings.level if settings.correction == CORRECTIONS[-1] else settings.level / count,
        settings.power,
    )


def _share(value: float) -> float | None:
    return value if abs(value) < LARGEST_SHARE else None
