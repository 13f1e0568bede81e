# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a dump leaves out: whatever a server sends that is no sample, and what would take too long."""

from __future__ import annotations

import gzip
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.metrics import (
    capture_prometheus_metrics,
    metrics_dump,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.metrics.capture_prometheus_metrics import (
    PrometheusServer,
)
from scripted_server import Asked, ScriptedServer

NAMES = {"status": "success", "data": ["a_total"]}


def dump(folder: Path, answer: Any, seconds: float = 300.0) -> tuple[dict[str, Any], str, int]:
    """Return the result of a dump from a server that answers queries so, its text, and the number of requests."""
    (folder / "points" / "001").mkdir(parents=True)
    files.write_yaml(folder / "run.yml", {"id": "r"})
    point = {"status": "passed", "started": "2026-01-01T00:00:00Z", "ended": "2026-01-01T00:10:00Z"}
    files.write_yaml(folder / "points" / "001" / "point.yml", point)

    def answer_request(asked: Asked) -> Any:
        return (200, NAMES) if asked.method == "GET" else answer(asked)

    with ScriptedServer(answer_request) as server:
        made = PrometheusServer(f"http://127.0.0.1:{server.port}")
        result = metrics_dump.write_metrics_dump(str(folder), made, 1 << 20, seconds, lambda _line: None)
    return result, gzip.decompress((folder / metrics_dump.FILE).read_bytes()).decode(), len(server.asked)


def series(value: Any, **labels: str) -> dict[str, Any]:
    return {"status": "success", "data": {"result": [{"metric": labels, "values": [[1767225600, value]]}]}}


@pytest.mark.parametrize("value", ["1", "0.25", "1e-07", "+Inf", "-Inf", "NaN"])
def test_a_sample_is_a_line(tmp_path: Path, value: str) -> None:
    result, text, _requests = dump(tmp_path, lambda _asked: (200, series(value, pod="x\ny")))
    assert (result["left_out"], text) == ([], f'a_total{{pod="x\\ny"}} {value} 1767225600.000\n# EOF\n')


@pytest.mark.parametrize("value", ["1 1767225600.000\nb_total 7", "1_0", " 1", "1\n", "", 1, None])
def test_a_value_that_is_no_number_adds_no_line(tmp_path: Path, value: Any) -> None:
    result, text, _requests = dump(tmp_path, lambda _asked: (200, series(value)))
    assert text == "# EOF\n"
    assert "which is no number" in result["left_out"][0]["why"]


def test_a_label_with_another_name_adds_no_line(tmp_path: Path) -> None:
    result, text, _requests = dump(tmp_path, lambda _asked: (200, series("1", **{'x="1"} 2\nb_total{y': "1"})))
    assert (text, result["left_out"][0]["why"]) == ("# EOF\n", "the name of a label needs quotes")


def test_the_time_limit_ends_the_division_of_the_time(tmp_path: Path) -> None:
    def refuse_slowly(_asked: Asked) -> Any:
        time.sleep(0.2)
        return 422, {"status": "error", "error": "too many samples"}

    result, _text, requests = dump(tmp_path, refuse_slowly, seconds=0.5)
    assert "the time limit" in result["left_out"][0]["why"]
    assert requests < 10, "a division down to the least time needs hundreds of requests"


@pytest.mark.parametrize("told", [["2 of 3 stores did not answer"], [], "no list", None])
def test_what_a_server_says_against_its_answer_is_a_warning(tmp_path: Path, told: Any) -> None:
    wanted = told if isinstance(told, list) else []
    result, _text, _requests = dump(tmp_path / "dump", lambda _asked: (200, {**series("1"), "warnings": told}))
    assert result["warnings"] == [f"the dump may be incomplete, the server says: {text}" for text in wanted]
    query = {"name": "ups", "query": "sum(up)", "unit": ""}
    files.write_yaml(tmp_path / "queries.yml", [query])
    matrix = {"resultType": "matrix", "result": [{"metric": {}, "values": [[1767225600, "2"]]}]}
    with ScriptedServer(lambda _asked: (200, {"status": "success", "warnings": told, "data": matrix})) as server:
        made = PrometheusServer(f"http://127.0.0.1:{server.port}")
        result = capture_prometheus_metrics.capture_metrics_of_points(
            str(tmp_path / "dump"), made, [str(tmp_path / "queries.yml")]
        )
    assert result["points"][0]["series"] == 1
    said = "metric ups: its values may be wrong, the server says"
    assert result["warnings"] == [f"{said}: {text}" for text in wanted]
