# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The timeline of requests to an inference server: one row for each request, planned or sent.

A request was due when the plan said so, or, in a closed loop, when its stream was free. Its stages are its headers, its
first and its last token, as the kernel of the client received them: each is a moment, not an interval.
"""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._run import request_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.request_reader import InferenceRequests
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import (
    MOMENTS,
    TimelineTable,
    create_empty_column,
)

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
    read = request_reader.read_requests(folder)
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
