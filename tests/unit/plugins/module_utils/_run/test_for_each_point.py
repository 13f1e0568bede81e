"""Points of a run directory, one after the other: those without data, and those that are damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from run_directory import World, write_run

KPIS = [str(Path(__file__).parents[5] / "roles/results/files/kpis/workload.yml")]
FOUND = {"schema": "bisection/1", "verdict": "pass", "why": "The step is between 1 and 3.", "measurements": []}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Return a run directory of two points, of which the second was not begun."""
    top = write_run(tmp_path / "run", [(World(count=3, canary=5.0), {}), (World(count=3, canary=5.0), {})])
    folder = top / "points" / "001"
    for path in folder.iterdir():
        if path.name != "point.yml":
            path.unlink()
    record = files.read_yaml(folder / "point.yml")
    (folder / "point.yml").write_text(yaml.safe_dump(record | {"status": "planned"}), encoding="utf-8")
    return top


def test_a_point_that_was_not_begun_gets_no_figures(top: Path) -> None:
    for made in (write_timeline(str(top)), write_kpis(str(top), KPIS)):
        assert [one["point"] for one in made["points"]] == ["000"]
        assert made["warnings"] == []
    assert [one.name for one in (top / "points" / "001").iterdir()] == ["point.yml"]


def test_a_bisection_needs_no_figures_of_values_that_it_did_not_measure(top: Path) -> None:
    files.write_json(top / "bisection.json", FOUND)
    write_timeline(str(top))
    write_kpis(str(top), KPIS)
    write_verdict(str(top), 0.1)
    verdict = files.read_json(top / "verdict.json")
    assert verdict["verdict"] == "pass", verdict["checks"]
    assert {one.get("point") for one in verdict["checks"]} == {None, "000"}


def test_a_point_that_should_have_been_measured_is_named_once(top: Path) -> None:
    write_timeline(str(top))
    write_kpis(str(top), KPIS)
    write_verdict(str(top), 0.1)
    verdict = files.read_json(top / "verdict.json")
    assert verdict["verdict"] == "invalid"
    assert [one["detail"] for one in verdict["checks"] if one.get("point") == "001"] == [
        "Test point 001 was not started."
    ]
