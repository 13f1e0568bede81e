# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from math import isnan

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import run_checks
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import timeline_table
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point
from request_files import RUN, START, request, write_requests

BROKEN = {"outcome": "failed", "status": 200, "error": "connection reset", "last_token": None}
BUSY = {"outcome": "refused", "status": 429, "headers": None, "first_token": None, "last_token": None}


def built(tmp_path, records, offsets):
    return write_timeline.build_timeline_of_requests(write_requests(tmp_path / "001", records, offsets), RUN, "001")


def test_every_planned_request_has_a_row_with_its_outcome(tmp_path):
    sent = {"type": "sent", "index": 3, "due": START + 3, "sent": START + 3}
    table = built(tmp_path, [request(0, 0), request(1, 1, **BROKEN), request(2, 2, **BUSY), sent], range(5))
    assert table.outcome == ["succeeded", "failed", "refused", "lost", "unsent"]
    assert table.censored == [False, False, False, True, False]
    assert table.moments["intended"][4] == START + 4 and isnan(table.moments["sent"][4])
    assert table.earliest["first_token"][0] == pytest.approx(START + 0.1)
    assert not isnan(table.latest["failed"][1]) and isnan(table.latest["succeeded"][1])


def test_the_stages_of_a_simulated_server_are_simulated(tmp_path):
    folder = write_requests(tmp_path / "001", [request(0, 0)], [0], simulated=False)
    assert all(stage["simulated"] for stage in built(tmp_path / "x", [request(0, 0)], [0]).stages)
    assert not any(stage["simulated"] for stage in write_timeline.build_timeline_of_requests(folder, RUN, "001").stages)


def test_the_timeline_is_written_and_read_like_any_other(tmp_path):
    write_requests(tmp_path / "points" / "001", [request(0, 0), request(1, 1)], [0, 1])
    result = write_timeline.write_timeline(str(tmp_path))
    table = timeline_table.read_timeline_jsonl(tmp_path / "points" / "001" / "timeline.jsonl")
    assert table.header["rows"] == "request" and table.outcome == ["succeeded"] * 2
    assert "2 succeeded" in result["summary"]


def test_a_server_that_refuses_requests_under_load_does_not_make_the_run_invalid(tmp_path):
    table = built(tmp_path, [request(0, 0), request(1, 1, **BUSY)], [0, 1])
    check = run_checks.check_workload_successes("001", table, None)
    assert check["result"] == "pass"
    assert check["detail"].startswith("1 of 2 requests succeeded; 1 refused by the server")


def test_lost_requests_make_the_run_invalid(tmp_path):
    sent = {"type": "sent", "index": 1, "due": START + 1, "sent": START + 1}
    table = built(tmp_path, [request(0, 0), sent], [0, 1])
    assert run_checks.check_workload_successes("001", table, None)["result"] == "invalid"


@pytest.mark.parametrize(("more", "result"), [([], "pass"), ([request(199, 199, **BROKEN)], "outside")])
def test_few_lost_requests_are_no_failures_of_the_server(tmp_path, more, result):
    sent = {"type": "sent", "index": 198, "due": START + 198, "sent": START + 198}
    last = more or [request(199, 199)]
    table = built(tmp_path, [*(request(index, index) for index in range(198)), sent, *last], range(200))
    check = run_checks.check_workload_successes("001", table, 0)
    assert check["result"] == result and "1 sent, but never answered" in check["detail"]


def test_a_turn_that_was_not_sent_after_one_that_the_server_refused_is_a_failure(tmp_path):
    table = built(tmp_path, [*(request(index, index) for index in range(198)), request(198, 198, **BUSY)], range(200))
    assert table.outcome[198:] == ["refused", "unsent"]
    assert run_checks.check_workload_successes("001", table, 1)["result"] == "outside"
    assert run_checks.check_workload_successes("001", table, 2)["result"] == "pass"


def test_lateness_speaks_of_requests(tmp_path):
    table = built(tmp_path, [request(0, 0), request(1, 1)], [0, 1])
    assert "99 % of 2 requests were sent" in run_checks.check_load_generator_lateness("001", table, 0.1)["detail"]


@pytest.mark.parametrize(("lag", "result"), [(0.002, "pass"), (0.2, "invalid")])
def test_a_client_that_read_too_late_makes_the_run_invalid(tmp_path, lag, result):
    kpi = {"name": "client_lag_p99", "value": lag}
    point = Point("001", tmp_path, kpis=[kpi], all_settings={"serving_max_client_lag": 0.01})
    (check,) = run_checks.check_client_lag(point)
    assert check["result"] == result and ("bottleneck" in check["detail"]) is (result == "invalid")
    assert run_checks.check_client_lag(Point("001", tmp_path, kpis=[], all_settings={})) == []
