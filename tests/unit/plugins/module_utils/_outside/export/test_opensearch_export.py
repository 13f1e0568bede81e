# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An export to OpenSearch is whole, or says that it is not: busy servers, strange answers, wrong names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.opensearch_connection import OpenSearchServer
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import opensearch_export
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export.opensearch_export import (
    OpenSearchIndex,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.past_run_data import kpis_by_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run
from scripted_server import ScriptedServer

CREATED: dict[str, Any] = {"index": {"result": "created", "status": 201}}
BUSY: dict[str, Any] = {
    "index": {"status": 429, "error": {"type": "es_rejected_execution_exception", "reason": "full"}}
}
ENTRIES: list[tuple[str, str, dict[str, Any]]] = [
    ("runs", "r", {"whole": False}),
    ("kpis", "a", {"value": float("inf")}),
    ("kpis", "b", {"value": 2.0}),
    ("runs", "r", {"whole": True}),
]

WRONG_PREFIXES = ["My Runs", "UPPER", "a/b", "a,b", "a*", "_x", "", "-a", "\u00e4", "a?b", "a#b", "..", "a" * 201]


@pytest.mark.parametrize("prefix", WRONG_PREFIXES)
def test_a_prefix_with_which_no_index_can_be_named_is_refused(prefix: str) -> None:
    with pytest.raises(InputError, match="is no prefix of an OpenSearch index"):
        OpenSearchServer("https://opensearch.example.com:9200", prefix)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of exports, which take no time here."""
    spent: list[float] = []
    monkeypatch.setattr("time.sleep", spent.append)
    return spent


def answers_in_order(*answers: Any) -> ScriptedServer:
    """A server that gives these answers, then creates every document."""
    left = list(answers)

    def answer(asked: Any) -> Any:
        if left:
            return left.pop(0)
        return 200, {"items": [CREATED] * (asked.body.count(b"\n") // 2)}

    return ScriptedServer(answer)


def write(server: ScriptedServer) -> dict[str, int]:
    return OpenSearchIndex(OpenSearchServer(f"http://127.0.0.1:{server.port}")).write(ENTRIES)


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again_after_the_time_that_it_names(status: int) -> None:
    busy = f"HTTP/1.1 {status} X\r\nContent-Length: 2\r\nRetry-After: 1\r\n\r\n{{}}".encode()
    with answers_in_order(busy) as server:
        assert write(server) == {"created": 4, "updated": 0}
    assert len(server.asked) == 3


def test_documents_for_which_there_was_no_room_are_sent_again_alone(pauses: list[float]) -> None:
    with answers_in_order((200, {"items": [CREATED, BUSY, CREATED]})) as server:
        assert write(server) == {"created": 4, "updated": 0}
    assert len(pauses) == 1
    second = [json.loads(line) for line in server.asked[1].body.splitlines()]
    assert [line["index"]["_id"] for line in second[::2]] == ["a"]
    assert second[1]["value"] is None  # JSON has no infinity
    last = [json.loads(line) for line in server.asked[-1].body.splitlines()]
    assert last[1] == {"whole": True}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_a_figure_that_is_not_finite_is_exported_without_the_bounds_of_an_unknown_one(value: float | None) -> None:
    bounds = {"at_least": 3.0, "interval": [3.0, None], "confidence": {"low": 2.0, "high": 4.0}}
    point = Point("000", Path("x"), {"uuid": "u"}, all_settings={})
    point.kpis = [{"name": "a", "value": value, "unit": "s", **bounds}]
    run = Run(Path("x"), {"id": "t1121-abcdef", "started": "2026-11-25T10:00:00.000Z"}, points=[point])
    (document,) = (
        one for kind, _id, one in opensearch_export.run_and_kpi_documents(run, {}, "valid") if kind == "kpis"
    )
    assert document["value"] is None
    assert kpis_by_name([document], "index")["a"].at_least == (3.0 if value is None else None)
    assert document["confidence"] == ({"low": 2.0, "high": 4.0} if value is None else None)


def test_refused_documents_are_counted_and_the_run_stays_marked(pauses: list[float]) -> None:
    refused = {"index": {"_id": "a", "_index": "x", "status": 400, "error": {"type": "t", "reason": "why"}}}
    with (
        answers_in_order((200, {"items": [CREATED, refused, refused]})) as server,
        pytest.raises(AccessError, match="refused 2 documents and wrote 1; the export is not whole.*a of x: t: why"),
    ):
        write(server)
    assert len(server.asked) == 1 and not pauses


def test_a_server_that_stays_busy_refuses_after_some_attempts(pauses: list[float]) -> None:
    full = {"index": {**BUSY["index"], "_id": "a", "_index": "x"}}
    with (
        answers_in_order(*[(200, {"items": [full] * 3})] * 9) as server,
        pytest.raises(AccessError, match="refused 3 documents and wrote 0"),
    ):
        write(server)
    assert pauses == list(opensearch_export.PAUSES)


@pytest.mark.parametrize("answer", [{}, {"items": None}, {"items": [CREATED]}, {"errors": False}])
def test_an_answer_that_does_not_say_what_became_of_documents_is_told(answer: Any, pauses: list[float]) -> None:
    with (
        answers_in_order((200, answer)) as server,
        pytest.raises(AccessError, match="3 documents does not say what became of each"),
    ):
        write(server)


def test_no_number_and_no_odd_time_of_a_foreign_run_decides_the_type_of_a_field(tmp_path: Path) -> None:
    record = {"id": "a", "project": 2026, "presets": [11, "light"], "started": "2026-11-12 11:05:35", "ended": "soon"}
    clusters = {"sutest": {"openshift": 4.19, "version": 1.36, "provider": 3, "gpu_products": {1: 2}}}
    point = Point("000", tmp_path, {"started": "2026-11-12T13:05:40+02:00"})
    point.kpis = [{"name": "makespan", "value": 1.0, "unit": "s"}]
    run = Run(tmp_path, {**record, "git": {"revision": 1234567}}, points=[point], clusters=clusters)
    of_run, of_kpi, _whole = (one for _kind, _id, one in opensearch_export.run_and_kpi_documents(run, {}, "valid"))
    assert (of_run["@timestamp"], of_run["ended"]) == ("2026-11-12T11:05:35Z", None)
    assert of_kpi["@timestamp"] == "2026-11-12T11:05:40Z"
    for name in ("project", "presets", "provider", "kubernetes", "openshift", "gpu_products", "revision"):
        values = of_kpi[name] if isinstance(of_kpi[name], list) else [of_kpi[name]]
        assert values and all(isinstance(value, str) for value in values)
