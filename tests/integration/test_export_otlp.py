# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real OpenTelemetry Collector takes the traces of a run. What it sends on shows what it has understood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import servers
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import export_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export.otlp_export import (
    OtlpReceiver,
    requests_of_run,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import read_run_directory
from run_directory import World, write_run
from scripted_server import ScriptedServer, reply

KPIS = Path(__file__).parents[2] / "roles/results/files/kpis/workload.yml"
MOST = 1000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 600 workloads, whose spans need more than one request."""
    top = write_run(
        tmp_path_factory.mktemp("traces") / "run", [(World(count=600, canary=5.0, outcomes={2: "failed"}), {})]
    )
    write_timeline(str(top))
    write_kpis(str(top), [str(KPIS)])
    write_verdict(str(top), 0.5)
    return top


def export(run: Path, address: str, most: int = MOST) -> dict[str, Any]:
    return export_run.send_run_as_traces(str(run), OtlpReceiver(address), most, {}, [], export_run.LABEL)


def spans(bodies: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Spans by the ids of trace and span, without what a collector writes out although it is empty."""
    found = {}
    for body in bodies:
        (resource,) = body["resourceSpans"]
        (scope,) = resource["scopeSpans"]
        for span in scope["spans"]:
            known = {key: value for key, value in span.items() if value not in ("", {}, [], 0)}
            known["attributes"] = {pair["key"]: pair["value"] for pair in span["attributes"]}
            known["resource"] = {pair["key"]: pair["value"] for pair in resource["resource"]["attributes"]}
            found[span["traceId"], span["spanId"]] = known
    return found


def test_a_collector_understands_every_span_as_it_was_meant(run: Path, tmp_path: Path) -> None:
    with ScriptedServer(lambda _asked: (200, {})) as behind:
        with servers.otel_collector(tmp_path, f"http://127.0.0.1:{behind.port}") as address:
            result = export(run, address)
        received = spans([json.loads(asked.body) for asked in behind.asked])
    verdict = json.loads((run / "verdict.json").read_text())
    meant = spans([body for body, _traces in requests_of_run(read_run_directory(run), verdict, "valid", MOST)])
    assert result["counts"] == {"traces": 600, "spans": len(meant)} and len(behind.asked) > 1
    for span in (*received.values(), *meant.values()):
        span["resource"].pop("seatrial.status")
    assert received == meant


def test_a_collector_whose_next_hop_is_down_is_asked_again(run: Path, tmp_path: Path) -> None:
    answers = [reply(200, {}), reply(503, b"", Retry_After="1")]
    with (
        ScriptedServer(lambda _asked: answers.pop()) as behind,
        servers.otel_collector(tmp_path, f"http://127.0.0.1:{behind.port}") as address,
    ):
        result = export(run, address, most=3)
    assert [asked.body for asked in behind.asked] == [behind.asked[0].body] * 2 and result["counts"]["traces"] == 3


def test_another_path_of_a_collector_is_one_error_with_its_remedy(run: Path, tmp_path: Path) -> None:
    with (
        servers.otel_collector(tmp_path, "http://127.0.0.1:9") as address,
        pytest.raises(AccessError, match="404 Not Found.*is this the address of an OTLP/HTTP receiver"),
    ):
        export(run, f"{address}/other")
