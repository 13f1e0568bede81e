# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""schedule.jsonl: each decision of the schedule, one line each; the time that a run has spent by it, and its budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import JsonlAppender
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp

from .choose_next_point import PlannedPoint, ScheduleFinished

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
