# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Add the comparison with the history to the judged KPIs of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Run

from ..statistics.readings import INCONCLUSIVE, LEAST_HISTORY, NO_HISTORY, NOT_MEASURED, PASS, WITHIN, of_suite
from . import judge_history
from .collect_history import History
from .history_settings import HistorySettings
from .judge_history import HistoryReading
from .overall_verdict import NOT_JUDGED

Kpi = dict[str, Any]


def with_history(
    run: Run, kpis: Sequence[Kpi], history: History, settings: HistorySettings, repeated: Collection[str] = ()
) -> tuple[list[Kpi], str | None]:
    """Return the judged KPIs of a run (schema verdict/2) with their comparison with its history, and the baseline.

    kpis: those that may decide the verdict have the reading "not enough history". All attempts at a point are compared
    together, and the last one has the result. repeated: points of the matrix whose attempts were added until decided,
    and which have one entry for all attempts.
    The baseline is a text such as "18 runs of 4.19.3", None if too few past runs are comparable.
    """
    measured = [point for point in run.points if point.kpis is not None]
    last = {point.of: point.of if point.of in repeated else point.number for point in measured}
    cut = {point.number for point in run.points if point.resumed}
    compared = [
        one for one in kpis if last.get(_of(one)) == one["point"] and one["point"] not in cut and _is_figure(one)
    ]
    suite = [
        history.series(run, one, _of(one), judged=one["reading"] == NO_HISTORY, repeated=_of(one) in repeated)
        for one in compared
    ]
    found = {id(one): read for one, read in zip(compared, judge_history.judge_history(suite, settings), strict=True)}
    judged = [
        _compared(one, found[id(one)], history.unread if _of(one) in repeated else ())
        if id(one) in found
        else _not_compared(one, last.get(_of(one), ""), cut)
        for one in kpis
    ]
    return judged, _baseline(history, (one.baseline for one in suite))


def _of(kpi: Mapping[str, Any]) -> str:
    """Return the point of the matrix of an entry."""
    return run_reader.point_of_attempt(kpi["point"])


def _compared(kpi: Kpi, read: HistoryReading, unread: Sequence[str]) -> Kpi:
    """Return an entry with its comparison. unread: why a repetition lacks past runs, which leaves it undecided."""
    document = read.document()
    if not read.series.old:  # then the test of a limit remains
        document = {name: value for name, value in document.items() if name not in kpi or name == "reading"}
    result, why = read.result, read.why
    if result == NO_HISTORY and unread:
        result, why = INCONCLUSIVE, "; ".join((why, *unread))
    return {**kpi, **document, "reading": result, "why": _why(kpi, result, why)}


def _is_figure(kpi: Mapping[str, Any]) -> bool:
    """Return whether an entry is a KPI of the point, and not a limit whose KPI the point does not have."""
    return (kpi.get("limit") or {}).get("result") != NOT_MEASURED or kpi["reading"] == NO_HISTORY


def _not_compared(kpi: Kpi, last: str, cut: Collection[str]) -> Kpi:
    """Return an entry that is not compared with history. last: attempt that is. cut: points that were resumed."""
    if kpi["reading"] != NO_HISTORY:
        return kpi
    if kpi["point"] in cut:
        why = f"inconclusive: point {kpi['point']} was interrupted while it was measured"
        return {**kpi, "reading": INCONCLUSIVE, "why": _why(kpi, INCONCLUSIVE, why)}
    text = f"It is compared together with attempt {last}."
    return {**kpi, "reading": NOT_JUDGED, "why": _why(kpi, NOT_JUDGED, text)}


def _why(kpi: Mapping[str, Any], result: str, text: str) -> str:
    """Return the sentences that explain an entry: that of a limit first if it decides."""
    limit = kpi.get("limit")
    if not limit:
        return text
    if limit["result"] == WITHIN:
        return str(limit["text"]) if result == NOT_JUDGED else text
    return str(limit["text"]) if of_suite([result]) == PASS else f"{limit['text']} {formats.capitalized(text)}"


def _baseline(history: History, names: Iterable[str]) -> str | None:
    old = {one.run.run for points in history.points.values() for one in points if not one.new}
    if len(old) < LEAST_HISTORY:
        return None
    known = dict.fromkeys(one for one in names if one)
    return formats.count(len(old), "run") + (f" of {formats.listed(known, 2)}" if known else "")
