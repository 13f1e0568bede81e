# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads as traces: one trace a workload, one span a stage, requests of limited size, refusals told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import export_run, otlp_export
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export.otlp_export import OtlpReceiver
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import (
    TimelineTable,
    read_timeline_jsonl,
)
from run_directory import RUN, World, write_run
from scripted_server import ScriptedServer, reply

OUTCOMES = {2: "failed", 3: "unfinished", 4: "unsent"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, definitions: str) -> Path:
    top = write_run(tmp_path_factory.mktemp("traces") / "run", [(World(count=8, canary=5.0, outcomes=OUTCOMES), {})])
    write_timeline(str(top))
    write_kpis(str(top), [definitions])
    write_verdict(str(top), 0.5)
    return top


@pytest.fixture(scope="module")
def table(run: Path) -> TimelineTable:
    return read_timeline_jsonl(run / "points/000/timeline.jsonl")


def send(run: Path, server: ScriptedServer, most: int = 1000, token: str = "") -> dict[str, Any]:
    receiver = OtlpReceiver(f"http://127.0.0.1:{server.port}/", token)
    return export_run.send_run_as_traces(str(run), receiver, most, {}, [], export_run.LABEL)


def spans_in(server: ScriptedServer) -> list[dict[str, Any]]:
    bodies = [json.loads(asked.body) for asked in server.asked]
    return [span for body in bodies for span in body["resourceSpans"][0]["scopeSpans"][0]["spans"]]


def attributes(of: dict[str, Any]) -> dict[str, Any]:
    return {pair["key"]: next(iter(pair["value"].values())) for pair in of["attributes"]}


def test_a_workload_is_a_trace_with_a_span_for_each_stage_that_it_reached(run: Path, table: TimelineTable) -> None:
    with ScriptedServer(lambda _asked: (200, {})) as server:
        result = send(run, server, token="a-token")
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/v1/traces")
    assert (asked.headers["authorization"], asked.headers["content-type"]) == ("Bearer a-token", "application/json")
    spans = spans_in(server)
    roots = {span["traceId"]: span for span in spans if "parentSpanId" not in span}
    sent = [row for row in range(len(table)) if table.outcome[row] != "unsent"]
    assert result["counts"] == {"traces": len(sent), "spans": len(spans)} and len(roots) == len(sent) == 7
    assert len({span["spanId"] for span in spans}) == len(spans)
    for row, (trace, root) in zip(sent, roots.items(), strict=True):
        own = {span["name"]: span for span in spans if span["traceId"] == trace and span is not root}
        reached = {stage["name"] for stage in table.stages if table.latest[stage["name"]][row] > 0}
        assert set(own) == reached and "created" in own
        assert root["name"] == table.kind[row] and attributes(root)["seatrial.name"] == table.name[row]
        for name, span in own.items():
            assert span["parentSpanId"] == root["spanId"]
            begin, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
            assert int(root["startTimeUnixNano"]) <= begin <= end <= int(root["endTimeUnixNano"])
            assert end / 1e9 == pytest.approx(table.latest[name][row], abs=1e-6)
            known = attributes(span)
            assert known["seatrial.earliest"] <= known["seatrial.latest"]
            assert known["seatrial.latest"] == pytest.approx((end - int(root["startTimeUnixNano"])) / 1e9, abs=2e-6)
        scheduled, waited = own.get("pods_scheduled"), own.get("pods_created")
        if scheduled and waited:
            assert scheduled["startTimeUnixNano"] == waited["endTimeUnixNano"]
    codes = [root.get("status", {}).get("code") for root in roots.values()]
    assert codes == [1, 1, 2, None, 1, 1, 1]
    resource = json.loads(asked.body)["resourceSpans"][0]["resource"]
    known = attributes(resource)
    assert (known["service.name"], known["seatrial.run"], known["seatrial.point"]) == ("fine_tuning", RUN, "000")


def test_a_request_has_few_spans_and_of_many_workloads_evenly_spaced_ones_are_sent(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp_export, "MOST_SPANS", 20)
    with ScriptedServer(lambda _asked: (200, b"")) as server:
        whole = send(run, server)
        sizes = [len(json.loads(asked.body)["resourceSpans"][0]["scopeSpans"][0]["spans"]) for asked in server.asked]
        ids = [span["spanId"] for span in spans_in(server)]
        server.asked.clear()
        send(run, server)
        again = [span["spanId"] for span in spans_in(server)]
        server.asked.clear()
        some = send(run, server, most=3)
    assert len(sizes) > 1 and max(sizes) <= 20 and sum(sizes) == whole["counts"]["spans"]
    assert again == ids
    indexes = [attributes(span)["seatrial.index"] for span in spans_in(server) if "parentSpanId" not in span]
    assert some["counts"]["traces"] == 3 and indexes == ["0", "3", "6"]


def test_a_busy_receiver_gets_the_same_request_again(run: Path) -> None:
    answers = [reply(200, {}), reply(503, {"message": "full"}, Retry_After="1")]
    with ScriptedServer(lambda _asked: answers.pop()) as server:
        result = send(run, server)
    assert [asked.body for asked in server.asked] == [server.asked[0].body] * 2 and result["counts"]["traces"] == 7


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((200, {"partialSuccess": {"rejectedSpans": "4", "errorMessage": "too old"}}), "refused 4 of .* spans .*: too"),
        ((200, {"partialSuccess": [4]}), "the answer has an unexpected form: an object with partialSuccess"),
        ((200, {"partialSuccess": {"rejectedSpans": "all"}}), "the answer has an unexpected form"),
        ((401, {"message": "who are you"}), "401 Unauthorized: who are you; check export_otlp_token"),
        ((404, b"404 page not found"), "404 Not Found: page not found; is this the address of an OTLP/HTTP receiver"),
        ((415, {"message": "only protobuf"}), "415 .*only protobuf; it does not take OTLP as JSON"),
    ],
)
def test_what_a_receiver_refuses_is_one_error_with_its_remedy(run: Path, answer: Any, why: str) -> None:
    with ScriptedServer(lambda _asked: answer) as server, pytest.raises(AccessError, match=why):
        send(run, server)


def test_a_run_without_timelines_says_that_there_is_no_trace(run: Path, tmp_path: Path) -> None:
    empty = write_run(tmp_path / "run", [(World(count=1), {})])
    with ScriptedServer(lambda _asked: (200, {})) as server:
        result = send(empty, server)
    assert server.asked == [] and not result["changed"] and "no trace, because no point" in result["summary"]


@pytest.mark.parametrize("url", ["collector:4318", "http://collector:4318", "https://me:secret@collector"])
def test_an_address_that_cannot_be_right_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="OTLP receiver .*: (the address|http is allowed)") as error:
        OtlpReceiver(url)
    assert "secret" not in str(error.value)


def test_the_path_of_traces_is_appended_once() -> None:
    assert OtlpReceiver("https://c:4318").address == OtlpReceiver("https://c:4318/v1/traces/").address
