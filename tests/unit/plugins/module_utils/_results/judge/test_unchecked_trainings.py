# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the verdict says of trainings that may have been alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import judge_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.judge_run import JudgingRules
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run

WHY = "the log does not have processes"


def point(top: Path, number: str, *reasons: str) -> Point:
    folder = top / "points" / number
    folder.mkdir(parents=True)
    rows: list[dict[str, Any]] = [
        {"index": index, "pod": f"p{index}", "figures": {}, "simulated": False, **({"unchecked": why} if why else {})}
        for index, why in enumerate(reasons)
    ]
    if rows:
        files.write_json_lines(folder / "training.jsonl", rows, "training/1")
    return Point(number, folder, {"status": "passed"})


def test_each_reason_is_one_sentence_with_its_points(tmp_path: Path) -> None:
    points = [point(tmp_path, "001", WHY, WHY), point(tmp_path, "002", ""), point(tmp_path, "003", WHY, "x")]
    points.append(point(tmp_path, "004"))
    asked = "Whether the processes of a training worked together, or each on all data, was not checked at test point"
    assert judge_run.unchecked_trainings_warnings(points) == [
        f"{asked} 001, test point 003: {WHY}.",
        f"{asked} 003: x.",
    ]


def test_the_verdict_has_the_sentence(tmp_path: Path) -> None:
    run = Run(tmp_path, {"id": "t1"}, points=[point(tmp_path, "001", WHY)])
    (said,) = judge_run.judge_whole_run(run, {"001": None}, JudgingRules())["warnings"]
    assert said.endswith(f"at test point 001: {WHY}.")
