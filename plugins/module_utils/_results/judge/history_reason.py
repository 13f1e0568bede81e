# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain the reading of a KPI against its history in a sentence."""

from __future__ import annotations

from math import isnan

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..statistics.readings import IMPROVEMENT, REGRESSION
from .compare_with_history import HistoryFinding
from .history_settings import CHANGE_POINTS, GROUPS, HistorySettings
from .kpi_series import KpiSeries

#: Differences beyond this share are not written out.
LARGEST = 10.0


def difference(series: KpiSeries, found: HistoryFinding) -> str:
    """Return the difference with its interval: "12 % slower than 18 runs of 4.19.3 (8 to 16 %)"."""
    evidence = found.evidence
    than = formats.count(found.compared.n_old, "run") + (f" of {series.baseline}" if series.baseline else "")
    if found.from_zero:
        now, before = (formats.value(one, series.unit) for one in (found.new_value, found.old_value))
        return f"{now} as in {than}" if not evidence.difference else f"{now} instead of {before} in {than}"
    if evidence.difference == evidence.low == evidence.high == 0:
        return f"as in {than}"
    sign = -1.0 if evidence.difference < 0 else 1.0
    ends = sorted((sign * evidence.low, sign * evidence.high))
    interval = f"({percent(ends[0])} to {percent(ends[1])} %)"
    more, less = ("slower", "faster") if series.unit == "s" else ("higher", "lower")
    return f"{percent(abs(evidence.difference))} % {more if sign > 0 else less} than {than} {interval}"


def decided(
    series: KpiSeries, found: HistoryFinding, result: str, p_corrected: float, settings: HistorySettings, count: int
) -> str:
    """Return the sentence for a pass, a regression or an improvement. count: KPIs that were judged together."""
    text = difference(series, found)
    if result not in (REGRESSION, IMPROVEMENT):
        return text
    p = "p < 0.0001" if p_corrected < 1e-4 else f"p {p_corrected:.1g}"
    if count > 1:
        corrected = settings.correction != "none"
        p += f" after correction for {count} figures" if corrected else f", not corrected for {count} figures"
    since = f" since run {found.changes[-1][0]}" if found.method == CHANGE_POINTS else ""
    return f"{text}{since}, {p}"


def inconclusive(series: KpiSeries, found: HistoryFinding, further: int | None) -> str:
    """Return the sentence for a KPI that may be worse. further: runs that would find the least difference."""
    least = f"{percent(found.evidence.least)} %" if found.evidence.least else "the difference"
    if further is None:
        more = f"no practical number of further runs would find {least}"
    elif not further:
        more = "further runs narrow the interval"
    else:
        about = "about" if found.method == GROUPS else "at least"
        more = f"{about} {formats.count(further, 'more run')} would find {least}"
    return f"inconclusive: {difference(series, found)}; {more}"


def not_enough(found: HistoryFinding, past: int) -> str:
    """Return the sentence for a KPI without enough history. past: runs of the history that have it."""
    if found.reason.startswith("not enough history") and past > 1:
        return found.reason
    return f"not enough history: {formats.count(past, 'past run') if past else 'no past run'}"


def not_measured(past: int) -> str:
    """Return the sentence for a KPI that the run does not have."""
    return f"not measured in this run; the history has it in {formats.count(past, 'run')}"


def percent(share: float) -> str:
    """Return a share in percent with at most one decimal, "over 1,000" for one that says nothing."""
    if isnan(share):
        return "?"
    if abs(share) > LARGEST:
        return f"over {100 * LARGEST:,.0f}" if share > 0 else f"under -{100 * LARGEST:,.0f}"
    size = 100 * share
    text = f"{size:.0f}" if abs(size) >= 9.95 else f"{size:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
