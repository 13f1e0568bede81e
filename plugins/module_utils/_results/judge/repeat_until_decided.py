# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repeat the points of a matrix until their figures are decided (keyword ``repeat``).

After each attempt all figures are read by intervals that hold at every look (docs/statistics.md), so that the chance of
a wrong decision does not depend on how often one looks. Which point is measured next follows from the points and their
readings alone: a run that was killed decides as it would have decided then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader

from ..statistics.readings_from_p_values import LEAST_HISTORY, NO_HISTORY
from . import choose_next_point
from .choose_next_point import (
    FAILED,
    PLANNED,
    SKIPPED,
    AttemptChooser,
    PlannedPoint,
    PointAttempt,
    ScheduleFinished,
    ScheduleState,
)

KEYWORD = "repeat"
KEYS = ("until", "max", "budget", "least")
DECIDED = "decided"
#: Most attempts at a point by default, and the most that can be asked for.
MOST, LARGEST = 10, 500
#: Runs without which there is no noise to judge by.
LEAST = 2
#: Readings of a figure that further attempts are meant to change.
UNDECIDED = ("inconclusive", "across")
#: Readings of a history that decide nothing.
_SILENT = ("not judged", NO_HISTORY)

Kpi = Mapping[str, Any]


@dataclass(frozen=True)
class RepetitionPlan:
    """The keyword ``repeat``. most, least: attempts at each point. budget: seconds for all points, None for any."""

    most: int = MOST
    budget: float | None = None
    least: int = LEAST


@dataclass(frozen=True)
class RepeatedFigureReading:
    """A judged figure of a point by all of its attempts. result: of a limit or of history. text: a sentence.

    can_change: whether a further attempt can change the result, which it cannot without past runs to compare with.
    """

    kpi: str
    result: str
    text: str = ""
    can_change: bool = True


@dataclass(frozen=True)
class RepeatedPoint:
    """A point of the matrix. attempts: how many were begun. failed: whether the last one failed."""

    point: str
    attempts: int
    failed: bool = False
    readings: tuple[RepeatedFigureReading, ...] = ()


def parse_repeat_keyword(raw: object) -> RepetitionPlan | None:
    """Return what the keyword ``repeat`` asks for, None if it is empty. Raises InputError."""
    if raw is None or raw == {}:
        return None
    if not isinstance(raw, Mapping):
        raise InputError(f"{KEYWORD} needs a dictionary such as {{until: decided, max: 10, budget: 2h}}, got {raw!r}")
    check_keys_of_keyword(raw, KEYWORD, KEYS)
    until = raw.get("until", DECIDED)
    if until != DECIDED:
        known = f"{suggest_similar_name(str(until), [DECIDED])}; there is only {DECIDED}"
        raise InputError(f"{KEYWORD}: until '{until}' is unknown{known}")
    most, least = parse_number_of_runs(raw, KEYWORD, "max", MOST), parse_number_of_runs(raw, KEYWORD, "least", LEAST)
    if least > most:
        raise InputError(f"{KEYWORD}: least {least} is more than max {most}")
    return RepetitionPlan(most, choose_next_point.parse_budget(raw.get("budget"), KEYWORD), least)


def check_keys_of_keyword(raw: Mapping[str, Any], keyword: str, keys: Sequence[str]) -> None:
    """Raise InputError for an unknown key of a keyword."""
    for key in raw:
        if key not in keys:
            raise InputError(
                f"{keyword}: unknown key '{key}'{suggest_similar_name(str(key), keys)}; there are {', '.join(keys)}"
            )


def parse_number_of_runs(raw: Mapping[str, Any], keyword: str, key: str, default: int) -> int:
    """Return the number of runs under ``key``; a text with digits is one, as ``-e`` writes it. Raises InputError."""
    value = raw.get(key, default)
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or not 1 <= int(text) <= LARGEST:
        raise InputError(f"{keyword}: {key} '{value}' is not a valid number of attempts, 1 to {LARGEST}")
    return int(text)


def create_attempt_chooser(plan: RepetitionPlan, kpis: Sequence[Kpi], spent: float) -> AttemptChooser:
    """Return what decides on further attempts.

    Args:
        plan: What the keyword ``repeat`` asks for.
        kpis: Judged figures by all attempts, as in verdict/2.
        spent: Seconds, from choose_next_point.spent().
    """

    def choose(state: ScheduleState) -> PlannedPoint | ScheduleFinished:
        following = next_attempt(plan, repeated_points(state.attempts, kpis), spent)
        lines = tuple(readings_for_schedule_line(kpis))
        if isinstance(following, ScheduleFinished):
            return replace(following, readings=lines)
        return replace(
            following, readings=lines, remaining_budget=choose_next_point.remaining_budget_seconds(plan.budget, spent)
        )

    return choose


