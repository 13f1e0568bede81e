# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""answer.json: figures of points and attempts, and runs that were not judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import (
    answer_document,
    write_verdict,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run
from run_directory import World, write_run

DEFINITIONS = Path(__file__).parents[6] / "roles/results/files/kpis/workload.yml"
RECORD = {"id": "t1126-aaaaaa", "project": "fine_tuning", "presets": ["light"], "status": "passed"}


def kpi(value: float | None, **more: Any) -> dict[str, Any]:
    known: dict[str, Any] = {"name": "makespan", "unit": "s", "direction": "lower", "n": 3, "of": 3, "simulated": False}
    return {**known, "value": value, "headline": True, **more}


def document(*points: Point, verdict: dict[str, Any] | None = None, **record: Any) -> dict[str, Any]:
    run = Run(Path("/runs/one"), record={**RECORD, **record}, points=list(points))
    result = answer_document(run, verdict or {})
    files.validate_schema_if_enabled("answer/1", result)
    return result


def point(number: str, *kpis: dict[str, Any], **settings: Any) -> Point:
    return Point(number, Path(number), {"status": "passed", "settings": settings}, kpis=list(kpis))


def test_the_bounds_of_a_figure_are_named() -> None:
    interval = {"low": 9.0, "high": 11.0, "level": 0.95}
    both = document(
        point("001", kpi(10.0, confidence=interval, interval=[9.9, 10.1]), count=1),
        point("002", kpi(10.0, interval=[9.9, 10.1], simulated=True), count=2),
        point("003", kpi(None, at_least=60.0), count=3),
    )
    figures = [entry["figures"]["makespan"] for entry in both["points"]]
    keys = ("value", "low", "high", "bounds", "at_least")
    assert [tuple(figure[key] for key in keys) for figure in figures] == [
        (10.0, 9.0, 11.0, "confidence", None),
        (10.0, 9.9, 10.1, "measurement", None),
        (None, None, None, None, 60.0),
    ]
    assert [entry["settings"] for entry in both["points"]] == [{"count": 1}, {"count": 2}, {"count": 3}]
    assert both["simulated"] is True


def test_attempts_at_a_point_are_one_mean() -> None:
    one = document(point("001", kpi(10.0)), point("001-2", kpi(40.0)))["points"]
    assert [(entry["point"], entry["attempts"]) for entry in one] == [("001", 2)]
    assert round(one[0]["figures"]["makespan"]["value"], 6) == 20.0


def test_a_run_that_was_not_judged_says_so() -> None:
    result = document(Point("001", Path("001"), {"status": "planned"}), status="failed", held=[{"what": "cluster x"}])
    assert (result["verdict"], result["exit_status"], result["held"]) == (None, None, ["cluster x"])
    assert result["points"][0]["figures"] == {}


def test_readings_and_addresses_are_those_of_the_run() -> None:
    judged = {
        "point": "001",
        "name": "makespan",
        "reading": "regression",
        "why": "slower",
        "limit": {"result": "within"},
    }
    verdict = {"verdict": "regression", "exit_status": 1, "answer": ["It took 10 s"], "kpis": [judged], "checks": []}
    exported = [{"target": "s3", "address": "s3://b/one"}]
    result = document(point("001", kpi(10.0, headline=False)), verdict=verdict, exported=exported)
    figure = result["points"][0]["figures"]["makespan"]
    assert (figure["reading"], figure["limit"], result["links"]) == ("regression", "within", {"s3": "s3://b/one"})
    assert result["reasons"] == ["makespan (point 001): slower"]


def test_an_answer_that_no_point_has_is_told_with_the_nearest(tmp_path: Path) -> None:
    top = write_run(tmp_path / "run", [(World(count=3, run_for=2.0), {})])
    write_timeline(str(top))
    write_kpis(str(top), [str(DEFINITIONS)])
    path = top / "points" / "000" / "settings.yml"
    files.write_yaml(path, {"results_answer": "makespam"})
    assert (
        "results_answer: the run has no KPI 'makespam' (did you mean 'makespan'?)"
        in write_verdict(str(top), 0.1)["warnings"]
    )
    files.write_yaml(path, {"results_answer": "makespan"})
    assert write_verdict(str(top), 0.1)["warnings"] == []
