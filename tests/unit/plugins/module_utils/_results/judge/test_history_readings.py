"""The verdict of a run that is compared with its history, from the files of the runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import overall_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.collect_history import HistoryRequest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.comparable_points import LabelRules
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.judge_run import JudgingRules
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import close_session
from history_copies import write_copies
from history_series import noisy
from run_directory import World, write_run

FASTER, SAME, SLOWER = 1.0 / 1.3, 1.0, 1.3
JUDGED = JudgingRules(judged=["time_to_running_p95"])


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of which everything but the verdict is computed."""
    definitions = Path(__file__).parents[6] / "roles/results/files/kpis/workload.yml"
    top = write_run(tmp_path_factory.mktemp("measured") / "run", [(World(count=4), {})])
    write_timeline(str(top))
    write_kpis(str(top), [str(definitions)])
    write_verdict(str(top), 0.5)
    return top


@pytest.fixture
def top(measured: Path, tmp_path: Path) -> Path:
    return shutil.copytree(measured, tmp_path / "run")


def around(mean: float, count: int, seed: int = 1) -> list[float]:
    return noisy(seed, mean, count)


def judged(top: Path, history: Path, rules: JudgingRules = JUDGED, **labels: Any) -> dict[str, Any]:
    """Judge the run; return its verdict."""
    write_verdict(str(top), 0.5, rules=rules, past=HistoryRequest((str(history),), rules=LabelRules(**labels)))
    return files.read_json(top / "verdict.json")


def figure(verdict: dict[str, Any], name: str = "time_to_running_p95") -> dict[str, Any]:
    (found,) = [one for one in verdict["kpis"] if one["name"] == name]
    return found


def groups(top: Path, history: Path, old: float) -> None:
    """Write 18 runs of another version, whose figures are ``old`` times those of ``top``, and 5 like it."""
    write_copies(top, history, around(old, 18), labels={"openshift": "4.19.3"})
    write_copies(top, history, around(1.0, 5, seed=2), since=30)


@pytest.mark.parametrize(
    ("old", "expected", "status", "words"),
    [
        (FASTER, "regression", 1, "% slower than 18 runs of 4.19.3 ("),
        (SLOWER, "improvement", 0, "% faster than 18 runs of 4.19.3 ("),
    ],
)
def test_a_change_between_versions_is_the_verdict_and_every_file_says_it(
    top: Path, tmp_path: Path, old: float, expected: str, status: int, words: str
) -> None:
    groups(top, tmp_path / "history", old)
    verdict = judged(top, tmp_path / "history", compare_on=("ran.openshift",))
    assert (verdict["verdict"], verdict["exit_status"]) == (expected, status)
    assert (verdict["baseline"], verdict["history"]["used"]) == ("18 runs of 4.19.3", 23)
    found = figure(verdict)
    assert found["reading"] == expected and words in found["why"]
    assert (found["old"]["n"], found["new"]["n"]) == (18, 6)
    assert found["p_corrected"] <= 0.01 and found["change_low"] <= found["change"] <= found["change_high"]
    assert found["band"][0] < found["old"]["value"] < found["band"][1]
    assert f"# {expected}" in (top / "summary.md").read_text() and words in (top / "summary.md").read_text()
    junit = ElementTree.parse(top / "junit.xml").getroot()
    failures = [one.get("message", "") for one in junit.iter("failure")]
    assert any(words in one for one in failures) == (expected == "regression")
    record = {**files.read_yaml(top / "run.yml"), "held": [], "split": {"total": 1.0, "ansible": 1.0}}
    terminal = "\n".join(close_session.summary_lines(record, top, verdict))
    assert f"verdict   {expected.upper()} (against 18 runs of 4.19.3)" in terminal
    assert words in terminal and "history   23 of 23 runs comparable" in terminal


def test_one_new_run_beside_many_is_inconclusive_and_says_how_many_more_would_decide(top: Path, tmp_path: Path) -> None:
    write_copies(top, tmp_path / "history", around(SAME, 12))
    verdict = judged(top, tmp_path / "history")
    assert (verdict["verdict"], verdict["exit_status"]) == ("inconclusive", 2)
    found = figure(verdict)
    assert found["further_runs"] > 0
    assert f"about {found['further_runs']} more runs would find 5 %" in found["why"]


def test_a_difference_that_the_interval_excludes_passes_and_is_stated(top: Path, tmp_path: Path) -> None:
    write_copies(top, tmp_path / "history", [1.0 + 0.001 * (number % 3) for number in range(9)])
    verdict = judged(top, tmp_path / "history")
    assert (verdict["verdict"], verdict["baseline"]) == ("pass", "9 runs")
    (line,) = overall_verdict.explain_verdict(verdict)
    assert "than 9 runs (" in line and line in (top / "summary.md").read_text().replace("\\", "")


