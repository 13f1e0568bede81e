"""Repetition and bisection in a run directory: what is measured next, what is recorded, and how it goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import judge_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.collect_history import (
    HistoryRequest,
    collect_past_runs,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.judge_run import JudgingRules
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.kpi_limits import KpiLimit
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import point_attempts
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.point_attempts import ScheduleKeywords

RUN = "t1122-abcdef"
BISECT = {"over": "delay", "values": [0, 1, 2, 3, 4, 5], "kpi": "latency", "max": 40}
LIMIT = KpiLimit("latency", None, 2.0, "max 2 s", "s")


@pytest.fixture(autouse=True)
def _validated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEATRIAL_VALIDATE", "1")


def directory(tmp_path: Path, points: int) -> Path:
    """Return a run directory with planned points."""
    top = tmp_path / "run"
    top.mkdir()
    record = {"schema": "run/1", "id": RUN, "started": "2026-11-22T10:00:00Z", "sessions": []}
    (top / "run.yml").write_text(json.dumps(record))

    def settings(path: Path) -> None:
        path.write_text("{}\n")

    names = [f"{number:03d}" for number in range(1, points + 1)]
    point_attempts.write_points(top, [(name, {"delay": at}, "", settings) for at, name in enumerate(names)], settings)
    return top


def begin_session(top: Path, started: str) -> None:
    record = json.loads((top / "run.yml").read_text())
    record["sessions"].append({"started": started})
    (top / "run.yml").write_text(json.dumps(record))


class Clock:
    """Start times of attempts, in order."""

    def __init__(self) -> None:
        self.ticks = 0

    def __call__(self) -> str:
        self.ticks += 1
        return f"2026-11-22T10:{self.ticks // 60:02d}:{self.ticks % 60:02d}Z"


def measure(top: Path, name: str, value: float, clock: Clock, resumed: bool = False) -> None:
    folder = top / "points" / name
    record = {**files.read_yaml(folder / "point.yml"), **({"resumed": True} if resumed else {})}
    files.write_yaml(folder / "point.yml", {**record, "status": "passed", "started": clock()}, "point/2")
    kpi = {"name": "latency", "title": "", "unit": "s", "direction": "lower", "help": "", "simulated": False}
    rest = {"value": value, "interval": None, "confidence": None, "n": 1, "of": 1, "headline": True}
    (folder / "kpis.json").write_text(json.dumps({"schema": "kpis/2", "kpis": [{**kpi, **rest}]}))


def judged(top: Path, repeat: dict[str, object]) -> list[dict[str, object]]:
    run = run_reader.read_run_directory(top)
    run.schedule = run.schedule or [{"type": "session", "repeat": repeat}]
    rules = JudgingRules(limits={point.number: [LIMIT] for point in run.points})
    return judge_run.judge_whole_run(run, {point.number: None for point in run.points}, rules)["kpis"]


def repeat_until_done(top: Path, figures, clock: Clock, stop_after: int = 99) -> list[str]:
    """Repeat; return the names of the attempts. figures: point -> its values, in order."""
    words, made = {"max": 8}, []
    while len(made) < stop_after:
        found = point_attempts.next_attempt_module_result(
            top, False, ScheduleKeywords(repeat=words, kpis=judged(top, words))
        )
        if found["finished"]:
            return made
        name = str(found["point"])
        of, _dash, number = name.partition("-")
        measure(top, name, figures[of][int(number or 1) - 1], clock)
        made.append(name)
    return made


FIGURES = {"001": [1.0, 1.02, 0.99, 1.01, 1.0, 1.0, 1.0, 1.0], "002": [1.9, 2.2, 2.1, 1.8, 2.0, 2.1, 1.9, 2.05]}


def test_points_alternate_until_they_are_decided_or_max_is_reached(tmp_path: Path) -> None:
    top = directory(tmp_path, 2)
    begin_session(top, "2026-11-22T10:00:01Z")
    made = repeat_until_done(top, FIGURES, Clock())
    assert made[:6] == ["001", "002", "001-2", "002-2", "001-3", "002-3"]
    assert sum(one.startswith("001") for one in made) < 8, "a point far below its limit is decided before max"
    assert sum(one.startswith("002") for one in made) == 8
    lines = [json.loads(line) for line in (top / "schedule.jsonl").read_text().splitlines()]
    assert lines[0]["repeat"] == {"max": 8}
    assert lines[-1]["why"] == "8 attempts at each undecided point were made; not decided: point 002."
    last = {one["point"]: one for one in lines[-1]["readings"]}
    assert (last["001"]["reading"], last["002"]["reading"], last["002"]["attempts"]) == ("within", "across", 8)
    assert last["001"]["e_value"] >= 100
    assert last["001"]["low"] < 1.0 < last["001"]["high"] < 2.0


def test_without_a_readable_history_a_repetition_ends_undecided(tmp_path: Path) -> None:
    top, clock, words = directory(tmp_path, 1), Clock(), {"max": 8}
    begin_session(top, "2026-11-22T10:00:01Z")
    for name in ("001", "001-2"):
        assert point_attempts.next_attempt_module_result(top, False, ScheduleKeywords(repeat=words))["point"] == name
        measure(top, name, 1.0, clock)
    run = run_reader.read_run_directory(top)
    past = HistoryRequest((str(tmp_path / "nowhere"),))
    verdict = judge_run.judge_whole_run(
        run,
        {one.number: None for one in run.points},
        JudgingRules(judged=["all"]),
        history=collect_past_runs(run, past),
    )
    found = point_attempts.next_attempt_module_result(top, False, ScheduleKeywords(repeat=words, kpis=verdict["kpis"]))
    assert found["finished"]
    reason = f"folder {tmp_path / 'nowhere'} cannot be read: No such file or directory"
    kpi = verdict["kpis"][0]
    assert kpi["reading"] == "inconclusive"
    assert kpi["why"] == f"not enough history: no past run with this figure; history could not be read: {reason}"
    assert found["why"].startswith(f"No further attempt can decide {kpi['name']}") and reason in found["why"]


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_repetition_goes_on_as_if_it_had_not_been_interrupted(tmp_path: Path, cut: int) -> None:
    whole, again = directory(tmp_path, 2), tmp_path / "again"
    again.mkdir()
    begin_session(whole, "2026-11-22T10:00:01Z")
    made = repeat_until_done(whole, FIGURES, Clock())
    top, clock = directory(again, 2), Clock()
    begin_session(top, "2026-11-22T10:00:01Z")
    first = repeat_until_done(top, FIGURES, clock, stop_after=cut)
    path = top / "schedule.jsonl"
    path.write_bytes(path.read_bytes()[: -7 * cut])  # a kill tears the last lines
    begin_session(top, "2026-11-22T12:00:00Z")
    assert first + repeat_until_done(top, FIGURES, clock) == made


def test_an_attempt_that_was_resumed_is_measured_again_and_decides_nothing(tmp_path: Path) -> None:
    top, clock, words = directory(tmp_path, 1), Clock(), {"max": 8}
    begin_session(top, "2026-11-22T10:00:01Z")
    assert point_attempts.next_attempt_module_result(top, False, ScheduleKeywords(repeat=words))["point"] == "001"
    measure(top, "001", 60.0, clock, resumed=True)
    made = repeat_until_done(top, {"001": [60.0, *FIGURES["001"]]}, clock)
    assert made[0] == "001-2" and 3 <= len(made) < 7
    (found,) = judged(top, words)
    assert found["limit"]["result"] == "within" and found["value"] < 1.1


def test_a_bisection_leaves_out_an_attempt_that_was_resumed(tmp_path: Path) -> None:
    top, clock = directory(tmp_path, 6), Clock()
    begin_session(top, "2026-11-22T10:00:01Z")
    assert point_attempts.next_attempt_module_result(top, False, ScheduleKeywords(bisect=BISECT))["point"] == "001"
    measure(top, "001", 60.0, clock, resumed=True)
    made = bisect_until_done(top, stepped, clock)
    assert made[0] == "001-2"
    found = files.read_json(top / "bisection.json")
    assert (found["verdict"], found["step"]["before"], found["step"]["after"]) == ("pass", 2, 3)
    assert [one["point"] for one in found["measurements"]] == made


def bisect_until_done(top: Path, figure, clock: Clock, stop_after: int = 99) -> list[str]:
    made: list[str] = []
    while len(made) < stop_after:
        found = point_attempts.next_attempt_module_result(top, False, ScheduleKeywords(bisect=BISECT))
        if found["finished"]:
            return made
        name = str(found["point"])
        value = figure(name)
        if value is None:
            record = files.read_yaml(top / "points" / name / "point.yml")
            failed = {"status": "failed", "started": clock(), "error": f"point {name}: it can't be built"}
            files.write_yaml(top / "points" / name / "point.yml", {**record, **failed}, "point/2")
        else:
            measure(top, name, value, clock)
        made.append(name)
    return made


def stepped(name: str) -> float:
    """A step between values 2 and 3, with a noise that depends on the attempt."""
    of, _dash, number = name.partition("-")
    return (1.0 if int(of) <= 3 else 1.5) * (1 + 0.03 * ((int(number or 1) * 7 + int(of)) % 5 - 2))


def test_a_bisection_names_the_step_and_leaves_values_out(tmp_path: Path) -> None:
    top = directory(tmp_path, 6)
    begin_session(top, "2026-11-22T10:00:01Z")
    made = bisect_until_done(top, stepped, Clock())
    assert made[:4] == ["001", "006", "001-2", "006-2"]
    found = files.read_json(top / "bisection.json")
    files.validate_schema_if_enabled("bisection/1", found)
    assert (found["verdict"], found["step"]["before"], found["step"]["after"]) == ("pass", 2, 3)
    assert found["step"]["probability"] >= 0.95
    assert [one["point"] for one in found["measurements"]] == made
    assert len(made) < 20
    run = run_reader.read_run_directory(top)
    verdict = judge_run.judge_whole_run(run, {point.number: None for point in run.points}, JudgingRules())
    assert next(one["result"] for one in verdict["checks"] if one["check"] == "bisection") == "pass"
    assert not any(one["check"] == "points" and one["result"] != "pass" for one in verdict["checks"])


@pytest.mark.parametrize("cut", [1, 3, 5, 8])
def test_a_bisection_goes_on_as_if_it_had_not_been_interrupted(tmp_path: Path, cut: int) -> None:
    whole, again = directory(tmp_path, 6), tmp_path / "again"
    again.mkdir()
    begin_session(whole, "2026-11-22T10:00:01Z")
    made = bisect_until_done(whole, stepped, Clock())
    top, clock = directory(again, 6), Clock()
    begin_session(top, "2026-11-22T10:00:01Z")
    first = bisect_until_done(top, stepped, clock, stop_after=cut)
    path = top / "schedule.jsonl"
    path.write_bytes(path.read_bytes()[: -11 * cut])
    begin_session(top, "2026-11-22T12:00:00Z")
    assert first + bisect_until_done(top, stepped, clock) == made


def test_a_value_that_fails_is_left_out_and_does_not_fail_the_run(tmp_path: Path) -> None:
    top = directory(tmp_path, 6)
    begin_session(top, "2026-11-22T10:00:01Z")
    made = bisect_until_done(top, lambda name: None if name.startswith("004") else stepped(name), Clock())
    assert [name for name in made if name.startswith("004")] == ["004", "004-2"]
    found = files.read_json(top / "bisection.json")
    files.validate_schema_if_enabled("bisection/1", found)
    assert (found["verdict"], found["step"]["before"], found["step"]["after"]) == ("pass", 2, 4)
    assert found["left_out"] == [3]
    assert found["why"].endswith("; no run at 3 had this figure.")
    assert point_attempts.failures_of_points(top) == []
    run = run_reader.read_run_directory(top)
    verdict = judge_run.judge_whole_run(run, {point.number: None for point in run.points}, JudgingRules())
    assert [one["result"] for one in verdict["checks"] if one["check"] == "points"] == ["pass"]


def test_an_end_that_fails_fails_the_run(tmp_path: Path) -> None:
    top = directory(tmp_path, 6)
    begin_session(top, "2026-11-22T10:00:01Z")
    bisect_until_done(top, lambda name: None if name.startswith("006") else stepped(name), Clock())
    assert files.read_json(top / "bisection.json")["verdict"] == "invalid"
    assert point_attempts.failures_of_points(top) == ["point 006: it can't be built", "point 006-2: it can't be built"]


def test_ends_that_do_not_differ_are_inconclusive(tmp_path: Path) -> None:
    top = directory(tmp_path, 6)
    begin_session(top, "2026-11-22T10:00:01Z")
    made = bisect_until_done(top, lambda name: 1.0 + 0.01 * (int(name.partition("-")[2] or 1) % 3), Clock())
    assert len(made) == 40
    found = files.read_json(top / "bisection.json")
    assert (found["verdict"], found["exit_status"]) == ("inconclusive", 2)
    assert found["why"].startswith("No difference of latency between 0 and 5 after 40 runs: nothing to bisect")
    run = run_reader.read_run_directory(top)
    verdict = judge_run.judge_whole_run(run, {point.number: None for point in run.points}, JudgingRules())
    assert next(one["result"] for one in verdict["checks"] if one["check"] == "bisection") == "not judged"
