# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was done with each point of a run, what is left to do, and which points ``-e redo`` demands again."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import (
    choose_next_point,
    repeat_until_decided,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.choose_next_point import (
    FAILED,
    OPEN,
    PASSED,
    RUNNING,
    PlannedPoint,
    PointAttempt,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader, schema_migration
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.resolve_settings import MatrixPoint

from . import point_attempts

MEASURE = "to measure"


def states_by_point(
    run_dir: Path | None, points: Iterable[MatrixPoint], redone: Sequence[PlannedPoint] = ()
) -> dict[str, str]:
    """Return point -> what was or will be done with it. run_dir: of the run to continue. redone: further attempts."""
    attempts = choose_next_point.read_attempts(run_dir) if run_dir else ()
    again = {point.of: point for point in redone}
    states = {}
    for point in points:
        mine = [attempt for attempt in attempts if attempt.of == point.name]
        if point.skipped:
            states[point.name] = f"skipped: {point.skipped}"
        elif point.name in again:
            states[point.name] = (
                f"{MEASURE} again, attempt {again[point.name].attempt}: {again[point.name].why.rstrip('.')}"
            )
        else:
            states[point.name] = _state_from_attempts(mine)
    return states


def attempt_being_measured(run_dir: Path) -> str:
    """Return the folder of the attempt that is being measured, or was when its session was cut short; '' for none."""
    running = [attempt for attempt in choose_next_point.read_attempts(run_dir) if attempt.status == RUNNING]
    return running[-1].name if running else ""


def _state_from_attempts(mine: Sequence[PointAttempt]) -> str:
    waiting = [attempt for attempt in mine if attempt.status in OPEN]
    if waiting:
        if waiting[0].status == RUNNING:
            return f"{MEASURE}: attempt {waiting[0].attempt} was interrupted and is resumed"
        return f"{MEASURE} again, attempt {waiting[0].attempt}" if waiting[0].attempt > 1 else MEASURE
    for attempt in choose_next_point.ScheduleState(tuple(mine)).counted():
        if attempt.status == PASSED:
            return "passed" + (
                f" in {formats.format_duration(taken)}"
                if (taken := attempt_duration_seconds(attempt)) is not None
                else ""
            )
        if attempt.status == FAILED:
            return "failed; -e redo=failed measures it again"
    return MEASURE


def attempt_duration_seconds(attempt: PointAttempt) -> float | None:
    """Return how long an attempt took, None if that is unknown."""
    try:
        return (
            datetime.fromisoformat(str(attempt.record["ended"]))
            - datetime.fromisoformat(str(attempt.record["started"]))
        ).total_seconds()
    except (KeyError, ValueError):
        return None


def estimated_time_left(run_dir: Path | None, states: Iterable[str]) -> str:
    """Return how long the points to measure take if each takes as long as those that passed; empty if none did."""
    count = sum(state.startswith(MEASURE) for state in states)
    passed = (
        [
            attempt
            for attempt in point_attempts.last_session_schedule_state(run_dir).attempts
            if attempt.status == PASSED
        ]
        if run_dir
        else []
    )
    took = [taken for attempt in passed if (taken := attempt_duration_seconds(attempt)) is not None]
    if not took or not count:
        return ""
    usual = statistics.median(took)
    points = formats.format_count(len(took), "point")
    return (
        f"{formats.format_count(count, 'point')} to measure: about {formats.format_duration(count * usual)}, "
        f"by the median of {points} that passed, {formats.format_duration(usual)}"
    )


#: Results of a figure, by history or by limit, that leave it undecided.
UNDECIDED = (*repeat_until_decided.UNDECIDED, "not measured")


def attempts_to_redo(run_dir: Path, raw: Any, points: Sequence[str]) -> list[PlannedPoint]:
    """Return the further attempts. raw: the value of redo. points: those of the run. Raises InputError."""
    asked = choose_next_point.parse_points_to_redo(raw, points)
    unclear = inconclusive_points(run_dir) if choose_next_point.INCONCLUSIVE in asked else set()
    repeats = bool(
        run_reader.keyword_of_last_session(choose_next_point.read_schedule_lines(run_dir), repeat_until_decided.KEYWORD)
    )
    return choose_next_point.attempts_demanded_by_redo(
        asked, point_attempts.last_session_schedule_state(run_dir), unclear, repeats
    )


def inconclusive_points(run_dir: Path) -> set[str]:
    """Return the points with a judged figure that is not decided. Raises InputError without a verdict."""
    path = run_dir / "verdict.json"
    if not path.exists():
        raise InputError("redo=inconclusive: the run has no verdict yet; --tags report determines it")
    kpis = schema_migration.read_document_migrated(path, "verdict").get("kpis") or []
    points = set()
    for kpi in kpis:
        if kpi.get("reading") in UNDECIDED or (kpi.get("limit") or {}).get("result") in UNDECIDED:
            points.add(run_reader.point_of_attempt_folder(kpi["point"]))
    return points


def point_when_interrupted(directory: Path, record: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the point that the last session was measuring (or '') if it was cut short, None if it was closed."""
    last: Mapping[str, Any] = next(iter(reversed(record.get("sessions") or [])), {})
    if record["status"] not in ("running", "interrupted") or "ended" in last:
        return None
    return {"point": attempt_being_measured(directory)}
