# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write timeline.jsonl and timeline.csv of the points of a run, of all workloads or a selection of them.

A selection applies to the timeline, so that every table, plot, KPI and verdict derived from it covers the same rows and
names the selection. Order: ``head`` of all planned workloads by submission, then ``tail`` of these, then
``skip_errors``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import request_reader, run_reader, timeline_table
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.for_each_point import Result, for_each_point
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

from ..runai import scale_test_files
from . import request_timeline, timeline_builder


@dataclass(frozen=True)
class WorkloadSelection:
    """head, tail: numbers of workloads, 0 for all. Raises InputError for negative ones."""

    head: int = 0
    tail: int = 0
    skip_errors: bool = False

    def __post_init__(self) -> None:
        for name in ("head", "tail"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} is {getattr(self, name)}; it must be 0 (all) or a number of workloads")

    @property
    def everything(self) -> bool:
        """Whether all workloads are selected."""
        return not (self.head or self.tail or self.skip_errors)


def select_rows(table: TimelineTable, selection: WorkloadSelection) -> TimelineTable:
    """Return the table with the selected rows; its header describes the selection."""
    if selection.everything:
        return table
    size = len(table)
    rows = list(range(size))
    rows = rows[: selection.head] if selection.head else rows
    rows = rows[-selection.tail :] if selection.tail else rows
    left_out: Counter[str] = Counter()
    if selection.skip_errors:
        left_out.update(table.outcome[row] for row in rows if table.outcome[row] != "succeeded")
        rows = [row for row in rows if table.outcome[row] == "succeeded"]
    header = {**table.header, "planned": len(rows)}
    header["selection"] = {
        "head": selection.head or None,
        "tail": selection.tail or None,
        "skip_errors": selection.skip_errors,
        "of": size,
        "left_out": dict(left_out),
        "text": describe_selection(selection, size, len(rows), sum(left_out.values())),
    }
    return table.taken(rows, header)


def describe_selection(selection: WorkloadSelection, size: int, kept: int, errors: int) -> str:
    """Return the selection as text: "first 100 of 1,000 workloads, 3 with errors left out"."""
    parts = []
    if selection.head:
        parts.append(f"first {min(selection.head, size):,}")
    if selection.tail:
        parts.append(f"last {min(selection.tail, selection.head or size, size):,}{' of these' if parts else ''}")
    part = ", ".join(parts) or "all"
    text = f"{part} of {formats.format_count(size, 'workload')}"
    return f"{text}, {errors:,} with errors left out: {kept:,} shown" if selection.skip_errors else text


def write_timeline(
    run_dir: str, points: Iterable[str] = (), selection: WorkloadSelection | None = None, audit_log: str = ""
) -> Result:
    """Write timeline.jsonl and timeline.csv of the points (all if none is named) for the selected workloads.

    An audit log of the API server narrows the intervals.
    """
    run = run_reader.read_run_directory(Path(run_dir))
    audit_path = Path(audit_log) if audit_log else None

    def one(point: Point, warnings: list[str]) -> Result:
        if request_reader.has_requests(point.folder):
            table = request_timeline.build_timeline_of_requests(point.folder, run.id, point.number)
        elif point.foreign:
            table = scale_test_files.build_timeline_of_scale_test(point.folder, run.id, point.number)
        else:
            table = timeline_builder.build_timeline_of_workloads(
                point.folder, run.id, point.number, run.simulated_writers, audit_path, run.real_nodes
            )
        table = select_rows(table, selection or WorkloadSelection())
        timeline_table.write_jsonl_and_csv(table, point.folder)
        warnings += [f"point {point.number}: {note}" for note in table.header["notes"]]
        return {
            "point": point.number,
            "planned": len(table),
            "outcomes": dict(Counter(table.outcome)),
            "stages": {stage["name"]: table.seen(stage["name"]) for stage in table.stages},
            "contradictions": len(table.contradictions),
        }

    result = for_each_point(run, points, ("timeline.jsonl", "timeline.csv"), one)
    planned = sum(row["planned"] for row in result["points"])
    outcomes: Counter[str] = Counter()
    for row in result["points"]:
        outcomes.update(row["outcomes"])
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common()) or "none"
    result["summary"] = (
        f"{formats.format_count(planned, 'workload')} in"
        f" {formats.format_count(len(result['points']), 'point')}: {counts}"
    )
    return result
