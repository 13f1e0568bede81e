# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""schedule.jsonl: each decision of the schedule, one line each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.jsonl_appender import JsonlAppender
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import stamp

from .planned_points import Finished, PlannedPoint

FILE, SCHEMA = "schedule.jsonl", "schedule/1"


def decided(run_dir: Path, session: str) -> frozenset[str]:
    """Return the names of the attempts that a session has decided to measure. session: its start, as in run.yml."""
    found: set[str] = set()
    now = False
    for line in lines(run_dir):
        if line["type"] == "session":
            now = line["at"] == session
        elif now and line["type"] == "decided":
            found.add(str(line["point"]))
    return frozenset(found)


def lines(run_dir: Path) -> list[dict[str, Any]]:
    """Return the lines of the file, none if there is no file."""
    path = run_dir / FILE
    return list(files.read_lines(path)) if path.exists() else []


def note(
    run_dir: Path, run: str, session: str, found: PlannedPoint | Finished, words: Mapping[str, Any] | None = None
) -> None:
    """Append a decision, after the line of the session if it is its first one. words: repeat and bisect, if given."""
    sessions = [line["at"] for line in lines(run_dir) if line["type"] == "session"]
    log = JsonlAppender(run_dir / FILE, SCHEMA, "session")
    try:
        if sessions[-1:] != [session]:
            log.write({"type": "session", "schema": SCHEMA, "run": run, "at": session, **(words or {})})
        log.write(_line(found))
        log.sync()
    finally:
        log.close()


def _line(found: PlannedPoint | Finished) -> dict[str, Any]:
    if isinstance(found, Finished):
        read = {"readings": [dict(one) for one in found.readings]} if found.readings else {}
        return {"type": "finished", "at": stamp(), "why": found.why, **read}
    line = {"type": "decided", "at": stamp(), "point": found.name, "attempt": found.attempt, "why": found.why}
    if found.readings:
        line |= {"readings": [dict(one) for one in found.readings], "remaining_budget": found.remaining_budget}
    return line
