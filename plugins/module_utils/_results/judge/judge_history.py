# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge KPIs by old and new runs: a reading for each, corrected for their number, and the sentence that explains it.

It is the only judge: of a run against its history, of repeated points, and of groups of runs against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from math import isfinite
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..statistics import comparison_scale, noise_between_runs, readings_from_p_values, time_dependence
from ..statistics.group_comparison_intervals import number_of_further_runs_needed
from ..statistics.readings_from_p_values import (
    ACKNOWLEDGED,
    IMPROVEMENT,
    INCONCLUSIVE,
    LEAST_HISTORY,
    NO_HISTORY,
    NOT_JUDGED,
    NOT_MEASURED,
    PASS,
    REGRESSION,
    WITHIN,
    FigureReading,
)
from . import compare_with_history, history_settings
from .compare_with_history import HistoryFinding, KpiRunSegments
from .history_settings import CORRECTIONS, HistorySettings
from .past_run_data import KpiSeries, RunValue

#: Larger differences are unknown ones: the noise between two runs that differ by little.
LARGEST_SHARE = 1e6
_CORRECT: Mapping[str, Callable[[Sequence[float]], list[float]]] = dict(
    zip(
        CORRECTIONS,
        (
            readings_from_p_values.adjust_by_holm,
            readings_from_p_values.adjust_by_benjamini_hochberg,
            readings_from_p_values.leave_p_values_uncorrected,
        ),
        strict=True,
    )
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

    def comparison_document(self) -> dict[str, Any]:
        """Return the comparison as in schema verdict/2, without the KPI itself (name, value, limit)."""
        finding = self.finding
        shares: list[float | None] = [None] * 3
        if not finding.from_zero:
            shares = [_known_share(getattr(finding.evidence, name)) for name in ("difference", "low", "high")]
        band = finding.band
        return {
            "reading": self.result,
            "why": self.why,
            "method": finding.method,
            "old": {"n": finding.compared.n_old, "value": comparison_scale.finite_or_none(finding.old_value)},
            "new": {"n": finding.compared.n_new, "value": comparison_scale.finite_or_none(finding.new_value)},
            **dict(zip(("change", "change_low", "change_high"), shares, strict=True)),
            "p": self.p,
            "p_corrected": self.p_corrected,
            "change_points": [
                {"run": run, "p": change.p_value, "before": change.before, "after": change.after}
                for run, change in finding.changes
            ],
            "further_runs": self.further_runs,
            "series": [
                {"run": run.run, "group": group, "value": run.value, "low": run.low, "high": run.high}
                for group, runs in (("old", self.series.old), ("new", self.series.new))
                for run in runs
            ],
            **({"band": list(band)} if band else {}),
        }


Kpi = dict[str, Any]


def judge_kpis(
    kpis: Sequence[tuple[Kpi, KpiSeries]],
    settings: HistorySettings,
    unread: Callable[[Kpi], Sequence[str]] = lambda _kpi: (),
) -> list[Kpi]:
    """Return judged KPIs (schema verdict/2) with the comparison of their new runs with the old ones.

    Args:
        kpis: Each KPI with its series. All are judged together, and the p-values are corrected for their number.
        settings: How they are compared.
        unread: Why a KPI lacks past runs that further attempts would be compared with, which leaves it undecided.
    """
    read = judge_history([series for _kpi, series in kpis], settings)
    return [_kpi_with_reading(kpi, reading, unread(kpi)) for (kpi, _series), reading in zip(kpis, read, strict=True)]


def _kpi_with_reading(kpi: Kpi, read: HistoryReading, unread: Sequence[str]) -> Kpi:
    document = read.comparison_document()
    if not read.series.old:  # then the test of a limit remains
        document = {name: value for name, value in document.items() if name not in kpi}
    result, why = read.result, read.why
    if result == NO_HISTORY and unread:
        result, why = INCONCLUSIVE, "; ".join((why, *unread))
    return {**kpi, **document, "reading": result, "why": kpi_explanation_text(kpi, result, why)}


def kpi_explanation_text(kpi: Mapping[str, Any], result: str, text: str) -> str:
    """Return the sentences that explain a judged KPI: that of a limit first if it decides."""
    limit = kpi.get("limit")
    if not limit:
        return text
    if limit["result"] == WITHIN:
        return str(limit["text"]) if result == NOT_JUDGED else text
    if readings_from_p_values.gravest_reading([result]) == PASS:
        return str(limit["text"])
    return f"{limit['text']} {formats.capitalize_first_letter(text)}"


def judge_history(suite: Sequence[KpiSeries], settings: HistorySettings) -> list[HistoryReading]:
    """Return a reading for each KPI of all points of a run, in their order.

    Raises ValueError for a level, power or minimum_segment out of range.
    """
    today = history_settings.today_utc()
    suite = [history_settings.move_regressed_runs_to_new(series, settings.acknowledged, today) for series in suite]
    count = max(1, sum(_is_judged(series) for series in suite))
    segments = [compare_with_history.split_at_change_points(series, settings, count) for series in suite]
    dependence = time_dependence.estimate_suite_dependence([of_kpi.on_scale() for of_kpi in segments])
    judged = [_is_judged(series) and _is_enough(of_kpi) for series, of_kpi in zip(suite, segments, strict=True)]
    count = sum(judged)
    findings = compare_with_history.compare_kpis_with_baselines(suite, segments, dependence, settings, judged)
    evidence = [finding.evidence for finding, counts in zip(findings, judged, strict=True) if counts]
    read = iter(
        readings_from_p_values.classify_figures_of_suite(evidence, settings.level, _CORRECT[settings.correction])
    )
    results = [
        _judged_kpi_reading(series, finding, next(read), settings, count) if counts else _not_judged(series, finding)
        for series, finding, counts in zip(suite, findings, judged, strict=True)
    ]
    return [
        _acknowledged(reading, of_kpi, settings, today) if counts else reading
        for reading, of_kpi, counts in zip(results, segments, judged, strict=True)
    ]


def _acknowledged(
    reading: HistoryReading, segments: KpiRunSegments, settings: HistorySettings, today: date
) -> HistoryReading:
    """Return a regression as a known one, unless the last run is worse than those since the acknowledgement.

    The last run decides, whatever the group of the new runs shows: a further step inside it looks like noise.
    """
    series = reading.series
    known = history_settings.find_acknowledgement(series, settings.acknowledged, today)
    if known is None:
        return reading
    since = known.known_runs(series)
    if any(run.known is not None for run in since):
        again = replace(series, old=since, new=series.new[-1:], repeated=False)
        beside = KpiRunSegments((*segments.earlier, segments.baseline), since, again.new, ())
        (step,) = compare_with_history.compare_kpis_with_baselines(
            [again], [beside], time_dependence.INDEPENDENT, settings, [True]
        )
        if readings_from_p_values.classify_figures_of_suite([step.evidence], settings.level)[0].result == REGRESSION:
            why = f"worse than the {known.text()}: {kpi_difference_text(again, step)}"
            return replace(reading, result=REGRESSION, why=why)
    if reading.result != REGRESSION:
        return reading
    return replace(reading, result=ACKNOWLEDGED, why=f"{known.text()}: {reading.why}")


def _is_judged(series: KpiSeries) -> bool:
    return series.judged and series.direction in ("lower", "higher")


def _is_enough(segments: KpiRunSegments) -> bool:
    old, new = segments.counts()
    return old >= LEAST_HISTORY and new > 0


def _judged_kpi_reading(
    series: KpiSeries, finding: HistoryFinding, read: FigureReading, settings: HistorySettings, count: int
) -> HistoryReading:
    if read.result == NO_HISTORY:
        return HistoryReading(series, NO_HISTORY, _not_enough(finding, _count_past_values(series)), finding)
    corrected = read.p_value_of_worse if finding.evidence.worse[0] > 0 else read.p_value_of_better
    if read.result != INCONCLUSIVE:
        why = sentence_for_decided_kpi(series, finding, read.result, corrected, settings, count)
        return HistoryReading(series, read.result, why, finding, _directional_p_value(finding), corrected)
    further = _further_runs(series, finding, settings, count)
    why = sentence_for_inconclusive_kpi(series, finding, further)
    return HistoryReading(series, INCONCLUSIVE, why, finding, _directional_p_value(finding), corrected, further)


def _not_judged(series: KpiSeries, finding: HistoryFinding) -> HistoryReading:
    past = _count_past_values(series)
    if not _is_judged(series):
        known = isfinite(finding.evidence.difference)
        why = kpi_difference_text(series, finding) if known else _not_enough(finding, past)
        return HistoryReading(series, NOT_JUDGED, why, finding, _directional_p_value(finding))
    if past and not finding.compared.n_new:
        why = f"not measured in this run; the history has it in {formats.format_count(past, 'run')}"
        return HistoryReading(series, NOT_MEASURED, why, finding)
    return HistoryReading(series, NO_HISTORY, _not_enough(finding, past), finding)


def _count_past_values(series: KpiSeries) -> int:
    return len(comparison_scale.finite_values(run.known for run in series.old))


def _directional_p_value(finding: HistoryFinding) -> float | None:
    evidence = finding.evidence
    return comparison_scale.finite_or_none(evidence.p_greater if evidence.difference > 0 else evidence.p_less)


def _further_runs(series: KpiSeries, finding: HistoryFinding, settings: HistorySettings, count: int) -> int | None:
    """Return how many further runs would find the least difference, by Student's t-test at the corrected level."""
    compared, least = finding.compared, finding.evidence.least
    higher = series.direction == "higher"
    shift = comparison_scale.share_to_scale_difference(-least if higher else least, compared.logarithmic, compared.base)
    noise_df = compared.df - max(0, compared.n_old - 1) - max(0, compared.n_new - 1)
    level = settings.level if settings.correction == CORRECTIONS[-1] else settings.level / count
    return number_of_further_runs_needed(
        compared.n_old,
        compared.n_new,
        compared.noise,
        max(0.0, noise_df),
        abs(shift),
        level,
        settings.power,
        alone=count < noise_between_runs.LEAST_FIGURES,
    )


def _known_share(value: float) -> float | None:
    return value if abs(value) < LARGEST_SHARE else None


def kpi_difference_text(series: KpiSeries, finding: HistoryFinding) -> str:
    """Return the difference with its interval: "12 % slower than 18 runs of 4.19.3 (8 to 16 %)"."""
    evidence = finding.evidence
    than = formats.format_count(finding.compared.n_old, "run") + (f" of {series.baseline}" if series.baseline else "")
    if finding.from_zero:
        now, before = (formats.format_with_unit(value, series.unit) for value in (finding.new_value, finding.old_value))
        return f"{now} as in {than}" if not evidence.difference else f"{now} instead of {before} in {than}"
    if evidence.difference == evidence.low == evidence.high == 0:
        return f"as in {than}"
    sign = -1.0 if evidence.difference < 0 else 1.0
    ends = sorted((sign * evidence.low, sign * evidence.high))
    interval = f"({formats.format_percent(ends[0])} to {formats.format_percent(ends[1])} %)"
    more, less = ("slower", "faster") if series.unit == "s" else ("higher", "lower")
    share = f"{formats.format_percent(abs(evidence.difference))} %"
    old, new = (any(run.at_least is not None for run in runs) for runs in _compared_runs(series, finding))
    if old != new and share[0].isdigit():  # of one side only a bound is known, so of the difference, too
        share = f"at {'least' if new == (sign > 0) else 'most'} {share}"
    text = f"{share} {more if sign > 0 else less} than {than} {interval}"
    if old and new:
        text = f"the difference from {than} is unknown"
    return "; ".join([text, *_bounds_texts(series, finding)])


def _compared_runs(series: KpiSeries, finding: HistoryFinding) -> tuple[Sequence[RunValue], Sequence[RunValue]]:
    """Return the runs of the baseline, the last ones of the history that have the figure, and the new runs."""
    known = [run for run in series.old if run.known is not None]
    return known[len(known) - finding.compared.n_old :], series.new


def _bounds_texts(series: KpiSeries, finding: HistoryFinding) -> list[str]:
    """Return what is known only as a bound: "4 of 5 new runs have only a lower bound"."""
    texts = []
    for what, runs in zip(("past", "new"), _compared_runs(series, finding), strict=True):
        bounds = sum(run.at_least is not None for run in runs)
        if bounds:
            of = f"{bounds} of {formats.format_count(len(runs), f'{what} run')}"
            texts.append(f"of {of} only a lower bound is known")
    return texts


def sentence_for_decided_kpi(
    series: KpiSeries, finding: HistoryFinding, result: str, p_corrected: float, settings: HistorySettings, count: int
) -> str:
    """Return the sentence for a pass, a regression or an improvement. count: KPIs that were judged together."""
    text = kpi_difference_text(series, finding)
    if result not in (REGRESSION, IMPROVEMENT):
        return text
    p = "p < 0.0001" if p_corrected < 1e-4 else f"p {p_corrected:.1g}"
    if count > 1:
        corrected = settings.correction != "none"
        p += f" after correction for {count} figures" if corrected else f", not corrected for {count} figures"
    return f"{text}, {p}"


def sentence_for_inconclusive_kpi(series: KpiSeries, finding: HistoryFinding, further: int | None) -> str:
    """Return the sentence for a KPI that may be worse. further: runs that would find the least difference."""
    least = f"{formats.format_percent(finding.evidence.least)} %" if finding.evidence.least else "the difference"
    if further is None:
        more = f"no practical number of further runs would find {least}"
    elif not further:
        more = "further runs narrow the interval"
    else:
        more = f"about {formats.format_count(further, 'more run')} would find {least}"
    return f"inconclusive: {kpi_difference_text(series, finding)}; {more}"


def _not_enough(finding: HistoryFinding, past: int) -> str:
    """Return the sentence for a KPI without enough history. past: runs of the history that have it."""
    if finding.reason and past > 1 and finding.compared.n_new:
        return finding.reason
    return f"{NO_HISTORY}: {formats.format_count(past, 'past run') if past else 'no past run with this figure'}"
