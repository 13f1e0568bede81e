# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The setting ``redo``: which points a continued run measures again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader

from .planned_points import FAILED, OPEN, SKIPPED, PlannedPoint, ScheduleState

INCONCLUSIVE = "inconclusive"
WORDS = (FAILED, INCONCLUSIVE)


def parse(raw: Any, points: Sequence[str]) -> list[str]:
    """Return the words and points in ``failed,003``, ``failed 003`` or a list. points: those that the run has.

    Raises InputError for anything else.
    """
    if isinstance(raw, (list, tuple)):
        return [name for one in raw for name in parse(one, points)]
    found = str("" if raw is None else raw).replace(",", " ").split()
    for one in found:
        if one in WORDS or one in points:
            continue
        if (of := run_reader.point_of_attempt(one)) in points:
            raise InputError(f"redo: '{one}' is an attempt; name its point, redo={of}")
        have = f"the run has {_range(points)}"
        if one.isdecimal():
            raise InputError(f"redo: there is no point '{one}'{_near_number(one, points)}; {have}")
        raise InputError(f"redo: '{one}' is neither failed, inconclusive nor a point{nearest(one, WORDS)}; {have}")
    if not found:
        raise InputError("-e redo= is empty; give failed, inconclusive or numbers of points, or leave it out")
    return found


def chosen(
    asked: Sequence[str], state: ScheduleState, inconclusive: Collection[str] = (), repeats: bool = False
) -> list[PlannedPoint]:
    """Return the further attempts that ``redo`` demands, in order of the points.

    asked: as parse() returns them. inconclusive: points whose verdict is. repeats: whether all attempts at a point
    count, so that it failed if the last one did. A point with an attempt that has not ended
    gets none, because that attempt is measured. Raises InputError for a point that is skipped.
    """
    found = []
    for one in state.counted():
        status = {each.status for each in state.attempts if each.of == one.of}
        if one.of in asked and one.status == SKIPPED:
            raise InputError(f"redo: point {one.of} is skipped: {one.record.get('why') or 'no reason was recorded'}")
        last = [each.status for each in state.attempts if each.of == one.of][-1]
        why = _why(one.of, last if repeats else one.status, asked, inconclusive)
        if why and not status & {*OPEN, SKIPPED}:
            found.append(PlannedPoint(one.of, state.next_attempt(one.of), why))
    return found


def _why(of: str, status: str, asked: Collection[str], inconclusive: Collection[str]) -> str:
    if of in asked:
        return f"It is to be measured again, redo={of}."
    if FAILED in asked and status == FAILED:
        return "It failed, redo=failed."
    if INCONCLUSIVE in asked and of in inconclusive:
        return "Its verdict is inconclusive, redo=inconclusive."
    return ""


def _near_number(one: str, points: Sequence[str]) -> str:
    same = [name for name in points if int(name) == int(one)]
    return f" (did you mean '{same[0]}'?)" if same else ""


def _range(points: Sequence[str]) -> str:
    if len(points) > 3:
        return f"{points[0]} … {points[-1]}"
    return ", ".join(points) or "none"
