"""The judged figures of points that are repeated until decided."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import judge_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.judge_run import JudgingRules
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.kpi_limits import KpiLimit
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import (
    Point,
    Run,
    run_with_counted_attempts,
)

MOST = KpiLimit("latency", None, 2.0, "max 2 s", "s")
REPEATED = [{"type": "session", "repeat": {"max": 10}}]


def kpi(value, name="latency", unit="s"):
    whole = {"name": name, "title": "", "unit": unit, "direction": "lower", "help": "", "simulated": False}
    return {**whole, "value": value, "interval": None, "confidence": None, "n": 1, "of": 1, "headline": True}


def run_of(tmp_path, *attempts, schedule=REPEATED):
    """Return a run with points 001, 001-2, …: their latency, None for one that failed."""
    points = []
    for number, value in enumerate(attempts, start=1):
        name = "001" if number == 1 else f"001-{number}"
        status = {"status": "failed" if value is None else "passed"}
        points.append(Point(name, tmp_path, status, None if value is None else [kpi(value)]))
    record = {"id": "t1121-abcdef", "points": ["001"], "phases": {}}
    return Run(tmp_path, record, points=points, schedule=schedule)


def judged(run, limits=(MOST,)):
    rules = JudgingRules(limits={point.number: list(limits) for point in run.points})
    document = judge_run.judge_whole_run(run, {point.number: None for point in run.points}, rules)
    files.validate_schema_if_enabled("verdict/2", document)
    return document["kpis"]


def test_all_attempts_at_a_point_are_one_figure(tmp_path):
    (found,) = judged(run_of(tmp_path, 1.0, 1.1, 0.9, 1.02))
    assert (found["point"], found["limit"]["result"], found["limit"]["max"]) == ("001", "within", 2.0)
    assert found["method"] == "mean of the attempts, at every look"
    assert found["p_corrected"] <= 0.01
    assert found["low"] < found["value"] < found["high"] < 2.0
    assert [(one["run"], one["group"]) for one in found["series"]] == [
        ("001", "new"),
        ("001-2", "new"),
        ("001-3", "new"),
        ("001-4", "new"),
    ]


def test_without_repeat_each_attempt_is_judged_alone(tmp_path):
    found = judged(run_of(tmp_path, 1.0, 3.0, schedule=[{"type": "session"}]))
    assert {one["limit"]["result"] for one in found} <= {"within", "outside"}
    assert all("method" not in one for one in found)


def test_failed_attempts_do_not_count(tmp_path):
    (found,) = [one for one in judged(run_of(tmp_path, 1.0, None)) if one["point"] == "001"]
    assert found["why"].startswith("One attempt does not show")
    assert found["limit"]["result"] == "across"


def test_a_failed_attempt_counts_until_the_point_is_measured_again(tmp_path):
    failed = run_of(tmp_path, 1.0, 1.1, None)
    assert [one.number for one in run_with_counted_attempts(failed).points] == ["001", "001-2", "001-3"]
    again = run_of(tmp_path, 1.0, 1.1, None, 1.2)
    assert [one.number for one in run_with_counted_attempts(again).points] == ["001", "001-2", "001-4"]


def test_a_limit_without_a_figure_is_named_once_per_point(tmp_path):
    found = judged(run_of(tmp_path, 1.0, 1.1), [KpiLimit("makespan", None, 1.0, "max 1 s", "s")])
    assert [(one["point"], one["limit"]["result"]) for one in found if one["name"] == "makespan"] == [
        ("001", "not measured")
    ]
