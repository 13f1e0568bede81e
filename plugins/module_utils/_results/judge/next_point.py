# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which point of a run is measured next. A pure function of the attempts; see docs/matrix.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import listed

from .planned_points import FAILED, OPEN, PASSED, RUNNING, Attempt, Finished, PlannedPoint, ScheduleState


class Chooser(Protocol):
    """Decides on further attempts once each point has been measured."""

    def __call__(self, state: ScheduleState, /) -> PlannedPoint | Finished | None:
        """Return the attempt to measure, why the session ends, or None if there is nothing to decide."""


def next_point(state: ScheduleState, choosers: Sequence[Chooser] = ()) -> PlannedPoint | Finished:
    """Return the next attempt to measure: an interrupted one, a further one, a first one, then as ``choosers`` decide.

    A session decides each attempt at most once, so that it always ends: one whose end could not be recorded is left to
    the next session. An attempt that has passed or failed is never measured again. Choosers get to decide when each
    attempt has ended; what they return becomes a fresh attempt, and they must end eventually.
    """
    if state.stop_on_error and (failed := state.failed_now()):
        rest = [one.name for one in _open(state)]
        more = f"; not measured: {listed(rest)}" if rest else ""
        return Finished(f"Point {failed[0].name} failed, and run_stop_on_error is set{more}.")
    waiting = _open(state)
    if waiting:
        one = waiting[0]
        return PlannedPoint(one.of, one.attempt, _why(one), last=len(waiting) == 1 and not choosers)
    for choose in choosers:
        found = choose(state)
        if isinstance(found, PlannedPoint):
            return replace(found, attempt=state.fresh_attempt(found.of), last=False)
        if found is not None:
            return found
    return Finished(_end(state))


def _open(state: ScheduleState) -> list[Attempt]:
    """Return the attempts that have not ended, in the order in which they are measured."""
    found = [one for one in state.attempts if one.status in OPEN and one.name not in state.decided]
    if state.on_demand:
        found = [one for one in found if one.status == RUNNING or one.attempt > 1]
    return sorted(found, key=lambda one: (one.status != RUNNING, one.attempt == 1))


def _why(one: Attempt) -> str:
    if one.status == RUNNING:
        return "The session that measured it was interrupted."
    return str(one.record.get("why") or "It has not been measured.")


def _end(state: ScheduleState) -> str:
    """Return what became of the points, in words."""
    by_status = {status: [one.of for one in state.counted() if one.status == status] for status in (PASSED, FAILED)}
    parts = [f"{listed(names)} {status}" for status, names in by_status.items() if names]
    return f"Each point has been measured: {'; '.join(parts)}." if parts else "There is no point to measure."
