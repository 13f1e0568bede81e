# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ledger: one line per attempt to create an object, appended as soon as the attempt has ended.

Durability: each line is written in one system call before the next request of its thread, so that a killed submitter
loses no line. The file is synced (fsync) once a second and at the end. After a power failure, up to one second of lines
may be missing. Those objects are found again: their names are planned, the second POST is answered with 409, and their
labels show that they are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import JsonlAppender

SCHEMA = "ledger/1"
CREATED, ALREADY_MINE, REFUSED, RETRY, AMBIGUOUS = "created", "already_mine", "refused", "retry", "ambiguous"
#: HTTP statuses after which an object is deleted or being deleted.
STOPPED = frozenset((200, 202, 404))
#: HTTP status of a write that has released workloads.
RELEASED = 200
#: Outcomes after which nothing is left to do for an object.
FINAL = frozenset((CREATED, ALREADY_MINE, REFUSED))


@dataclass
class ResumeState:
    """The result of earlier sessions: the final outcome of each object by (kind, name)."""

    outcomes: dict[tuple[str, str], str] = field(default_factory=dict)
    stopped: set[int] = field(default_factory=set)  # workloads that were stopped at the end of their lifetime
    released: int = 0  # number of workloads that were released, those with the lowest indices
    sessions: int = 0
    anchor: dict[str, Any] | None = None
    started: float | None = None  # origin of the schedule, on the clock of the anchor

    def take(self, record: dict[str, Any]) -> None:
        """Add one line of a ledger."""
        if record["type"] == "attempt" and record["outcome"] in FINAL:
            self.outcomes[record["kind"], record["name"]] = record["outcome"]
        elif record["type"] == "stop" and record["status"] in STOPPED:
            self.stopped.add(record["index"])
        elif record["type"] == "release" and record["status"] == RELEASED:
            self.released = max(self.released, record["released"])
        elif record["type"] == "start" and self.started is None:
            self.started = record["at"]
        elif record["type"] == "session":
            self.sessions += 1
            self.anchor = self.anchor or record["anchor"]


def read_ledger_file(path: Path) -> ResumeState:
    """Read a ledger. A missing file is empty; a torn last line is ignored."""
    past = ResumeState()
    if path.exists():
        for record in files.read_json_lines(path):
            past.take(record)
    return past


def open_ledger(path: Path) -> tuple[JsonlAppender, ResumeState]:
    """Lock the ledger of a point, cut off a torn last line, and return it with its content."""
    ledger = JsonlAppender(path, SCHEMA, "submitter")
    try:
        return ledger, read_ledger_file(path)
    except BaseException:
        ledger.close()
        raise