def next_attempt(
    plan: RepetitionPlan, points: Sequence[RepeatedPoint], spent: float
) -> PlannedPoint | ScheduleFinished:
    """Return the attempt to make next: at the undecided point with the fewest attempts, so that points alternate.

    A budget is looked at before each attempt, so the last one may exceed it.
    """
    open_points = [
        point for point in points if not point.failed and (point.attempts < plan.least or undecided_kpi_readings(point))
    ]
    if not open_points:
        return _finished_with_reason(_nothing_open(points))
    repeatable = [point for point in open_points if point.attempts < plan.most]
    if not repeatable:
        return _finished_with_reason(
            f"{_format_attempt_count(plan.most)} at each undecided point were made;"
            f" {_format_undecided_points(open_points)}"
        )
    if plan.budget is not None and spent >= plan.budget:
        budget, used = formats.format_duration(plan.budget), formats.format_duration(spent)
        return _finished_with_reason(
            f"the budget of {budget} is used up ({used}); {_format_undecided_points(open_points)}"
        )
    point = min(repeatable, key=lambda point: (point.attempts, point.point))
    return PlannedPoint(
        point.point, point.attempts + 1, formats.capitalize_first_letter(_reason_for_further_attempt(plan, point))
    )


def _finished_with_reason(why: str) -> ScheduleFinished:
    return ScheduleFinished(f"{formats.capitalize_first_letter(why)}.")


def undecided_kpi_readings(point: RepeatedPoint) -> list[RepeatedFigureReading]:
    """Return the figures of a point that are not decided, and that a further attempt may decide."""
    return [figure for figure in point.readings if figure.result in UNDECIDED and figure.can_change]


def _reason_for_further_attempt(plan: RepetitionPlan, point: RepeatedPoint) -> str:
    unclear = undecided_kpi_readings(point)
    if not unclear:
        return f"{_format_attempt_count(plan.least)} are the least"
    return (
        f"after {_format_attempt_count(point.attempts)} {unclear[0].kpi} is not"
        f" decided{_format_remaining_undecided_kpis(unclear)}"
    )


def _format_remaining_undecided_kpis(unclear: Sequence[RepeatedFigureReading]) -> str:
    """Return the number of figures after the first one, and the sentence that explains the first one."""
    more, text = len(unclear) - 1, unclear[0].text
    return (f" (and {formats.format_count(more, 'further figure')})" if more else "") + (f": {text}" if text else "")


def _nothing_open(points: Sequence[RepeatedPoint]) -> str:
    stuck = [figure for point in points for figure in point.readings if not figure.can_change]
    text = (
        f"no further attempt can decide {stuck[0].kpi}{_format_remaining_undecided_kpis(stuck)}"
        if stuck
        else "every judged figure is decided"
    )
    failed = [f"point {point.point}" for point in points if point.failed]
    return f"{text}, but the last attempt failed at {formats.join_with_and(failed)}" if failed else text


def _format_undecided_points(points: Sequence[RepeatedPoint]) -> str:
    return f"not decided: {formats.format_list(f'point {point.point}' for point in points)}"


def _format_attempt_count(amount: int) -> str:
    return formats.format_count(amount, "attempt")


def repeated_points(attempts: Sequence[PointAttempt], kpis: Sequence[Kpi]) -> list[RepeatedPoint]:
    """Return the points that are repeated: all that the matrix does not skip. An attempt that was resumed is none."""
    by_point: dict[str, list[PointAttempt]] = {}
    for attempt in attempts:
        if attempt.status in (PLANNED, SKIPPED):
            continue
        counted = by_point.setdefault(attempt.of, [])
        if not attempt.resumed:
            counted.append(attempt)
    return [
        RepeatedPoint(
            point, len(counted), bool(counted) and counted[-1].status == FAILED, _kpi_readings_of_point(point, kpis)
        )
        for point, counted in by_point.items()
    ]


def _kpi_readings_of_point(point: str, kpis: Sequence[Kpi]) -> tuple[RepeatedFigureReading, ...]:
    figures = []
    for kpi in kpis:
        if run_reader.point_of_attempt_folder(kpi["point"]) != point:
            continue
        if kpi.get("limit"):
            figures.append(RepeatedFigureReading(kpi["name"], kpi["limit"]["result"], kpi["limit"]["text"]))
        past = (kpi.get("old") or {}).get("n")
        if kpi["reading"] not in _SILENT or (past is not None and kpi["reading"] == NO_HISTORY):
            can_change = past is None or past >= LEAST_HISTORY
            figures.append(RepeatedFigureReading(kpi["name"], kpi["reading"], kpi["why"], can_change))
    return tuple(figures)


def readings_for_schedule_line(kpis: Sequence[Kpi]) -> list[dict[str, Any]]:
    """Return the judged figures as a line of schedule.jsonl has them."""
    lines = []
    for kpi in kpis:
        limit = (kpi.get("limit") or {}).get("result")
        if not limit and kpi["reading"] in _SILENT:
            continue
        p = kpi.get("p_corrected")
        attempts = [run for run in kpi.get("series") or () if run["group"] == "new"]
        lines.append(
            {
                "kpi": kpi["name"],
                "point": run_reader.point_of_attempt_folder(kpi["point"]),
                "reading": limit if kpi["reading"] in _SILENT else kpi["reading"],
                "attempts": len(attempts) or 1,
                "value": kpi["value"],
                "low": kpi.get("low"),
                "high": kpi.get("high"),
                "e_value": 1.0 / p if p else None,
                "text": kpi["why"],
            }
        )
    return lines
