# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import request_reader
from request_files import START, request, write_requests


def test_a_request_that_was_only_sent_stays_open(tmp_path):
    sent = {"type": "sent", "index": 1, "due": START + 1, "sent": START + 1}
    read = request_reader.read_requests(write_requests(tmp_path / "001", [request(0, 0), sent], [0, 1, 2]))
    assert read.indices == [0, 1, 2] and set(read.requests) == {0} and set(read.open) == {1}
    assert read.started == START and not read.notes


def test_a_load_without_a_known_number_of_requests_has_those_that_were_sent(tmp_path):
    read = request_reader.read_requests(write_requests(tmp_path / "001", [request(7, 0)], []))
    assert read.indices == [7]


def test_times_of_a_session_that_continued_are_on_the_clock_of_the_first(tmp_path):
    folder = write_requests(tmp_path / "001", [request(0, 0)], [0, 1])
    again = {"type": "session", "anchor": {"wall": START + 50, "monotonic": 120.0, "boot": "b"}}
    with open(folder / "requests.jsonl", "a", encoding="utf-8") as stream:
        for line in (again, {**request(1, 60), "type": "request"}):
            stream.write(json.dumps(line) + "\n")
    read = request_reader.read_requests(folder)
    # The wall clock was set forward by 30 s between the sessions: 50 s passed on it, 20 s on the monotonic clock.
    assert read.requests[1]["due"] == pytest.approx(START + 30)


def append(path, *rows):
    with open(path, "a", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)


def test_a_pause_ends_with_the_first_request_of_any_client(tmp_path):
    folder = write_requests(tmp_path / "001", [request(0, 0)], [0, 1, 2, 3])
    stopped = max(request(0, 0)["ended"], START)
    # The lines of several clients follow each other client by client.
    rows = [{"type": "request", **request(index, moment)} for index, moment in ((1, 75), (3, 90), (2, 70))]
    append(folder / "requests.jsonl", {"type": "start", "at": START + 60}, *rows)
    read = request_reader.read_requests(folder)
    assert len(read.pauses) == 1
    assert read.pauses[0][0] >= stopped and read.pauses[0][1] == request(2, 70)["sent"]


def test_a_session_that_sent_nothing_belongs_to_the_pause(tmp_path):
    folder = write_requests(tmp_path / "001", [request(0, 0)], [0, 1])
    starts = [{"type": "start", "at": START + moment} for moment in (60, 90)]
    append(folder / "requests.jsonl", *starts, {"type": "request", **request(1, 95)})
    assert [pause[1] for pause in request_reader.read_requests(folder).pauses] == [request(1, 95)["sent"]]


def test_requests_of_clients_whose_load_was_killed_are_read(tmp_path):
    folder = write_requests(tmp_path / "001", [], [0, 1, 2, 3], ended=False)
    (folder / "clients").mkdir()
    for client in (0, 1):
        sent = {"type": "sent", "index": client + 2, "due": START + 3, "sent": START + 3}
        append(folder / "clients" / f"00{client}.jsonl", {"type": "request", **request(client, 1)}, sent)
    with open(folder / "clients" / "001.jsonl", "a", encoding="utf-8") as stream:
        stream.write('{"type":"request","index":3')
    read = request_reader.read_requests(folder)
    assert set(read.requests) == {0, 1} and set(read.open) == {2, 3}
    assert len(read.notes) == 1 and "001.jsonl" in read.notes[0]


def test_the_last_line_of_a_killed_client_is_left_out_and_noted(tmp_path):
    folder = write_requests(tmp_path / "001", [request(0, 0)], [0], ended=False)
    with open(folder / "requests.jsonl", "a", encoding="utf-8") as stream:
        stream.write('{"type":"request","index":1')
    read = request_reader.read_requests(folder)
    assert set(read.requests) == {0} and "truncated" in read.notes[0]


def test_damaged_metrics_of_servers_are_noted(tmp_path):
    notes: list[str] = []
    assert request_reader.read_server_metrics(tmp_path, notes) == [] and not notes
    (tmp_path / "server.json").write_text('{"other": 1}')
    assert request_reader.read_server_metrics(tmp_path, notes) == [] and "server.json" in notes[0]
