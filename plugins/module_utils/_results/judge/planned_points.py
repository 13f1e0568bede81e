# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The attempts at the points of a run as their folders record them, and the answers of the schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import attempt_folder, counted_attempts

PLANNED, RUNNING, PASSED, FAILED, SKIPPED = "planned", "running", "passed", "failed", "skipped"
#: Status of an attempt that is still to be measured.
OPEN = (PLANNED, RUNNING)


@dataclass(frozen=True)
class Attempt:
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
class Finished:
    """No point is measured any more in this session. readings: as in schedule/1, of a repetition."""

    why: str
    readings: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class ScheduleState:
    """All attempts, in order, and the names of those that this session has decided to measure.

    on_demand: whether points that were not begun wait until a chooser asks for them, as those of a bisection do.
    """

    attempts: tuple[Attempt, ...]
    decided: frozenset[str] = frozenset()
    stop_on_error: bool = False
    on_demand: bool = False

    def counted(self) -> list[Attempt]:
        """Return the attempt that counts of each point."""
        return counted_attempts(self.attempts)

    def failed_now(self) -> list[Attempt]:
        """Return the attempts that failed in this session."""
        return [one for one in self.attempts if one.status == FAILED and one.name in self.decided]

    def fresh_attempt(self, of: str) -> int:
        """Return the number of the attempt to measure next at a point: 1 if it was not begun."""
        begun = [one for one in self.attempts if one.of == of and (one.attempt > 1 or one.status != PLANNED)]
        return self.next_attempt(of) if begun else 1

    def next_attempt(self, of: str) -> int:
        """Return the number of a further attempt at a point."""
        return max((one.attempt for one in self.attempts if one.of == of), default=0) + 1


def read(run_dir: Path) -> tuple[Attempt, ...]:
    """Read the attempts of a run, in order.

    A folder without point.yml, which a killed session left, is none, and neither is one with another name, such as a
    copy. Raises DataError for a damaged point.yml.
    """
    found = []
    for path in (run_dir / "points").glob("[0-9]*/point.yml"):
        of, attempt = run_reader.split_attempt_name(path.parent.name)
        if attempt_folder(of, attempt) == path.parent.name:
            found.append(Attempt(of, attempt, files.read_yaml(path)))
    return tuple(sorted(found, key=lambda one: run_reader.attempt_order(one.of, one.attempt)))
