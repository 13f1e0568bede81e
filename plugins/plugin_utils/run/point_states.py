# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a session would do with each point of a run: states in words, and the time of the points to measure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import next_point
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.next_point import (
    FAILED,
    OPEN,
    PASSED,
    RUNNING,
    Attempt,
    PlannedPoint,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.resolve_settings import MatrixPoint

from . import point_attempts

MEASURE = "to measure"


def of(run_dir: Path | None, points: Iterable[MatrixPoint], redone: Sequence[PlannedPoint] = ()) -> dict[str, str]:
    """Return point -> what was or will be done with it. run_dir: of the run to continue. redone: further attempts."""
    attempts = next_point.read_attempts(run_dir) if run_dir else ()
    again = {one.of: one for one in redone}
    found = {}
    for point in points:
        mine = [one for one in attempts if one.of == point.name]
        if point.skipped:
            found[point.name] = f"skipped: {point.skipped}"
        elif point.name in again:
            found[point.name] = (
                f"{MEASURE} again, attempt {again[point.name].attempt}: {again[point.name].why.rstrip('.')}"
            )
        else:
            found[point.name] = _state(mine)
    return found


def running(run_dir: Path) -> str:
    """Return the folder of the attempt that is being measured, or was when its session was cut short; '' for none."""
    found = [one for one in next_point.read_attempts(run_dir) if one.status == RUNNING]
    return found[-1].name if found else ""


def _state(mine: Sequence[Attempt]) -> str:
    waiting = [one for one in mine if one.status in OPEN]
    if waiting:
        if waiting[0].status == RUNNING:
            return f"{MEASURE}: attempt {waiting[0].attempt} was interrupted and is resumed"
        return f"{MEASURE} again, attempt {waiting[0].attempt}" if waiting[0].attempt > 1 else MEASURE
    for one in next_point.ScheduleState(tuple(mine)).counted():
        if one.status == PASSED:
            return "passed" + (f" in {formats.seconds(taken)}" if (taken := seconds(one)) is not None else "")
        if one.status == FAILED:
            return "failed; -e redo=failed measures it again"
    return MEASURE


def seconds(one: Attempt) -> float | None:
    """Return how long an attempt took, None if that is unknown."""
    try:
        return (
            datetime.fromisoformat(str(one.record["ended"])) - datetime.fromisoformat(str(one.record["started"]))
        ).total_seconds()
    except (KeyError, ValueError):
        return None


def time_left(run_dir: Path | None, states: Iterable[str]) -> str:
    """Return how long the points to measure take if each takes as long as those that passed; empty if none did."""
    count = sum(one.startswith(MEASURE) for one in states)
    passed = [one for one in point_attempts.state_of(run_dir).attempts if one.status == PASSED] if run_dir else []
    took = [taken for one in passed if (taken := seconds(one)) is not None]
    if not took or not count:
        return ""
    usual = statistics.median(took)
    points = formats.count(len(took), "point")
    return (
        f"{formats.count(count, 'point')} to measure: about {formats.seconds(count * usual)}, "
        f"by the median of {points} that passed, {formats.seconds(usual)}"
    )
