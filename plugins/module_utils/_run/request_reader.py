# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read plan.jsonl, requests.jsonl and server.json of a point at which an inference server was measured.

Missing and truncated files are no errors: ``notes`` lists what was left out. All times are on the clock of the first
session; those of a session that continued the load are moved to it. Figures of single requests, such as tokens and the
gaps between them, are arrays over the rows of a timeline.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError

from .point_reader import read_json_lines, shift_between_clocks

FILE = "requests.jsonl"
#: Folder of the files of several clients, which become part of FILE when they have ended.
CLIENTS = "clients"
SERVER_FILE, DEPLOYMENT_FILE, SCALE_FILE = "server.json", "deployment.json", "scale.jsonl"
#: Keys of a request that are times.
TIMES = ("due", "sent", "headers", "first_token", "last_token", "ended")
#: Returns what to add to times of the clock with an anchor, at a moment on it, to convert them to the reference's.
ShiftAt = Callable[[float], float]
CompareClocks = Callable[[dict[str, Any], dict[str, Any]], ShiftAt]
#: Microseconds in a second: ``times`` of a request.
MICROSECONDS = 1e6


@dataclass
class InferenceRequests:
    """The requests of a point by index. ``requests``: those that ended. ``open``: those that were only sent.

    planned: rows of the plan, empty for a load whose number of requests was not known before. started: origin of the
    offsets of the plan. ends: one record for each session that ended by itself. pauses: from the last record of a
    session until the first request of the next one. A request has ``offset``: its due time after the origin of its
    session, which leaves interruptions out. steps: first index and rate of each step of a search for the capacity.
    clients: those in pods, each with its line and when it started.
    """

    folder: Path
    planned: list[dict[str, Any]] = field(default_factory=list)
    requests: dict[int, dict[str, Any]] = field(default_factory=dict)
    open: dict[int, dict[str, Any]] = field(default_factory=dict)
    sessions: list[dict[str, Any]] = field(default_factory=list)
    ends: list[dict[str, Any]] = field(default_factory=list)
    started: float | None = None
    pauses: list[tuple[float, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    steps: list[tuple[int, float]] = field(default_factory=list)
    clients: list[dict[str, Any]] = field(default_factory=list)

    @property
    def indices(self) -> list[int]:
        """The indices of all requests: planned, sent and answered ones."""
        known = {row["index"] for row in self.planned}
        return sorted(known | self.requests.keys() | self.open.keys())


def has_requests(folder: Path) -> bool:
    """Return whether an inference server was measured at the point in ``folder``."""
    return (folder / FILE).is_file()


def _constant_shift(anchor: dict[str, Any], to: dict[str, Any]) -> ShiftAt:
    """Return the shift between two clocks of one boot; wall clocks of different machines are taken for equal."""
    shift = shift_between_clocks(anchor, to)
    return lambda _at: shift


def read_requests(folder: Path, compare: CompareClocks = _constant_shift) -> InferenceRequests:
    """Read the files of the point in ``folder``; those of its clients, too, if their load was killed.

    compare: compares clocks of clients in pods with that of the first session. The times of a request are moved alike,
    so its durations are those of one clock.
    """
    read = InferenceRequests(folder)
    records = read_json_lines(folder / "plan.jsonl", read.notes)
    read.planned = [record for record in records if record.get("type") == "workload"]
    shift, last, origin = 0.0, 0.0, 0.0
    stopped, resumed = 0.0, inf  # last record before a pause, first request after it
    shift_of_client: ShiftAt | None = None
    paths = (folder / FILE, *sorted((folder / CLIENTS).glob("*.jsonl")))
    for record in chain.from_iterable(read_json_lines(path, read.notes) for path in paths):
        kind = record.get("type")
        if kind in ("request", "sent"):
            at = record.get("sent") or record.get("due") or 0.0
            _move_times(record, shift if shift_of_client is None else shift_of_client(at))
        if kind == "request":
            read.open.pop(record["index"], None)
            read.requests[record["index"]] = record
        elif kind == "sent":
            read.open[record["index"]] = record
        elif kind == "client":
            reference = read.sessions[0].get("anchor") if read.sessions else None
            shift_of_client = compare(record["anchor"], reference or record["anchor"])
            origin = record["started"] + shift_of_client(record["started"])
            read.started = origin if read.started is None else min(read.started, origin)
            read.clients.append({**record, "origin": origin})
        elif kind == "step":
            read.steps.append((record["index"], record["rate"]))
        elif kind == "session":
            read.sessions.append(record)
            shift_of_client = None
            shift = shift_between_clocks(record.get("anchor") or {}, read.sessions[0].get("anchor"))
        elif kind == "start":
            # A session that goes on has an origin before its begin, by the offset of the first missing request.
            origin = record["at"] + shift
            if read.started is None:
                read.started = origin
            elif not stopped or resumed < inf:  # a session that sent nothing belongs to the pause
                _add_pause(read, stopped, resumed)
                stopped, resumed = last, inf
        elif kind == "end":
            read.ends.append({**record, "at": record["at"] + shift})
            last = max(last, record["at"] + shift)
        if kind in ("request", "sent"):
            if record.get("due") is not None:
                record["offset"] = record["due"] - origin
            if stopped and record.get("sent"):
                resumed = min(resumed, record["sent"])
            last = max(last, record.get("ended") or record.get("sent") or 0.0)
    _add_pause(read, stopped, resumed)
    return read


def _add_pause(read: InferenceRequests, stopped: float, resumed: float) -> None:
    """Add a pause that has ended. stopped: 0 without one."""
    if 0 < stopped < resumed < inf:
        read.pauses.append((stopped, resumed))


def _move_times(record: dict[str, Any], shift: float) -> None:
    """Move the times of a record by ``shift`` seconds, and make those of its chunks a compact array."""
    for name in TIMES:
        if record.get(name) is not None:
            record[name] += shift
    if record.get("times"):
        record["times"] = array("q", record["times"])


def read_server_metrics(folder: Path, notes: list[str]) -> list[dict[str, Any]]:
    """Return the metrics of each server before and after the load, as server.json has them; empty without the file."""
    path = folder / SERVER_FILE
    try:
        return list(files.read_json(path)["servers"]) if path.is_file() else []
    except (DataError, OSError, KeyError, TypeError) as error:
        notes.append(f"{SERVER_FILE} cannot be read: {error}")
        return []


def read_deployment_of_servers(folder: Path) -> dict[str, Any]:
    """Return deployment.json, empty if the run did not deploy the servers. Raises DataError."""
    path = folder / DEPLOYMENT_FILE
    return dict(files.read_json(path)) if path.is_file() else {}


def read_changes_of_replicas(folder: Path, read: InferenceRequests) -> list[dict[str, Any]]:
    """Return the changes in scale.jsonl on the clock of the requests, empty if the servers were not watched.

    What the first look of a session found has ``since`` None: it was there before. Looks that failed are among the
    changes, with the time since the last one that did not.
    """
    changes: list[dict[str, Any]] = []
    shift = 0.0
    anchor = read.sessions[0].get("anchor") if read.sessions else None
    for record in read_json_lines(folder / SCALE_FILE, read.notes) if (folder / SCALE_FILE).is_file() else ():
        if record["type"] == "session":
            shift = shift_between_clocks(record.get("anchor") or {}, anchor)
        elif record["type"] in ("desired", "pod", "failed", "blind"):
            since = record["since"]
            moved = {"at": record["at"] + shift, "since": None if since is None else since + shift}
            changes.append({**record, **moved})
    return changes


#: Figures of single requests, each an array (rows,), NaN if unknown.
#: Columns that are keys of the lines of requests.jsonl.
RECORDED = ("prompt_tokens", "output_tokens", "cached_tokens", "chunks", "offset", "conversation", "turn")
COLUMNS = (*RECORDED, "lag")


@dataclass(frozen=True)
class RequestFigures:
    """Arrays over the rows of a timeline, and the gaps of all requests one after another.

    columns: COLUMNS; lag and offset, when a request was due after the origin of its session, in seconds. gaps: seconds
    between consecutive chunks with text. gap_row: the row of each gap. gap_end: when each gap ended, in seconds
    after the first token of its request. servers: as in server.json. pauses: begin and end of each interruption of the
    load, in seconds after its start. deployment: as in deployment.json, empty for servers that the run did not deploy.
    steps: first index and rate of each step of a search for the capacity. scale: changes of the number of servers as in
    scale.jsonl, with times in seconds after the start of the load. first_requests: seconds until the first token of the
    first request of each server, before the load.
    """

    columns: Mapping[str, Any]
    gaps: Any
    gap_row: Any
    gap_end: Any
    servers: Sequence[Mapping[str, Any]]
    pauses: Sequence[tuple[float, float]] = ()
    deployment: Mapping[str, Any] = field(default_factory=dict)
    steps: Sequence[tuple[int, float]] = ()
    scale: Sequence[Mapping[str, Any]] = ()
    first_requests: Sequence[float] = ()


def read_request_figures(folder: Path, indices: Sequence[int]) -> RequestFigures:
    """Read the figures of the requests with these indices: the rows of a timeline."""
    import numpy

    read = read_requests(folder)
    columns = {name: numpy.full(len(indices), numpy.nan) for name in COLUMNS}
    times: list[Any] = []
    rows: list[Any] = []
    for row, index in enumerate(indices):
        request = read.requests.get(index)
        if request is None:
            continue
        for name in RECORDED:
            if request.get(name) is not None:
                columns[name][row] = request[name]
        if request.get("lag_us") is not None:
            columns["lag"][row] = request["lag_us"] / MICROSECONDS
        if request.get("times"):
            times.append(numpy.asarray(request["times"], dtype=float) / MICROSECONDS)
            rows.append(numpy.full(len(request["times"]), row))
    ends = numpy.concatenate(times) if times else numpy.empty(0)
    gap_row = numpy.concatenate(rows) if rows else numpy.empty(0, dtype=int)
    gaps = [numpy.diff(moments, prepend=0.0) for moments in times]
    return RequestFigures(
        columns,
        numpy.concatenate(gaps) if gaps else numpy.empty(0),
        gap_row,
        ends,
        read_server_metrics(folder, []),
        [(begin - read.started, end - read.started) for begin, end in read.pauses if read.started is not None],
        read_deployment_of_servers(folder),
        read.steps,
        _scale_after_start(read_changes_of_replicas(folder, read), read.started),
        (read.sessions[0].get("first_tokens") or ()) if read.sessions else (),
    )


def _scale_after_start(changes: Sequence[Mapping[str, Any]], started: float | None) -> list[dict[str, Any]]:
    if started is None:
        return []
    return [
        {**one, "at": one["at"] - started, "since": None if one["since"] is None else one["since"] - started}
        for one in changes
    ]
