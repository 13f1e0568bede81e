# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders of the attempts at the points of a run, and the decision which of them is measured next.

A folder appears whole or not at all, and always before the line of schedule.jsonl that decides on it. Whatever a
killed session has written, the next one finds in the folders what is left to measure.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import (
    bisection,
    bisection_plan,
    past_run_data,
    repeat_until_decided,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.choose_next_point import (
    FAILED,
    PASSED,
    PLANNED,
    SKIPPED,
    AttemptChooser,
    PlannedPoint,
    PointAttempt,
    ScheduleFinished,
    ScheduleState,
    append_schedule_decision,
    attempts_decided_in_session,
    choose_next_point,
    read_attempts,
    read_schedule_lines,
    seconds_spent_on_attempts,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import NOT_BEGUN, attempt_folder
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import point_loads

from . import run_record

KPIS, LEDGER = "kpis.json", "ledger.jsonl"

#: Writes the settings of a point to a file.
WriteSettings = Callable[[Path], None]
#: Replaces the settings of the verdict in the file of a point with this name.
JudgeSettings = Callable[[str, Path], None]


@dataclass(frozen=True)
class ScheduleKeywords:
    """The words of a session that decide on further attempts, and the judged figures (verdict/2) of all attempts."""

    repeat: Mapping[str, Any] = field(default_factory=dict)
    bisect: Mapping[str, Any] = field(default_factory=dict)
    kpis: Sequence[Mapping[str, Any]] = ()

    def given(self) -> dict[str, Mapping[str, Any]]:
        """Return the words that are not empty."""
        return {name: word for name, word in (("repeat", self.repeat), ("bisect", self.bisect)) if word}


NO_KEYWORDS = ScheduleKeywords()


def last_session_schedule_state(run_dir: Path, stop_on_error: bool = False) -> ScheduleState:
    """Return the state of the schedule in the last session of a run."""
    return _session_schedule_state(run_dir, _current_session_start(run_record.read_record(run_dir)), stop_on_error)


def _session_schedule_state(run_dir: Path, session: str, stop_on_error: bool) -> ScheduleState:
    return ScheduleState(read_attempts(run_dir), attempts_decided_in_session(run_dir, session), stop_on_error)


def decide_and_create_next_attempt(
    run_dir: Path, stop_on_error: bool, words: ScheduleKeywords = NO_KEYWORDS
) -> PlannedPoint | ScheduleFinished:
    """Decide which attempt is measured next, create its folder if it is a new one, and record the decision."""
    record = run_record.read_record(run_dir)
    run, session = str(record["id"]), _current_session_start(record)
    state = replace(_session_schedule_state(run_dir, session, stop_on_error), on_demand=bool(words.bisect))
    decision = choose_next_point(state, next_attempt_deciders(run_dir, run, words.repeat, words.bisect, words.kpis))
    if isinstance(decision, PlannedPoint) and decision.name not in {attempt.name for attempt in state.attempts}:
        create_attempt(run_dir, decision)
    append_schedule_decision(run_dir, run, session, decision, words.given())
    return decision


def next_attempt_module_result(
    run_dir: Path, stop_on_error: bool, words: ScheduleKeywords = NO_KEYWORDS
) -> dict[str, Any]:
    """Return the decision as the result of module record_run_state."""
    decision = decide_and_create_next_attempt(run_dir, stop_on_error, words)
    if isinstance(decision, ScheduleFinished):
        return {
            "finished": True,
            "point": "",
            "attempt": 0,
            "why": decision.why,
            "failures": failures_of_points(run_dir),
        }
    result = {"finished": False, "point": decision.name, "attempt": decision.attempt, "last": decision.last}
    return {**result, "why": decision.why, "failures": []}


def record_attempt_begin(run_dir: Path, name: str) -> tuple[bool, dict[str, Any]]:
    """Record that an attempt begins; return whether the nodes must be scaled before, and its record.

    Raises InputError if there is no such attempt.
    """
    folder = run_dir / "points" / name
    record = _read_attempt(run_dir, name)
    # Figures of a killed session are those of a part of the load; the schedule must not decide by them.
    (folder / KPIS).unlink(missing_ok=True)
    if record["status"] == "running" and (folder / LEDGER).exists():
        record["resumed"] = True
    record.update(status="running", started=format_utc_timestamp(), ended=None, exit_code=None, error=None, cause=None)
    scales, record["nodes"] = point_loads.node_scaling_before_point(run_dir, folder)
    files.write_yaml(folder / "point.yml", record, "point/2")
    return scales, record


def record_attempt_end(
    run_dir: Path, name: str, status: str, error: str | None = None, cause: str | None = None
) -> None:
    """Record that an attempt has passed or failed. cause: class of the error. Raises InputError if there is none."""
    record = _read_attempt(run_dir, name)
    record.update(
        status=status, ended=format_utc_timestamp(), exit_code=0 if status == PASSED else 1, error=error, cause=cause
    )
    files.write_yaml(run_dir / "points" / name / "point.yml", record, "point/2")


def _read_attempt(run_dir: Path, name: str) -> dict[str, Any]:
    path = run_dir / "points" / name / "point.yml"
    if not path.exists():
        raise InputError(f"{run_dir.name} has no point {name}")
    # A run may have been begun by a version that wrote point/1.
    return {"attempt": 1, **files.read_yaml(path), "schema": "point/2"}


def failures_of_points(run_dir: Path) -> list[str]:
    """Return why the test has not passed: failures of this session, and points that failed in an earlier one."""
    state = last_session_schedule_state(run_dir)
    path = run_dir / BISECTION
    left_out = bisection_plan.attempts_left_out(files.read_json(path) if path.exists() else {})
    now = {attempt.name: attempt for attempt in state.failed_now() if attempt.name not in left_out}
    earlier = {
        attempt.name: attempt
        for attempt in state.counted()
        if attempt.status == FAILED and attempt.name not in now and attempt.name not in left_out
    }
    return [
        *(_format_attempt_error(attempt) for attempt in now.values()),
        *(
            f"{_format_attempt_error(attempt)} (in an earlier session; -e redo=failed measures it again)"
            for attempt in earlier.values()
        ),
    ]


def _format_attempt_error(attempt: PointAttempt) -> str:
    return str(attempt.record.get("error") or f"point {attempt.name}: no reason was recorded")


def _current_session_start(record: Mapping[str, Any]) -> str:
    """Return the start of the session that works on the run. record: run.yml."""
    sessions = record.get("sessions") or [record]
    return str(sessions[-1]["started"])


def create_attempt(run_dir: Path, point: PlannedPoint, write: WriteSettings | None = None) -> None:
    """Create the folder of a further attempt, with the settings of the first one unless ``write`` writes others."""
    first = run_dir / "points" / point.of
    values = files.read_yaml(first / "point.yml")["settings"]
    _create_attempt_folder(
        run_dir,
        point.of,
        point.attempt,
        values,
        write or (lambda path: _copy_settings_file(first, path)),
        why=point.why,
    )


def _copy_settings_file(first: Path, path: Path) -> None:
    shutil.copyfile(first / "settings.yml", path)


def write_points(
    run_dir: Path, points: Iterable[tuple[str, Mapping[str, Any], str, WriteSettings]], judge: JudgeSettings
) -> None:
    """Write the points of the matrix: (name, matrix values, why it is skipped or "", its settings).

    The settings of an attempt that has ended are those that it was measured with; only ``judge`` changes them. Points
    that the matrix no longer has are removed; refuse_changed_points() has refused it if one of them was begun.
    """
    for half in (run_dir / "points").glob(".*"):  # left by a killed session
        shutil.rmtree(half)
    there: dict[str, list[PointAttempt]] = {}
    for attempt in read_attempts(run_dir):
        there.setdefault(attempt.of, []).append(attempt)
    wanted = list(points)
    for name in set(there) - {point[0] for point in wanted}:
        shutil.rmtree(run_dir / "points" / name)
    for name, values, skipped, write in wanted:
        if name not in there:
            _create_attempt_folder(run_dir, name, 1, values, write, SKIPPED if skipped else PLANNED, skipped)
        for attempt in there.get(name, ()):
            folder = run_dir / "points" / attempt.name
            if attempt.status in (PASSED, FAILED):
                judge(name, folder / "settings.yml")
                continue
            write(folder / "settings.yml")
            if attempt.attempt == 1 and attempt.status in (PLANNED, SKIPPED):
                record = _new_attempt_record(name, 1, values, SKIPPED if skipped else PLANNED, skipped)
                files.write_yaml(folder / "point.yml", {**record, "uuid": attempt.record["uuid"]}, "point/2")


def refuse_changed_points(run_dir: Path, points: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise InputError if a point that was begun would change or go. points: name -> matrix values."""
    for attempt in read_attempts(run_dir):
        if attempt.status in NOT_BEGUN or attempt.attempt > 1:
            continue
        had = attempt.record["settings"]
        if attempt.name not in points:
            raise InputError(
                f"point {attempt.name} was measured with {_format_matrix_values(had)}, and the matrix lacks"
                f" it now: {_KEEPS}"
            )
        now = files.to_plain_types(points[attempt.name])
        if had != now:
            raise InputError(
                f"point {attempt.name} was measured with {_format_matrix_values(had)}, and now has"
                f" {_format_matrix_values(now)}: {_KEEPS}"
            )


_KEEPS = "a run keeps the points that it has measured; begin another run"


def _format_matrix_values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items()) or "no matrix"


def _new_attempt_record(of: str, attempt: int, values: Mapping[str, Any], status: str, why: str) -> dict[str, Any]:
    record = {"schema": "point/2", "point": attempt_folder(of, attempt), "attempt": attempt, "uuid": str(uuid.uuid4())}
    more = {**({"of": of} if attempt > 1 else {}), **({"why": why} if why else {})}
    return {**record, "settings": dict(values), "status": status, **more}


def _create_attempt_folder(
    run_dir: Path,
    of: str,
    attempt: int,
    values: Mapping[str, Any],
    write: WriteSettings,
    status: str = PLANNED,
    why: str = "",
) -> None:
    """Create the folder of an attempt, whole. Raises InputError if it is there."""
    parent = run_dir / "points"
    parent.mkdir(exist_ok=True)
    name = attempt_folder(of, attempt)
    half = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=parent))
    write(half / "settings.yml")
    files.write_yaml(half / "point.yml", _new_attempt_record(of, attempt, values, status, why), "point/2")
    half.chmod(files.mode_by_umask(0o775))
    try:
        os.rename(half, parent / name)
    except OSError as error:
        shutil.rmtree(half, ignore_errors=True)
        raise InputError(f"can't create {parent / name}: {error.strerror or error}") from error


BISECTION = "bisection.json"


def next_attempt_deciders(
    run_dir: Path, run: str, repeat: Mapping[str, Any], bisect: Mapping[str, Any], kpis: Sequence[Mapping[str, Any]]
) -> list[AttemptChooser]:
    """Return what decides once each point was measured. kpis: judged figures by all attempts, as in verdict/2."""
    spent = seconds_spent_on_attempts(read_schedule_lines(run_dir), format_utc_timestamp())
    repeated, bisected = repeat_until_decided.parse_repeat_keyword(repeat), bisection_plan.parse_bisect_keyword(bisect)
    if bisected:

        def note(document: dict[str, Any]) -> None:
            files.write_json(run_dir / BISECTION, {**document, "run": run}, "bisection/1")

        return [
            bisection.make_next_value_chooser(
                bisected, lambda name: read_attempt_figure_and_bound(run_dir, name, bisected.kpi), spent, note
            )
        ]
    return [repeat_until_decided.create_attempt_chooser(repeated, kpis, spent)] if repeated else []


def read_attempt_figure_and_bound(run_dir: Path, name: str, kpi: str) -> tuple[float | None, float | None]:
    """Return a figure of an attempt, and the bound if only that is known; None for what was not measured.

    name: of the attempt's folder.
    """
    path = run_dir / "points" / name / "kpis.json"
    try:
        entry = past_run_data.kpis_by_name(files.read_json(path)["kpis"], path).get(kpi)
    except (DataError, OSError):
        return None, None
    return (entry.value, entry.at_least) if entry else (None, None)
