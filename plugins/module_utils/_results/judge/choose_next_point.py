# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which point of a run is measured next, from the attempts that its folders record; see docs/matrix.md.

The setting ``redo`` demands further attempts before that; choosers (repetition, bisection) decide on more after it.
schedule.jsonl has one line for each decision; from it follow the time that a run has spent and what its budget leaves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import JsonlAppender
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import format_list
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import (
    attempt_folder,
    one_attempt_per_point,
)

PLANNED, RUNNING, PASSED, FAILED, SKIPPED = "planned", "running", "passed", "failed", "skipped"
#: Status of an attempt that is still to be measured.
OPEN = (PLANNED, RUNNING)
INCONCLUSIVE = "inconclusive"
#: What ``redo`` accepts beside numbers of points.
REDO_KEYWORDS = (FAILED, INCONCLUSIVE)


@dataclass(frozen=True)
class PointAttempt:
    """An attempt at a point of the matrix. record: its point.yml."""

    of: str
    attempt: int
    record: Mapping[str, Any]

    @property
    def status(self) -> str:
        """planned, running, passed, failed or skipped."""
        return str(self.record["status"])

    @property
    def resumed(self) -> bool:
        """Whether its load was begun by a session that was killed, so that its times include the interruption."""
        return bool(self.record.get("resumed"))

    @property
    def name(self) -> str:
        """The name of its folder."""
        return attempt_folder(self.of, self.attempt)


@dataclass(frozen=True)
class PlannedPoint:
    """The attempt to measure next. readings, remaining_budget: as in schedule/1, of a repetition.

    last: whether it is known that none follows it in this session.
    """

    of: str
    attempt: int
    why: str
    readings: tuple[Mapping[str, Any], ...] = ()
    remaining_budget: float | None = None
    last: bool = False

    @property
    def name(self) -> str:
        """The name of its folder."""
        return attempt_folder(self.of, self.attempt)


@dataclass(frozen=True)
class ScheduleFinished:
    """No point is measured any more in this session. readings: as in schedule/1, of a repetition."""

    why: str
    readings: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class ScheduleState:
    """All attempts, in order, and the names of those that this session has decided to measure.

    on_demand: whether points that were not begun wait until a chooser asks for them, as those of a bisection do.
    """

    attempts: tuple[PointAttempt, ...]
    decided: frozenset[str] = frozenset()
    stop_on_error: bool = False
    on_demand: bool = False

    def counted(self) -> list[PointAttempt]:
        """Return the attempt that counts of each point."""
        return one_attempt_per_point(self.attempts)

    def failed_now(self) -> list[PointAttempt]:
        """Return the attempts that failed in this session."""
        return [attempt for attempt in self.attempts if attempt.status == FAILED and attempt.name in self.decided]

    def fresh_attempt(self, point: str) -> int:
        """Return the number of the attempt to measure next at a point: 1 if it was not begun."""
        begun = any(
            attempt.of == point and (attempt.attempt > 1 or attempt.status != PLANNED) for attempt in self.attempts
        )
        return self.next_attempt(point) if begun else 1

    def next_attempt(self, point: str) -> int:
        """Return the number of a further attempt at a point."""
        return max((attempt.attempt for attempt in self.attempts if attempt.of == point), default=0) + 1


class AttemptChooser(Protocol):
    """Decides on further attempts once each point has been measured."""

    def __call__(self, state: ScheduleState, /) -> PlannedPoint | ScheduleFinished | None:
        """Return the attempt to measure, why the session ends, or None if there is nothing to decide."""


def read_attempts(run_dir: Path) -> tuple[PointAttempt, ...]:
    """Read the attempts of a run, in order.

    A folder without point.yml, which a killed session left, is none, and neither is one with another name, such as a
    copy. Raises DataError for a damaged point.yml.
    """
    attempts = []
    for path in (run_dir / "points").glob("[0-9]*/point.yml"):
        point, number = run_reader.split_attempt_name(path.parent.name)
        if attempt_folder(point, number) == path.parent.name:
            attempts.append(PointAttempt(point, number, files.read_yaml(path)))
    return tuple(sorted(attempts, key=lambda attempt: run_reader.attempt_order(attempt.of, attempt.attempt)))


