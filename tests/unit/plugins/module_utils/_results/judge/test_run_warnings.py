# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the verdict, and so the last lines of a run, say of files that were not fetched, or are damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files as _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import judge_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.judge_run import JudgingRules
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import close_session
from run_directory import World, write_run

NONE = {"count": 4, "left_out": 0, "left_out_users": 0, "limit": "", "failed_users": 0, "first_error": ""}
CUT = {**NONE, "left_out": 5, "left_out_users": 2, "limit": "users_files_limit_bytes"}
FAILED = {**NONE, "failed_users": 1, "first_error": "run-aa-001-0: HTTP 403"}


def point(top: Path, number: str, files: dict[str, Any] | None) -> Point:
    path = top / "points" / number / "users" / "users.json"
    path.parent.mkdir(parents=True)
    _files.write_json(path, {"files": files} if files else {})
    return Point(number, top / "points" / number, {"status": "passed"})


def test_each_point_with_missing_files_has_a_sentence_with_the_reasons(tmp_path: Path) -> None:
    points = [point(tmp_path, "001", CUT), point(tmp_path, "002", NONE), point(tmp_path, "003", None)]
    points += [point(tmp_path, "004", {**CUT, **FAILED, "left_out": 1, "left_out_users": 1, "limit": "x"})]
    points.append(Point("005", tmp_path / "nothing", {"status": "passed"}))
    assert judge_run.missing_user_files_warnings(points) == [
        "Files of users are missing at test point 001: 5 files of 2 users exceeded the limit "
        "(users_files_limit_bytes).",
        "Files of users are missing at test point 004: 1 file of 1 user exceeded the limit (x); 1 user could not send "
        "files (run-aa-001-0: HTTP 403).",
    ]


@pytest.mark.parametrize("odd", ["{{ 1 }}", "9", None, [], {}, True, float("nan"), float("inf"), 10**400, -1])
@pytest.mark.parametrize("name", ["stolen", "cpus", "load"])
def test_a_machine_whose_figures_are_no_numbers_is_not_called_busy(tmp_path: Path, name: str, odd: Any) -> None:
    busy = {"cpus": 2, "load": 9.5, "stolen": 0.0}
    ledger = tmp_path / "ledger.jsonl"
    for machine, said in ((busy, True), ({**busy, "load": 0.1, name: odd}, False)):
        ledger.write_text(json.dumps({"type": "end", "machine": machine}) + "\n")
        assert bool(judge_run.busy_machine_warning([Point("001", tmp_path)])) is said


def test_the_last_lines_of_the_run_have_the_sentence(tmp_path: Path) -> None:
    run = Run(tmp_path, {"id": "t1"}, points=[point(tmp_path, "001", FAILED)])
    verdict = judge_run.judge_whole_run(run, {"001": None}, JudgingRules())
    nothing = {"clusters": {}, "phases": {}, "held": [], "split": {"total": 1.0, "ansible": 1.0}}
    record = {"project": "users", "presets": [], "id": "t1", "status": "passed", **nothing}
    (line,) = [one for one in close_session.summary_lines(record, tmp_path, verdict) if "warning" in one]
    assert line.endswith("at test point 001: 1 user could not send files (run-aa-001-0: HTTP 403).")


def test_the_verdict_names_a_damaged_file_of_a_point(tmp_path: Path) -> None:
    top = write_run(tmp_path / "run", [(World(count=4), {})])
    plan = top / "points/000/plan.jsonl"
    plan.write_bytes(plan.read_bytes().replace(b"{", b"[", 1))
    write_timeline(str(top))
    write_verdict(str(top), 0.5)
    assert "test point 000: 1 damaged line of plan.jsonl left out" in _files.read_json(top / "verdict.json")["warnings"]
    assert "Warning: test point 000: 1 damaged line of plan.jsonl" in (top / "summary.md").read_text()