@pytest.mark.parametrize(("past", "words"), [(0, "no comparable past run"), (1, "1 comparable past run")])
def test_too_few_past_runs_are_no_baseline_and_pass(top: Path, tmp_path: Path, past: int, words: str) -> None:
    (tmp_path / "history").mkdir()
    write_copies(top, tmp_path / "history", [SLOWER] * past)
    verdict = judged(top, tmp_path / "history")
    assert (verdict["verdict"], verdict["baseline"], verdict["history"]["used"]) == ("pass", None, past)
    assert figure(verdict)["reading"] == "not enough history"
    assert f"Not enough history: {words}. {past} of {past} " in (top / "summary.md").read_text()


def test_runs_that_are_not_comparable_are_counted_by_reason(top: Path, tmp_path: Path) -> None:
    write_copies(top, tmp_path / "history", around(SAME, 4))
    write_copies(top, tmp_path / "history", [SAME] * 3, labels={"kubernetes": "v0"}, since=30)
    write_copies(top, tmp_path / "history", [SAME] * 2, labels={"simulated": False}, since=20)
    verdict = judged(top, tmp_path / "history")
    assert overall_verdict.summarize_history_use(verdict["history"]) == (
        "4 of 9 runs comparable; left out: 3 other ran.kubernetes, 2 not simulated"
    )


def changed(tops: list[Path], **changes: Any) -> None:
    """Change the judged figure of past runs; ``name`` None removes it."""
    for past in tops:
        for path in past.glob("points/*/kpis.json"):
            document = files.read_json(path)
            kept = [one for one in document["kpis"] if one["name"] != "time_to_running_p95" or changes.get("name", 1)]
            for one in kept:
                one.update(changes if one["name"] == "time_to_running_p95" else {})
            files.write_json(path, {**document, "kpis": kept}, "kpis/2")


BOUND = {"value": None, "at_least": 100.0, "interval": None, "confidence": None}


def test_new_runs_of_which_only_a_bound_is_known_are_no_pass(top: Path, tmp_path: Path) -> None:
    write_copies(top, tmp_path / "history", around(SAME, 12), labels={"openshift": "4.19.3"})
    changed(write_copies(top, tmp_path / "history", [SAME] * 4, since=30), **BOUND)
    verdict = judged(top, tmp_path / "history", compare_on=("ran.openshift",))
    assert verdict["verdict"] in ("regression", "inconclusive")
    assert figure(verdict)["new"]["n"] == 5
    assert "of 4 of 5 new runs only a lower bound is known" in figure(verdict)["why"]