def choose_next_point(state: ScheduleState, choosers: Sequence[AttemptChooser] = ()) -> PlannedPoint | ScheduleFinished:
    """Return the next attempt to measure: an interrupted one, a further one, a first one, then as ``choosers`` decide.

    A session decides each attempt at most once, so that it always ends: one whose end could not be recorded is left to
    the next session. An attempt that has passed or failed is never measured again. Choosers get to decide when each
    attempt has ended; what they return becomes a fresh attempt, and they must end eventually.
    """
    waiting = _open_attempts(state)
    if state.stop_on_error and (failed := state.failed_now()):
        more = f"; not measured: {format_list(attempt.name for attempt in waiting)}" if waiting else ""
        return ScheduleFinished(f"Point {failed[0].name} failed, and run_stop_on_error is set{more}.")
    if waiting:
        first = waiting[0]
        why = str(first.record.get("why") or "It has not been measured.")
        if first.status == RUNNING:
            why = "The session that measured it was interrupted."
        return PlannedPoint(first.of, first.attempt, why, last=len(waiting) == 1 and not choosers)
    for choose in choosers:
        decision = choose(state)
        if isinstance(decision, PlannedPoint):
            return replace(decision, attempt=state.fresh_attempt(decision.of), last=False)
        if decision is not None:
            return decision
    return ScheduleFinished(_format_points_outcome(state))


def _open_attempts(state: ScheduleState) -> list[PointAttempt]:
    """Return the attempts that have not ended, in the order in which they are measured."""
    waiting = [attempt for attempt in state.attempts if attempt.status in OPEN and attempt.name not in state.decided]
    if state.on_demand:
        waiting = [attempt for attempt in waiting if attempt.status == RUNNING or attempt.attempt > 1]
    return sorted(waiting, key=lambda attempt: (attempt.status != RUNNING, attempt.attempt == 1))


def _format_points_outcome(state: ScheduleState) -> str:
    """Return what became of the points, in words."""
    parts = []
    for status in (PASSED, FAILED):
        points = [attempt.of for attempt in state.counted() if attempt.status == status]
        parts += [f"{format_list(points)} {status}"] if points else []
    return f"Each point has been measured: {'; '.join(parts)}." if parts else "There is no point to measure."


def parse_points_to_redo(raw: Any, points: Sequence[str]) -> list[str]:
    """Return the keywords and points in ``failed,003``, ``failed 003`` or a list.

    Args:
        raw: The value of setting ``redo``.
        points: The points that the run has.

    Raises:
        InputError: For anything that is neither a keyword nor a point of the run.
    """
    if isinstance(raw, (list, tuple)):
        return [name for part in raw for name in parse_points_to_redo(part, points)]
    names = str("" if raw is None else raw).replace(",", " ").split()
    for name in names:
        if name in REDO_KEYWORDS or name in points:
            continue
        if (point := run_reader.point_of_attempt_folder(name)) in points:
            raise InputError(f"redo: '{name}' is an attempt; name its point, redo={point}")
        have = f"the run has {_format_point_range(points)}"
        if name.isdecimal():
            raise InputError(f"redo: there is no point '{name}'{_near_number(name, points)}; {have}")
        near = suggest_similar_name(name, REDO_KEYWORDS)
        raise InputError(f"redo: '{name}' is neither failed, inconclusive nor a point{near}; {have}")
    if not names:
        raise InputError("-e redo= is empty; give failed, inconclusive or numbers of points, or leave it out")
    return names


def attempts_demanded_by_redo(
    names: Sequence[str], state: ScheduleState, inconclusive: Collection[str] = (), repeats: bool = False
) -> list[PlannedPoint]:
    """Return the further attempts that ``redo`` demands, in order of the points.

    A point with an attempt that has not ended gets none, because that attempt is measured.

    Args:
        names: As parse_points_to_redo() returns them.
        state: The attempts of the run.
        inconclusive: Points whose verdict is inconclusive.
        repeats: Whether all attempts at a point count, so that it failed if the last one did.

    Raises:
        InputError: For a point that is skipped.
    """
    planned = []
    for attempt in state.counted():
        point = attempt.of
        status = [other.status for other in state.attempts if other.of == point]
        if point in names and attempt.status == SKIPPED:
            reason = attempt.record.get("why") or "no reason was recorded"
            raise InputError(f"redo: point {point} is skipped: {reason}")
        why = _why_redone(point, status[-1] if repeats else attempt.status, names, inconclusive)
        if why and not {*status} & {*OPEN, SKIPPED}:
            planned.append(PlannedPoint(point, state.next_attempt(point), why))
    return planned


