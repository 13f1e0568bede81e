# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write timeline.jsonl and timeline.csv of the points of a run, of all workloads or a selection of them.

A selection applies to the timeline, so that every table, plot, KPI and verdict derived from it covers the same rows and
names the selection. Order: ``head`` of all planned workloads by submission, then ``tail`` of these, then
``skip_errors``.

The timeline of requests to an inference server has one row for each request, planned or sent. A request was due when
the plan said so, or, in a closed loop, when its stream was free. Its stages are its headers, its first and its last
token, as the kernel of the client received them: each is a moment, not an interval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import request_reader, run_reader, timeline_table
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.request_reader import InferenceRequests
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import (
    Point,
    Result,
    process_points_and_note_errors,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import (
    MOMENTS,
    TimelineTable,
    create_empty_column,
)

from ..runai import scale_test_files
from . import request_clocks, timeline_builder

KIND = "Request"
WRITER = "server"
#: Name, needs, outcome of a request that ends with it.
STAGES: tuple[tuple[str, tuple[str, ...], str | None], ...] = (
    ("headers", (), None),
    ("first_token", ("headers",), None),
    ("last_token", ("first_token",), None),
    ("succeeded", ("last_token",), "succeeded"),
    ("failed", (), "failed"),
)
#: Outcome of a request that was sent and has no record of its end.
LOST = "lost"


def build_timeline_of_requests(folder: Path, run: str, point: str) -> TimelineTable:
    """Return the timeline of the requests of the point in ``folder``."""
    read = request_clocks.read_requests_on_one_clock(folder)
    request_reader.read_server_metrics(folder, read.notes)  # for a note on a damaged file
    indices = read.indices
    size = len(indices)
    table = TimelineTable({})
    table.moments = {name: create_empty_column(size) for name in MOMENTS}
    table.earliest = {name: create_empty_column(size) for name, _needs, _ends in STAGES}
    planned = {row["index"]: row for row in read.planned}
    for row, index in enumerate(indices):
        _append_request(table, row, planned.get(index, {}), read, index)
    table.latest = {name: column[:] for name, column in table.earliest.items()}
    table.header = _timeline_header(table, read, run, point)
    if read.clients:
        latest = {clock["client"]: clock for clock in request_clocks.clocks_of_clients(folder, read)}
        table.header["clocks"] = [latest[number] for number in sorted(latest)]
        if not any(request.get("turn") for request in read.requests.values()):  # then row i is that of client i
            table.header["clients"] = read.clients[0]["clients"]
    return table


def _append_request(
    table: TimelineTable, row: int, planned: dict[str, Any], read: InferenceRequests, index: int
) -> None:
    request = read.requests.get(index)
    known = request or read.open.get(index) or {}
    outcome = str(request["outcome"]) if request else LOST if known else "unsent"
    table.index.append(index)
    table.name.append(str(known.get("name") or planned.get("name") or f"request {index}"))
    table.kind.append(KIND)
    table.template.append(str(known.get("model") or planned.get("template") or ""))
    table.uid.append(None)
    table.outcome.append(outcome)
    table.censored.append(outcome == LOST)
    table.attempts.append(int(known.get("attempts") or (1 if known else 0)))
    table.pods.append(0)
    table.gpus.append(0.0)
    table.nodes.append(None)
    due = known.get("due")
    if due is None and planned.get("offset") is not None and read.started is not None:
        due = read.started + planned["offset"]
    ended = known.get("ended")
    moments = {"intended": due, "sent": known.get("sent"), "answered": known.get("headers")}
    stages = {name: known.get(name) for name in ("headers", "first_token", "last_token")}
    stages |= {outcome: ended} if outcome in ("succeeded", "failed") else {}
    for columns, values in ((table.moments, moments), (table.earliest, stages)):
        for name, moment in values.items():
            if moment is not None:
                columns[name][row] = moment


def _timeline_header(table: TimelineTable, read: InferenceRequests, run: str, point: str) -> dict[str, Any]:
    """Return the header. The observation ended with the last session, or with the last moment that is known."""
    simulated = any(session.get("simulated") for session in read.sessions)
    moments = [
        moment for columns in (table.moments, table.earliest) for column in columns.values() for moment in column
    ]
    known = [moment for moment in moments if not isnan(moment)]
    start = read.started if read.started is not None else min(known, default=0.0)
    return {
        "schema": "timeline/1",
        "run": run,
        "point": point,
        "start": start,
        "end": max([start, *known, *(end["at"] for end in read.ends)]),
        "planned": len(table),
        "rows": "request",
        "stages": [
            {"name": name, "kind": KIND, "writer": WRITER, "simulated": simulated, "ends": ends, "needs": list(needs)}
            for name, needs, ends in STAGES
        ],
        "gaps": [],
        "notes": read.notes,
    }


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
            table = build_timeline_of_requests(point.folder, run.id, point.number)
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

    result = process_points_and_note_errors(run, points, ("timeline.jsonl", "timeline.csv"), one)
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
