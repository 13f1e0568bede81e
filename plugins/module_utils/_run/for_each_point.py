# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Call a function for each point of a run: a damaged point becomes a warning and never stops the others."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, SeatrialError

from . import run_reader, timeline_table
from .run_reader import NOT_BEGUN, Point, Run
from .timeline_table import TimelineTable

Result = dict[str, Any]


def for_each_point(
    run: Run, numbers: Iterable[str], written: tuple[str, ...], action: Callable[[Point, list[str]], Result]
) -> Result:
    """Call ``action`` for each point. An error becomes a warning, and the point's files ``written`` are deleted."""
    warnings: list[str] = []
    rows: list[Result] = []
    changed = False
    for point in run_reader.points_with_numbers(run, numbers):
        if _is_unstarted_point(point):
            continue
        before = [sha256_of_file(point.folder / name) for name in written]
        try:
            with garbage_collection_disabled():
                rows.append(action(point, warnings))
        except (SeatrialError, OSError, KeyError, TypeError, ValueError) as error:
            text = str(error) if isinstance(error, SeatrialError) else f"{type(error).__name__}: {error}"
            warnings.append(f"point {point.number}: no {written[0]}: {text}")
            for name in written:
                (point.folder / name).unlink(missing_ok=True)
        changed = changed or before != [sha256_of_file(point.folder / name) for name in written]
    if not run.points:
        warnings.append(f"{run.top} has no test point")
    return {"changed": changed, "points": rows, "warnings": warnings}


def _is_unstarted_point(point: Point) -> bool:
    """Return whether a point has no data because it was not begun. The verdict states whether it should have been."""
    return point.status in NOT_BEGUN


@contextmanager
def garbage_collection_disabled() -> Iterator[None]:
    """Disable the collection of cyclic garbage: millions of records are created here, and none is part of a cycle.

    Each collection visits all live objects, so that the time would grow faster than the number of rows.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def sha256_of_file(path: Path) -> str | None:
    """Return the SHA-256 of a file, None for a missing one."""
    return files.sha256_of(path) if path.is_file() else None


def read_timelines_by_point(run: Run, warnings: list[str]) -> dict[str, TimelineTable | None]:
    """Return the timeline of each point by number; None, and a warning, where it cannot be read."""
    tables: dict[str, TimelineTable | None] = {}
    for point in run.points:
        if _is_unstarted_point(point):
            tables[point.number] = None
            continue
        try:
            with garbage_collection_disabled():
                tables[point.number] = timeline_table.read_timeline_jsonl(point.folder / "timeline.jsonl")
        except DataError as error:
            tables[point.number] = None
            warnings.append(f"point {point.number}: {error}")
    return tables