def _why_redone(point: str, status: str, names: Collection[str], inconclusive: Collection[str]) -> str:
    if point in names:
        return f"It is to be measured again, redo={point}."
    if FAILED in names and status == FAILED:
        return "It failed, redo=failed."
    if INCONCLUSIVE in names and point in inconclusive:
        return "Its verdict is inconclusive, redo=inconclusive."
    return ""


def _near_number(name: str, points: Sequence[str]) -> str:
    same = [point for point in points if int(point) == int(name)]
    return f" (did you mean '{same[0]}'?)" if same else ""


def _format_point_range(points: Sequence[str]) -> str:
    if len(points) > 3:
        return f"{points[0]} … {points[-1]}"
    return ", ".join(points) or "none"


FILE, SCHEMA = "schedule.jsonl", "schedule/1"


def read_schedule_lines(run_dir: Path) -> list[dict[str, Any]]:
    """Return the lines of the file, none if there is no file."""
    path = run_dir / FILE
    return list(files.read_json_lines(path)) if path.is_file() else []


def attempts_decided_in_session(run_dir: Path, session: str) -> frozenset[str]:
    """Return the names of the attempts that a session has decided to measure. session: its start, as in run.yml."""
    names: set[str] = set()
    is_session = False
    for line in read_schedule_lines(run_dir):
        if line["type"] == "session":
            is_session = line["at"] == session
        elif is_session and line["type"] == "decided":
            names.add(str(line["point"]))
    return frozenset(names)


def append_schedule_decision(
    run_dir: Path,
    run: str,
    session: str,
    decision: PlannedPoint | ScheduleFinished,
    keywords: Mapping[str, Any] | None = None,
) -> None:
    """Append a decision, after the line of the session if it is its first one. keywords: repeat and bisect, if set."""
    sessions = [line["at"] for line in read_schedule_lines(run_dir) if line["type"] == "session"]
    log = JsonlAppender(run_dir / FILE, SCHEMA, "session")
    try:
        if sessions[-1:] != [session]:
            log.write({"type": "session", "schema": SCHEMA, "run": run, "at": session, **(keywords or {})})
        log.write(_decision_as_log_line(decision))
        log.sync()
    finally:
        log.close()


def _decision_as_log_line(decision: PlannedPoint | ScheduleFinished) -> dict[str, Any]:
    readings: Any = [dict(reading) for reading in decision.readings]
    if isinstance(decision, ScheduleFinished):
        read = {"readings": readings} if readings else {}
        return {"type": "finished", "at": format_utc_timestamp(), "why": decision.why, **read}
    read = {"readings": readings, "remaining_budget": decision.remaining_budget} if readings else {}
    line = {
        "type": "decided",
        "at": format_utc_timestamp(),
        "point": decision.name,
        "attempt": decision.attempt,
        "why": decision.why,
    }
    return {**line, **read}


def parse_budget(text: object, keyword: str) -> float | None:
    """Return the seconds of a budget, None without one: ``2h``, ``90m``, ``1 h 30 min`` or a number of seconds."""
    if text is None or text == "":
        return None
    try:
        seconds = formats.parse_number_with_unit(text, "s")
    except InputError:
        seconds = 0.0
    if seconds <= 0:
        raise InputError(f"{keyword}: budget '{text}' is not a valid duration; write 2h, 90m or 45s")
    return seconds


def remaining_budget_seconds(budget: float | None, spent: float) -> float | None:
    """Return the seconds that are left of a budget, None without one."""
    return None if budget is None else max(0.0, budget - spent)


def seconds_spent_on_attempts(log: Iterable[Mapping[str, Any]], now: str) -> float:
    """Return the seconds spent on attempts, over all sessions. The time between two sessions does not count.

    How long an attempt ran until its session was killed is unknown: it counts as the longest complete attempt, at most
    until the next session.

    Args:
        log: Lines of schedule.jsonl.
        now: The current time, in the format of the files.
    """
    complete: list[float] = []
    interrupted: list[float] = []
    begun: float | None = None
    entries = [(str(line.get("type")), _timestamp_to_seconds(str(line["at"]))) for line in log]
    for kind, at in [*entries, ("now", _timestamp_to_seconds(now))]:
        if begun is not None:
            (interrupted if kind == "session" else complete).append(max(0.0, at - begun))
        begun = at if kind == "decided" else None
    longest = max(complete, default=0.0)
    return sum(complete) + sum(min(seconds, longest) if longest else seconds for seconds in interrupted)


def _timestamp_to_seconds(stamp_text: str) -> float:
    return datetime.fromisoformat(stamp_text).timestamp()
