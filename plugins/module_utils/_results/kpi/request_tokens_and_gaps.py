# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of the requests of a point besides their stages: tokens, gaps between them, metrics of the servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._run import request_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.request_reader import MICROSECONDS

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

    read = request_reader.read_requests(folder)
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
        request_reader.read_server_metrics(folder, []),
        [(begin - read.started, end - read.started) for begin, end in read.pauses if read.started is not None],
        request_reader.read_deployment_of_servers(folder),
        read.steps,
        _scale_after_start(request_reader.read_changes_of_replicas(folder, read), read.started),
        (read.sessions[0].get("first_tokens") or ()) if read.sessions else (),
    )


def _scale_after_start(changes: Sequence[Mapping[str, Any]], started: float | None) -> list[dict[str, Any]]:
    if started is None:
        return []
    return [
        {**one, "at": one["at"] - started, "since": None if one["since"] is None else one["since"] - started}
        for one in changes
    ]