def test_past_runs_of_which_only_a_bound_is_known_are_compared(top: Path, tmp_path: Path) -> None:
    changed(write_copies(top, tmp_path / "history", around(SAME, 12)), **BOUND)
    verdict = judged(top, tmp_path / "history")
    assert (verdict["baseline"], figure(verdict)["old"]["n"]) == ("12 runs", 12)
    assert verdict["verdict"] != "regression"
    assert "of 12 of 12 past runs only a lower bound is known" in figure(verdict)["why"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"unit": "ms"}, "with time_to_running_p95 in ms instead of s"),
        ({"name": None}, "without time_to_running_p95"),
        ({"value": None, "interval": None, "confidence": None}, "in which time_to_running_p95 has no usable value"),
        ({"value": 1e308}, "in which time_to_running_p95 has no usable value"),
    ],
)
def test_runs_that_are_not_compared_are_said_in_the_first_sentence(
    top: Path, tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    tops = write_copies(top, tmp_path / "history", around(SAME, 10))
    changed(tops, **changes)
    verdict = judged(top, tmp_path / "history")
    assert (verdict["baseline"], figure(verdict)["reading"]) == (None, "not enough history")
    assert overall_verdict.sentence_on_history(verdict).startswith(
        f"Not enough history; compared with 0 of 10 runs: 10 {why}. 10 of 10"
    )
    for past in tops[:4]:
        shutil.rmtree(past)
    write_copies(top, tmp_path / "history", around(SAME, 4))
    verdict = judged(top, tmp_path / "history")
    assert overall_verdict.comparison_basis_text(verdict) == (
        f"against 4 runs; time_to_running_p95 compared with 4 of 10 runs: 6 {why}"
    )


def test_a_limit_that_is_exceeded_and_a_slower_history_are_both_said(top: Path, tmp_path: Path) -> None:
    groups(top, tmp_path / "history", FASTER)
    definitions = str(Path(__file__).parents[6] / "roles/results/files/kpis/workload.yml")
    limits = {"time_to_running_p95": {"max": "1 ms"}}
    past = HistoryRequest((str(tmp_path / "history"),), rules=LabelRules(("ran.openshift",)))
    write_verdict(str(top), 0.5, [definitions], limits, JUDGED, past)
    why = figure(json.loads((top / "verdict.json").read_text()))["why"]
    assert "is outside the limit, max 1 ms. " in why and "% slower than 18 runs of 4.19.3" in why


def test_of_several_attempts_the_last_that_passed_is_judged_alone(top: Path, tmp_path: Path) -> None:
    groups(top, tmp_path / "history", FASTER)
    for number, status in ((2, "passed"), (3, "failed")):
        further = shutil.copytree(top / "points" / "000", top / "points" / f"000-{number}")
        record = {**files.read_yaml(further / "point.yml"), "point": further.name, "attempt": number, "status": status}
        files.write_yaml(further / "point.yml", record, "point/2")
    verdict = judged(top, tmp_path / "history", compare_on=("ran.openshift",))
    (one,) = (one for one in verdict["kpis"] if one["name"] == "time_to_running_p95")
    assert (one["point"], one["reading"], one["new"]["n"]) == ("000-2", "regression", 6)
    assert {check["point"] for check in verdict["checks"]} == {None, "000-2"}
    assert "point 000-2" in (top / "junit.xml").read_text()
    assert "point 000-3" not in (top / "junit.xml").read_text()


def test_a_history_that_cannot_be_read_is_a_warning(top: Path, tmp_path: Path) -> None:
    verdict = judged(top, tmp_path / "absent")
    assert verdict["verdict"] == "pass"
    assert any("history could not be read" in one for one in verdict["warnings"])


@pytest.mark.parametrize(("repeat", "n"), [({"max": 3}, 6), ({}, 0)])
def test_a_repetition_reads_its_history_once_a_session(
    top: Path, tmp_path: Path, repeat: dict[str, Any], n: int
) -> None:
    write_copies(top, tmp_path / "history", around(1.0, 6))
    session = {"type": "session", "schema": "schedule/1", "run": "r", "at": "2026-11-21T00:00:00Z", "repeat": repeat}
    (top / "schedule.jsonl").write_text(json.dumps(session) + "\n")
    assert figure(judged(top, tmp_path / "history"))["old"]["n"] == 6
    shutil.rmtree(tmp_path / "history")
    assert figure(judged(top, tmp_path / "history"))["old"]["n"] == n


def test_a_point_that_was_interrupted_is_not_compared(top: Path, tmp_path: Path) -> None:
    write_copies(top, tmp_path / "history", around(FASTER, 18))
    path = top / "points" / "000" / "point.yml"
    files.write_yaml(path, {**files.read_yaml(path), "resumed": True})
    verdict = judged(top, tmp_path / "history")
    assert verdict["verdict"] == "inconclusive"
    assert figure(verdict)["why"] == "inconclusive: point 000 was interrupted while it was measured"
    assert [one for one in verdict["warnings"] if one.endswith("-e redo=000 measures it again.")]


def test_a_past_point_that_was_interrupted_is_no_past_value(top: Path, tmp_path: Path) -> None:
    write_copies(top, tmp_path / "history", around(SAME, 6))
    write_copies(top, tmp_path / "cut", around(60.0, 6, seed=2), since=30)
    for path in (tmp_path / "cut").glob("*/points/*/point.yml"):
        files.write_yaml(path, {**files.read_yaml(path), "resumed": True})
    for folder in (tmp_path / "cut").iterdir():
        folder.rename(tmp_path / "history" / folder.name)
    assert figure(judged(top, tmp_path / "history"))["old"]["n"] == 6


def test_of_a_repetition_the_attempt_that_was_interrupted_is_left_out(top: Path, tmp_path: Path) -> None:
    write_copies(top, tmp_path / "history", around(SAME, 6))
    further = shutil.copytree(top / "points" / "000", top / "points" / "000-2")
    record = {**files.read_yaml(further / "point.yml"), "point": "000-2", "attempt": 2, "resumed": True}
    files.write_yaml(further / "point.yml", record, "point/2")
    session = {
        "type": "session",
        "schema": "schedule/1",
        "run": "r",
        "at": "2026-11-21T00:00:00Z",
        "repeat": {"max": 3},
    }
    (top / "schedule.jsonl").write_text(json.dumps(session) + "\n")
    found = figure(judged(top, tmp_path / "history"))
    assert (found["new"]["n"], [one["group"] for one in found["series"]].count("new")) == (1, 1)
