# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which attempt at a point counts, if there are several."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol, TypeVar

from . import attempt_names
from .run_reader import Run

SKIPPED = "skipped"
#: Status of an attempt that was not begun.
NOT_BEGUN = ("planned", SKIPPED)


class AttemptAtPoint(Protocol):
    """An attempt: its point of the matrix, its number at that point, and its status."""

    @property
    def of(self) -> str: ...

    @property
    def attempt(self) -> int: ...

    @property
    def status(self) -> str: ...


One = TypeVar("One", bound=AttemptAtPoint)


def counted_attempts(attempts: Iterable[One]) -> list[One]:
    """Return one attempt for each point, in the order of the points.

    It is the last one that passed. If none did, it is the last one that was begun, else the first.
    """
    found: dict[str, One] = {}
    for one in sorted(attempts, key=lambda one: attempt_names.attempt_order(one.of, one.attempt)):
        if one.of not in found or _rank(one) >= max(_rank(found[one.of]), 1):
            found[one.of] = one
    return list(found.values())


def counted_points(run: Run) -> Run:
    """Return the run with the attempts that its verdict depends on: one a point, or those of a run that repeats.

    These are all but those that failed and were measured again, by ``redo``.
    """
    if not run.repeats:
        return replace(run, points=counted_attempts(run.points))
    passed = {one.of: one.attempt for one in counted_attempts(run.points) if one.status == "passed"}
    kept = [one for one in run.points if one.status != "failed" or one.attempt > passed.get(one.of, 0)]
    return replace(run, points=kept)


def _rank(one: AttemptAtPoint) -> int:
    return 2 if one.status == "passed" else 0 if one.status in NOT_BEGUN else 1
