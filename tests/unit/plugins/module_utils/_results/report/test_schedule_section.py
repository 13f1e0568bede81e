"""The sections of a report on repeated points and on a bisection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report import verdict_plots, write_report
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run

TEXT = "The mean of 3 attempts is 1.00 s (900 ms to 1.10 s at every look). It is within the limit, max 2 s."
BISECTION = {
    "schema": "bisection/1", "run": "t1122-abcdef", "over": "delay", "kpi": "latency", "values": [0, 1, "two"],
    "measurements": [
        {"index": 0, "point": "001", "figure": 1.0},
        {"index": 2, "point": "003", "figure": 1.5},
        {"index": 0, "point": "001-2", "figure": None},
    ],
    "probabilities": [0.25, 0.75], "verdict": "inconclusive", "code": 2, "exit_status": 2, "why": "Not finished.",
}  # fmt: skip


def kpi(**more: Any) -> dict[str, Any]:
    series = [
        {"run": f"001-{at}", "group": "new", "value": 1.0 + at / 100, "low": None, "high": None} for at in (1, 2, 3)
    ]
    limit = {"text": TEXT, "result": "within", "max": 2.0}
    rest = {"title": "Latency", "unit": "s", "simulated": False, "why": TEXT, "reading": "not enough history"}
    return {"point": "001", "name": "latency", "limit": limit, "series": series, **rest, **more}


def look(attempts: int, low: float | None, high: float | None) -> dict[str, Any]:
    known = {"attempts": attempts, "value": 1.01, "low": low, "high": high, "e_value": 3.0, "text": ""}
    return {"kpi": "latency", "point": "001", "reading": "across", **known}


SCHEDULE = [
    {"type": "session", "at": "2026-11-22T10:00:00Z", "repeat": {"max": 5}},
    {"type": "decided", "at": "2026-11-22T10:00:01Z", "point": "001", "attempt": 1, "why": "First."},
    {"type": "decided", "at": "2026-11-22T10:01:00Z", "point": "001-2", "attempt": 2, "why": "2 are the least.",
     "readings": [look(1, None, None)]},
    {"type": "finished", "at": "2026-11-22T10:03:00Z", "why": "All decided.",
     "readings": [look(2, 0.5, 3.0), look(3, 0.9, 1.1)]},
]  # fmt: skip


def run_of(tmp_path: Path, **more: Any) -> Run:
    point = Point("001", tmp_path, {"status": "passed"}, [{"name": "latency", "unit": "s"}])
    return Run(tmp_path, {"id": "t1122-abcdef"}, points=[point], **more)


def test_each_attempt_is_drawn_with_the_interval_known_after_it(tmp_path: Path) -> None:
    drawn = verdict_plots.repetition_drawing(kpi(), SCHEDULE)
    (axis,) = drawn.figure.axes
    assert sorted(axis.get_legend_handles_labels()[1]) == ["attempt", "mean and interval after it", "upper limit"]
    assert [row[3:6] for row in drawn.rows] == [[1.01, None, None], [1.01, 0.5, 3.0], [1.01, 0.9, 1.1]]
    (found,) = write_report.section_of_repeated_figures(
        run_of(tmp_path, schedule=SCHEDULE), {"kpis": [kpi()]}, tmp_path, []
    )
    assert found["text"] == TEXT
    assert found["plot"].path.stat().st_size > 3000


def test_attempts_without_the_figure_are_an_empty_picture() -> None:
    empty = [{**one, "value": None} for one in kpi()["series"]]
    (axis,) = verdict_plots.repetition_drawing(kpi(series=empty), []).figure.axes
    assert [len(line.get_xdata()) for line in axis.get_lines() if line.get_label() == "attempt"] == [0]


def test_a_run_that_does_not_repeat_has_no_such_section(tmp_path: Path) -> None:
    run = run_of(tmp_path, schedule=[{"type": "session", "at": "2026-11-22T10:00:00Z"}])
    assert write_report.section_of_repeated_figures(run, {"kpis": [kpi()]}, tmp_path, []) == []
    assert write_report.section_of_bisection(run, tmp_path, []) == {}
    assert write_report.schedule_decision_lines(run) == []


def test_decisions_are_listed_with_their_reasons(tmp_path: Path) -> None:
    found = write_report.schedule_decision_lines(run_of(tmp_path, schedule=SCHEDULE))
    assert [(one["point"], one["why"]) for one in found] == [
        ("001", "First."),
        ("001-2", "2 are the least."),
        ("end", "All decided."),
    ]


def test_a_bisection_has_a_table_and_a_plot(tmp_path: Path) -> None:
    files.validate_schema_if_enabled("bisection/1", BISECTION)
    found = write_report.section_of_bisection(run_of(tmp_path, bisection=BISECTION), tmp_path, [])
    assert [list(one.values()) for one in found["rows"]] == [
        ["0", "2", "1 s", "25.0 %"],
        ["1", "0", "–", "75.0 %"],
        ["two", "1", "1.50 s", ""],
    ]
    assert found["plot"].alt.endswith("Not finished.")
    assert found["plot"].path.stat().st_size > 3000


@pytest.mark.parametrize("figures", [[None, None, None], [0.0, 0.0, 0.0], [-1.0, 1e9, 1e-9]])
def test_unusual_figures_are_drawn(figures: list[float | None]) -> None:
    measurements = [{"index": at, "point": f"00{at + 1}", "figure": one} for at, one in enumerate(figures)]
    step = {"index": 0, "before": 0, "after": 1, "probability": 0.9}
    assert verdict_plots.bisection_drawing({**BISECTION, "measurements": measurements, "step": step}, "").figure
