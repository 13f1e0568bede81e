# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repeat the points of a matrix until their figures are decided (word ``repeat``).

After each attempt all figures are read by intervals that hold at every look (docs/statistics.md), so that the chance of
a wrong decision does not depend on how often one looks. Which point is measured next follows from the points and their
readings alone: a run that was killed decides as it would have decided then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest

from . import time_budget

WORD = "repeat"
KEYS = ("until", "max", "budget", "least")
DECIDED = "decided"
#: Most attempts at a point by default, and the most that can be asked for.
MOST, LARGEST = 10, 500
#: Runs without which there is no noise to judge by.
LEAST = 2
#: Readings of a figure that further attempts are meant to change.
UNDECIDED = ("inconclusive", "across")


@dataclass(frozen=True)
class Repetition:
    """The word ``repeat``. most, least: attempts at each point. budget: seconds for all points, None for no limit."""

    most: int = MOST
    budget: float | None = None
    least: int = LEAST


@dataclass(frozen=True)
class FigureReading:
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
    readings: tuple[FigureReading, ...] = ()


@dataclass(frozen=True)
class NextAttempt:
    """The attempt to make, and why."""

    point: str
    attempt: int
    why: str


@dataclass(frozen=True)
class RepetitionEnd:
    """No further attempt is made, and why."""

    why: str


def parse(raw: object) -> Repetition | None:
    """Return what the word ``repeat`` asks for, None if it is empty. Raises InputError."""
    if raw is None or raw == {}:
        return None
    if not isinstance(raw, Mapping):
        raise InputError(f"{WORD} needs a dictionary such as {{until: decided, max: 10, budget: 2h}}, got {raw!r}")
    for key in raw:
        if key not in KEYS:
            raise InputError(f"{WORD}: unknown key '{key}'{nearest(str(key), KEYS)}; there are {', '.join(KEYS)}")
    until = raw.get("until", DECIDED)
    if until != DECIDED:
        raise InputError(f"{WORD}: until '{until}' is unknown{nearest(str(until), [DECIDED])}; there is only {DECIDED}")
    most, least = count(raw, WORD, "max", MOST), count(raw, WORD, "least", LEAST)
    if least > most:
        raise InputError(f"{WORD}: least {least} is more than max {most}")
    return Repetition(most, time_budget.parse(raw.get("budget"), WORD), least)


def count(raw: Mapping[str, Any], word: str, key: str, default: int) -> int:
    """Return the number of runs under ``key``; a text with digits is one, as ``-e`` writes it. Raises InputError."""
    given = raw.get(key, default)
    text = str(given)
    if isinstance(given, bool) or not text.isdecimal() or not 1 <= int(text) <= LARGEST:
        raise InputError(f"{word}: {key} '{given}' is no number of attempts from 1 to {LARGEST}")
    return int(text)


def next_attempt(plan: Repetition, points: Sequence[RepeatedPoint], spent: float) -> NextAttempt | RepetitionEnd:
    """Return the attempt to make next: at the undecided point with the fewest attempts, so that points alternate.

    spent: seconds, from time_budget.spent(). A budget is looked at before each attempt, so the last one may exceed it.
    """
    open_ = [one for one in points if not one.failed and (one.attempts < plan.least or undecided(one))]
    if not open_:
        return RepetitionEnd(_nothing_open(points))
    able = [one for one in open_ if one.attempts < plan.most]
    if not able:
        return RepetitionEnd(f"{_runs(plan.most)} at each undecided point were made; {_left(open_)}")
    if plan.budget is not None and spent >= plan.budget:
        budget, used = formats.seconds(plan.budget), formats.seconds(spent)
        return RepetitionEnd(f"the budget of {budget} is used up ({used}); {_left(open_)}")
    chosen = min(able, key=lambda one: (one.attempts, one.point))
    return NextAttempt(chosen.point, chosen.attempts + 1, _why(plan, chosen))


def undecided(point: RepeatedPoint) -> list[FigureReading]:
    """Return the figures of a point that are not decided, and that a further attempt may decide."""
    return [one for one in point.readings if one.result in UNDECIDED and one.can_change]


def _why(plan: Repetition, point: RepeatedPoint) -> str:
    unclear = undecided(point)
    if not unclear:
        return f"{_runs(plan.least)} are the least"
    return f"after {_runs(point.attempts)} {unclear[0].kpi} is not decided{_others(unclear)}"


def _others(unclear: Sequence[FigureReading]) -> str:
    """Return the number of figures after the first one, and the sentence that explains the first one."""
    more, text = len(unclear) - 1, unclear[0].text
    return (f" (and {formats.count(more, 'further figure')})" if more else "") + (f": {text}" if text else "")


def _nothing_open(points: Sequence[RepeatedPoint]) -> str:
    stuck = [figure for one in points for figure in one.readings if not figure.can_change]
    text = (
        f"no further attempt can decide {stuck[0].kpi}{_others(stuck)}" if stuck else "every judged figure is decided"
    )
    failed = [one.point for one in points if one.failed]
    return f"{text}, but the last attempt failed at {formats.joined(_named(failed))}" if failed else text


def _left(points: Sequence[RepeatedPoint]) -> str:
    return f"not decided: {formats.listed(_named([one.point for one in points]))}"


def _named(points: Sequence[str]) -> list[str]:
    return [f"point {one}" for one in points]


def _runs(amount: int) -> str:
    return formats.count(amount, "attempt")
