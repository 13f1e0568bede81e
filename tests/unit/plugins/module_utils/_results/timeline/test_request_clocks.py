# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests of clients in pods whose clocks differ are on the clock of the controller, within the stated bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import request_clocks
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import (
    build_timeline_of_requests,
)
from request_files import RUN, START, request

#: Two clients: one on the machine of the controller, whose clock was anchored later, one whose clock is 40 s ahead.
CONTROLLER = {"wall": START - 10, "monotonic": 100.0, "boot": "here"}
SAME = {"wall": START + 2.5, "monotonic": 112.0, "boot": "here"}  # set forward by 0.5 s meanwhile
OTHER = {"wall": START + 40, "monotonic": 7.0, "boot": "there"}
AHEAD = {0: 0.5, 1: 40.0}


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def write_point(folder: Path, writes: bool = True) -> Path:
    """Write 20 requests, one each 0.5 s, of two clients, and the writes of all clocks, ten a second."""
    folder.mkdir()
    write_lines(folder / "plan.jsonl", [])
    rows: list[dict[str, Any]] = [{"type": "session", "anchor": CONTROLLER, "simulated": True}]
    for client, anchor in ((0, SAME), (1, OTHER)):
        started = START + AHEAD[client]
        rows.append({"type": "client", "client": client, "clients": 2, "anchor": anchor, "started": started})
        for index in range(client, 20, 2):
            record = request(index, index / 2 + AHEAD[client])
            rows += [{"type": "sent", "index": index, "due": record["due"], "sent": record["sent"]}, record]
        rows.append({"type": "client_end", "at": started + 11, "reason": "done"})
    write_lines(folder / "requests.jsonl", [*rows, {"type": "end", "at": START + 12, "reason": "done"}])
    clocks: list[dict[str, Any]] = []
    for number, (anchor, ahead, phase) in enumerate(((CONTROLLER, 0.0, 0.0), (OTHER, 40.0, 0.05))):
        clocks.append({"type": "session", "anchor": anchor})
        for step in range(120):
            made = START + step / 10 + phase
            version = str(1000 + 2 * step + number)
            moments = {"sent": made + ahead - 0.002, "answered": made + ahead + 0.003}
            clocks.append({"type": "canary", **moments, "resource_version": version})
    if writes:
        write_lines(folder / "clocks.jsonl", clocks)
    return folder


def test_times_of_all_clients_are_those_of_the_controller_and_durations_stay(tmp_path: Path) -> None:
    folder = write_point(tmp_path / "001")
    read = request_clocks.read_requests_on_one_clock(folder)
    assert not read.notes and len(read.requests) == 20 and len(read.sessions) == 1
    for index, record in read.requests.items():
        exact = index % 2 == 0
        assert record["due"] == pytest.approx(START + index / 2, abs=1e-5 if exact else 0.1)
        assert record["first_token"] - record["due"] == pytest.approx(0.1, abs=1e-6), "of one clock"
        assert record["offset"] == pytest.approx(index / 2, abs=0.01), "after the start of its own client"
    table = build_timeline_of_requests(folder, RUN, "001")
    assert table.header["clients"] == 2
    known = {clock["client"]: clock["offset"] for clock in table.header["clocks"]}
    assert known[0] == pytest.approx([-0.5, -0.5])
    low, high = known[1]
    assert low <= -40.0 <= high and high - low < 0.12, "the bounds contain the truth"
    assert read.ends[0]["at"] == START + 12, "the end is the controller's"


def test_clocks_that_nothing_compares_are_taken_for_equal_and_said_to_be_unknown(tmp_path: Path) -> None:
    folder = write_point(tmp_path / "001", writes=False)
    read = request_clocks.read_requests_on_one_clock(folder)
    assert read.requests[1]["due"] == pytest.approx(START + 40.5)
    known = {clock["client"]: clock["offset"] for clock in request_clocks.clocks_of_clients(folder, read)}
    assert known[1] is None and known[0] is not None
