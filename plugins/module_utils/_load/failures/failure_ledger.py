# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ledger of the failures of a point, and how what it has open is undone.

A row ``inject`` is synced to disk before anything is changed, so a killed process leaves no unknown failure: the next
call on the directory, or the cleanup of the run, undoes what no row ``undone`` closes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    ApiError,
    InputError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import JsonlAppender
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from . import failure_actions
from .failure_schedule import OF_CONTROL_PLANE, UNDONE_LATER, PlannedFailure

SCHEMA = "failures/1"
FILE = "failures.jsonl"
INJECT, INJECTED, UNDONE, SKIPPED, SCHEDULE = "inject", "injected", "undone", "skipped", "schedule"
#: Pause before an undoing is tried again, seconds; number of attempts.
_PAUSE, _ATTEMPTS = 1.0, 5


def failures_not_undone(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows ``inject`` that no row ``undone`` closes, of failures that can be undone."""
    left: dict[tuple[int, str], dict[str, Any]] = {}
    for row in rows:
        key = (row.get("number", -1), row.get("target", ""))
        if row["type"] == INJECT and row["kind"] in UNDONE_LATER:
            left[key] = row
        elif row["type"] == UNDONE:
            left.pop(key, None)
    return list(left.values())


def read_failures(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of failures; none if it does not exist."""
    return list(files.read_json_lines(path)) if path.exists() else []


def check_schedule_is_unchanged(point_dir: Path, planned: Sequence[PlannedFailure], seed: int) -> None:
    """Raise InputError if an earlier session of the point has planned other failures."""
    path = point_dir / FILE
    for row in read_failures(path):
        if row["type"] != SCHEDULE:
            continue
        if row["seed"] != seed:
            raise InputError(f"{path} has failures with seed {row['seed']}, and seed is {seed}: use a new run")
        if [PlannedFailure(**failure) for failure in row["failures"]] != list(planned):
            raise InputError(
                f"failures: {path} has those of an earlier call, which differ: repeat it as it was, or use a new run"
            )


def undo_and_record_failures(
    client: Client, rows: Iterable[dict[str, Any]], log: JsonlAppender, clock: MonotonicWallClock
) -> int:
    """Undo each failure, whether or not another one can be undone; return how many changed something.

    Those of the control plane are the first, because the others need it. Raises the first SeatrialError at the end.
    """
    changed = 0
    first: SeatrialError | None = None
    for row in sorted(rows, key=lambda row: row["kind"] not in OF_CONTROL_PLANE):
        try:
            changed += undo_and_record_failure(client, row, log, clock)
        except SeatrialError as error:
            first = first or error
    if first is not None:
        raise first
    return changed


def undo_and_record_failure(client: Client, row: dict[str, Any], log: JsonlAppender, clock: MonotonicWallClock) -> bool:
    """Undo a failure and record it; return whether there was something to undo."""
    for attempt in range(_ATTEMPTS):
        sent = clock.now()
        try:
            changed = failure_actions.undo_failure(client, row)
            break
        except (AccessError, ApiError) as error:
            if attempt == _ATTEMPTS - 1 or (isinstance(error, ApiError) and not error.busy):
                raise
            time.sleep(_PAUSE)
    moments = {"sent": round(sent, 6), "answered": round(clock.now(), 6)}
    log.write({"type": UNDONE, "number": row["number"], "target": row["target"], **moments, "changed": changed})
    return changed


def undo_open_failures(
    client: Client, point_dir: Path, say: Callable[[str], None], kinds: Collection[str] = UNDONE_LATER
) -> int:
    """Undo what a killed load left open in a point, on this API server; return how many of them changed something.

    Raises OwnershipError; the first SeatrialError of an undoing, after it has tried to undo each failure.
    """
    path = point_dir / FILE

    def left_here() -> list[dict[str, Any]]:
        return [
            row
            for row in failures_not_undone(read_failures(path))
            if row["server"] == client.access.server and row["kind"] in kinds
        ]

    if not left_here():
        return 0
    log = JsonlAppender(path, SCHEMA, "load with failures")
    try:
        left = left_here()
        changed = undo_and_record_failures(client, left, log, MonotonicWallClock.start())
        say(f"undid {formats.format_count(len(left), 'failure')} that the load of point {point_dir.name} had left")
        return changed
    finally:
        log.close()
