"""Points that are repeated until decided, and a bisection, on a rehearsal cluster."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from playbook import begin, play, run_dirs

SMALL = [
    *("-e", "preset=light", "-e", "fine_tuning_count=2", "-e", "fine_tuning_pod_count=1"),
    *("-e", "fine_tuning_run_seconds_spread=0", "-e", "fine_tuning_api=job"),  # Jobs: fewer processes and writes
]
LIMITS = {"workloads_failed": {"max": 0}, "makespan": {"max": "60 s"}}
REPEAT = [
    *SMALL,
    *("-e", "fine_tuning_run_seconds=1"),
    *("-e", json.dumps({"fine_tuning_rate": 0, "fine_tuning_arrival": {"type": "poisson", "timespan": 2}})),
    *("-e", json.dumps({"repeat": {"until": "decided", "max": 8, "budget": "1h"}, "results_limits": LIMITS})),
]
#: Run times of the simulated trainings, with a step behind the third.
VALUES = "1,1.05,1.1,3,3.05,3.1"
BISECT = ["-e", "project=fine_tuning", *SMALL, "-e", "over=fine_tuning_run_seconds", "-e", f"values={VALUES}"]


@pytest.mark.parametrize(
    ("project", "words", "message"),
    [
        ("fine_tuning", ["-e", '{"repeat": {"untill": "decided"}}'], "unknown key 'untill' (did you mean 'until'"),
        ("fine_tuning", ["-e", '{"repeat": {"max": 3}}'], "needs results_limits or results_history"),
        ("bisect", [*BISECT, "-e", "kpi=makespann"], "kpi: 'makespann' is not defined (did you mean 'makespan'"),
    ],
    ids=["key", "nothing-to-decide", "kpi"],
)  # fmt: skip
def test_a_wrong_word_is_refused_before_anything_is_created(
    tmp_path: Path, project: str, words: list[str], message: str
) -> None:
    done = play("-e", "preset=light", *words, artifacts=tmp_path, project=project)
    assert done.code != 0
    assert message in done.flat()
    assert "Nothing was created or changed." in done.output
    assert not list(tmp_path.iterdir())


def test_a_bisection_of_no_project_is_told_what_is_missing(tmp_path: Path) -> None:
    done = play("-e", "preset=light", artifacts=tmp_path, project="bisect")
    assert done.code != 0 and "-e project= is required: the project whose runs are bisected" in done.flat(), done.output
    assert "undefined" not in done.output and not list(tmp_path.iterdir())


def lines(directory: Path) -> list[dict]:
    return [json.loads(line) for line in (directory / "schedule.jsonl").read_text().splitlines()]


@pytest.mark.long
def test_a_point_is_repeated_until_its_limit_decides(tmp_path: Path) -> None:
    done = play(*REPEAT, artifacts=tmp_path)
    assert done.code == 0, done.output
    (directory,) = run_dirs(tmp_path)
    attempts = sorted(one.name for one in (directory / "points").iterdir())
    assert 3 <= len(attempts) <= 6
    offsets = []
    for one in attempts:
        header, *planned = files.read_json_lines(directory / "points" / one / "plan.jsonl")
        assert (header["arrival"]["type"], header["arrival"]["rate"]) == ("poisson", 1.0)
        offsets.append([row["offset"] for row in planned if row["type"] == "workload"])
    assert all(one == offsets[0] for one in offsets) and 0 < offsets[0][0] < offsets[0][1]
    *_others, end = lines(directory)
    assert (end["type"], end["why"]) == ("finished", "Every judged figure is decided.")
    verdict = files.read_json(directory / "verdict.json")
    makespan = next(one for one in verdict["kpis"] if one["name"] == "makespan")
    assert (makespan["limit"]["result"], makespan["method"]) == ("within", "mean of the attempts, at every look")
    assert makespan["high"] < 60
    assert len(makespan["series"]) == len(attempts)
    page = (directory / "report" / "index.html").read_text(encoding="utf-8")
    assert "Repeated until decided" in page
    assert list((directory / "report" / "plots").glob("repeated_*.png"))


@pytest.mark.long
def test_a_killed_bisection_goes_on_and_names_the_step(tmp_path: Path) -> None:
    process = begin(*BISECT, "-e", "kpi=makespan", artifacts=tmp_path / "runs", log=tmp_path / "log", project="bisect")
    deadline = time.monotonic() + 600
    while not list((tmp_path / "runs").glob("*/points/001-2/ledger.jsonl")):
        assert process.poll() is None and time.monotonic() < deadline, "the third run was not begun"
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait(120)
    (directory,) = run_dirs(tmp_path / "runs")
    first = files.read_yaml(directory / "points" / "001" / "point.yml")
    done = play("-e", f"run_dir={directory}", artifacts=tmp_path / "runs", project="bisect", timeout=1800)
    assert done.code == 0, done.output
    assert files.read_yaml(directory / "points" / "001" / "point.yml") == first, "it was measured again"
    found = files.read_json(directory / "bisection.json")
    assert (found["verdict"], found["step"]["before"], found["step"]["after"]) == ("pass", 1.1, 3)
    assert found["step"]["probability"] >= 0.95
    assert "fine_tuning_run_seconds = 1.1 and 3" in done.flat()
    assert "Bisection of fine_tuning_run_seconds" in (directory / "report" / "index.html").read_text(encoding="utf-8")
