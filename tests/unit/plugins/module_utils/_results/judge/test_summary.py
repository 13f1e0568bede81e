"""The summary of a run as Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import overall_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import (
    rewrite_junit_summary_and_answer,
    write_verdict,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Run
from hypothesis import given
from hypothesis import strategies as st
from run_directory import World, write_run

RECORD = {"id": "t1121-abcdef", "project": "fine_tuning", "presets": ["light"]}


def kpi(name, reading="pass", **more):
    return {
        "point": "000",
        "name": name,
        "title": name.title(),
        "unit": "s",
        "value": 11.2,
        "simulated": False,
        "reading": reading,
        "why": f"{name} is 12 % slower.",
        **more,
    }


def verdict(*kpis, result="regression", **more):
    return {
        "verdict": result,
        "checks": [],
        "kpis": list(kpis),
        "answer": ["95 % ran within 2 s"],
        "warnings": [],
        **more,
    }


def test_a_regression_shows_the_gravest_figures_first_and_why(tmp_path):
    slow = kpi("makespan", "regression", old={"n": 18, "value": 10.0}, change=0.12, change_low=0.08, change_high=0.16)
    history = {"sources": ["x"], "found": 31, "used": 18, "left_out": [{"why": "simulated", "runs": ["a", "b"]}]}
    text = overall_verdict.render_summary_markdown(
        Run(tmp_path, RECORD), verdict(kpi("fine"), slow, warnings=["The machine was busy."], history=history)
    )
    assert text.splitlines()[0] == "# regression: fine\\_tuning light"
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert rows == [
        "| figure | value | before | change | reading |",
        "| Makespan | 11.2 s | 10 s | +12 % (8 to 16 %) | regression |",
        "| Fine | 11.2 s | – | – | pass |",
    ]
    assert "- makespan (point 000): makespan is 12 % slower." in text
    assert "Warning: The machine was busy." in text
    assert "18 of 31 runs comparable; left out: 2 simulated." in text


def test_five_figures_are_shown_and_points_named_if_there_are_several(tmp_path):
    figures = [kpi(f"k{place}", point=f"{place:03d}", simulated=True) for place in range(8)]
    text = overall_verdict.render_summary_markdown(Run(tmp_path, RECORD), verdict(*figures, result="pass"))
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 6 and rows[1].startswith("| 000 | K0 (simulated) |")


def test_the_point_is_named_if_the_five_figures_are_all_of_one_of_several(tmp_path):
    figures = [kpi(f"k{place}", point=point) for point in ("001", "002") for place in range(6)]
    text = overall_verdict.render_summary_markdown(Run(tmp_path, RECORD), verdict(*figures, result="pass"))
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert rows[0].startswith("| point | figure |") and all(row.startswith("| 001 | K") for row in rows[1:])


def test_a_limit_is_named_with_the_reading(tmp_path):
    one = kpi("makespan", "not judged", limit={"text": "…", "result": "outside"})
    assert "| outside limit |" in overall_verdict.render_summary_markdown(Run(tmp_path, RECORD), verdict(one))


def test_without_a_verdict_the_first_failure_is_the_reason(tmp_path):
    run = Run(tmp_path, RECORD, failures="Acquire: no room\nsecond")
    text = overall_verdict.render_summary_markdown(run, {})
    assert text.startswith("# no verdict: ") and "- Acquire: no room\n" in text and "second" not in text


@given(st.text(max_size=60))
def test_no_words_break_the_table_or_become_markup(words):
    text = overall_verdict.render_summary_markdown(
        Run(Path("/x"), RECORD), verdict(kpi("a", title=words), answer=[words])
    )
    (_head, _line, row) = [line for line in text.split("\n") if line.startswith("|")]
    assert row.replace("\\\\", "").replace("\\|", "").count("|") == 6
    assert "<" not in text.replace("\\\\", "").replace("\\<", "")


def test_both_files_lie_in_the_run_directory_and_are_written_again_when_the_run_ends(tmp_path, definitions):
    top = write_run(tmp_path / "run", [(World(count=4), {})])
    write_timeline(str(top))
    write_kpis(str(top), [definitions])
    found = write_verdict(str(top), 0.5, [definitions], {"makespan": {"max": "1 ms"}})
    assert (found["verdict"], found["exit_status"]) == ("regression", 1)
    assert (top / "summary.md").read_text().startswith("# regression: ")
    before = (top / "junit.xml").read_text()
    assert 'failures="1" errors="0"' in before
    record = files.read_yaml(top / "run.yml")
    late = {
        "status": "failed",
        "started": "2026-11-21T05:00:00.000Z",
        "ended": None,
        "seconds": 1,
        "error": "left over",
    }
    files.write_yaml(top / "run.yml", {**record, "phases": {**record["phases"], "cleanup": late}})
    rewrite_junit_summary_and_answer(top)
    assert "left over" in (top / "junit.xml").read_text() and before != (top / "junit.xml").read_text()


@pytest.mark.parametrize(
    ("change", "text"),
    [(None, "–"), (0.0, "0 %"), (-0.05, "-5 %"), (0.0123, "+1.2 %"), (0.123, "+12 %"), (20.0, "over 1,000 %")],
)
def test_a_change_is_a_percentage(change, text):
    assert overall_verdict.kpi_change_text({"change": change}) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([4.0], "+10 %"),
        ([4.0, 4.2], "+10 %, mean of 2 runs"),
        ([4.0, None, None], "+10 %, mean of 3 runs, 2 of them bounds"),
        ([None, None], "+10 %, mean of the bounds of 2 runs"),
    ],
)
def test_a_change_of_bounds_is_not_called_one_of_values(values: list[float | None], text: str) -> None:
    series = [{"group": "old", "run": "a", "value": None, "low": 3.0, "high": None}]
    series += [{"group": "new", "run": "b", "value": value, "low": 3.0, "high": None} for value in values]
    kpi = {"change": 0.1, "new": {"n": len(values), "value": 4.0}, "series": series}
    assert overall_verdict.kpi_change_text(kpi) == text
