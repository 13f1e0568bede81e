# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict of a comparison: groups of runs by their labels, each against the first, with past runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import judge_run_groups
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.collect_history import HistoryRequest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.comparable_points import LabelRules
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.judge_run_groups import (
    ComparisonRules,
    RunSide,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader
from past_run_files import run_id, write_past_run

OLD, NEW = {"kubernetes": "v1.35.0"}, {"kubernetes": "v1.36.3"}


def side(parent: Path, number: int, value: float | None = 10.0, **more: Any) -> RunSide:
    """Return a run as a comparison reads it, without its load."""
    top = write_past_run(parent, number, value, **more)
    run = run_reader.read_run_directory(top)
    run.clusters = {"sutest": {"simulated": run.points[0].labels["ran"]["simulated"]}}
    verdict = files.read_json(top / "verdict.json")["verdict"]
    kpis = {one.number: {kpi["name"]: (kpi, None) for kpi in one.kpis or ()} for one in run.points}
    return RunSide(run, "", verdict, kpis=kpis)


def judged(sides: list[RunSide], *history: Path, rules: LabelRules | None = None) -> dict[str, Any]:
    request = HistoryRequest(tuple(str(one) for one in history), rules=rules or LabelRules())
    return judge_run_groups.judge_run_groups(
        judge_run_groups.group_and_label_runs(sides, request.rules), ComparisonRules(request), []
    )


def letters(sides: list[RunSide], rules: LabelRules | None = None) -> list[str]:
    groups = judge_run_groups.group_and_label_runs(sides, rules or LabelRules())
    return [f"{one.letter}: {', '.join(each.letter for each in one.sides)}, {one.what}" for one in groups]


def test_runs_with_the_same_labels_are_a_group_in_any_order(tmp_path: Path) -> None:
    sides = [side(tmp_path, number, ran=OLD if number % 2 else NEW) for number in range(1, 6)]
    assert letters(sides) == ["A: A1, A2, A3, ", "B: B1, B2, ran.kubernetes v1.36.3 instead of v1.35.0"]


def test_each_single_run_is_a_letter(tmp_path: Path) -> None:
    sides = [side(tmp_path, number, settings={"fine_tuning_gpus": number}) for number in (1, 2, 3)]
    assert [one.partition(",")[0] for one in letters(sides)] == ["A: A", "B: B", "C: C"]
    assert sides[1].label == f"B ({run_id(2)})"


def test_letters_go_on_behind_z() -> None:
    assert [judge_run_groups.group_letter_for_index(place) for place in (0, 25, 26, 51, 52, 701, 702)] == [
        "A",
        "Z",
        "AA",
        "AZ",
        "BA",
        "ZZ",
        "AAA",
    ]


def test_without_different_labels_the_first_half_is_the_baseline(tmp_path: Path) -> None:
    sides = [side(tmp_path, number) for number in range(1, 7)]
    assert letters(sides) == ["A: A1, A2, A3, ", "B: B1, B2, B3, "]
    assert letters(sides[:2]) == ["A: A, ", "B: B, "]
    assert letters(sides[:3]) == ["A: A, ", "B: B1, B2, "]


def test_a_label_that_is_never_compared_can_distinguish_groups(tmp_path: Path) -> None:
    sides = [side(tmp_path, number, ran={"collection": "1" if number < 3 else "2"}) for number in range(1, 6)]
    assert letters(sides, LabelRules(("ran.collection",))) == [
        "A: A1, A2, ",
        "B: B1, B2, B3, ran.collection 2 instead of 1",
    ]


@pytest.mark.parametrize(
    ("after", "verdict", "words"),
    [
        ((20.0, 20.2, 20.1), "regression", "time_to_running_p95: 101 % slower than 3 runs of A (99 to 103 %), p"),
        ((5.0, 5.1, 5.05), "improvement", "time_to_running_p95: 50 % faster than 3 runs of A"),
        ((10.01, 9.99, 10.0), "pass", ""),
        ((10.0, 12.0, 9.0), "inconclusive", "time_to_running_p95: inconclusive: "),
    ],
)
def test_three_runs_are_judged_against_three(
    tmp_path: Path, after: tuple[float, ...], verdict: str, words: str
) -> None:
    values = (10.0, 10.02, 9.98, *after)
    found = judged([side(tmp_path, n, value, ran=OLD if n < 4 else NEW) for n, value in enumerate(values, 1)])
    assert found["verdict"] == verdict
    assert (found["why"] or [""])[0].startswith(words)
    (kpi,) = found["kpis"]
    assert (kpi["group"], kpi["old"]["n"], kpi["new"]["n"]) == ("B", 3, 3)
    assert "history" not in found


def test_two_single_runs_are_inconclusive_and_why(tmp_path: Path) -> None:
    found = judged([side(tmp_path, 1, 10.0, ran=OLD), side(tmp_path, 2, 50.0, ran=NEW)])
    assert (found["verdict"], found["exit_status"]) == ("inconclusive", 2)
    assert found["why"][0].startswith("Two single runs do not distinguish a change from the variation between runs.")
    assert found["kpis"][0]["why"] == "A has 1 run with this figure; it needs two"


def test_past_runs_of_both_configurations_join_their_groups(tmp_path: Path) -> None:
    for number, value in enumerate((10.0, 10.1, 9.9, 10.05), 1):
        write_past_run(tmp_path / "past", number, value, ran=OLD)
    for number, value in enumerate((14.0, 14.1, 13.9), 5):
        write_past_run(tmp_path / "past", number, value, ran=NEW)
    write_past_run(tmp_path / "past", 8, 99.0, verdict="invalid", ran=OLD)
    sides = [side(tmp_path / "past", 10, 10.02, ran=OLD), side(tmp_path, 11, 14.02, ran=NEW)]
    found = judged(sides, tmp_path)
    assert found["verdict"] == "regression"
    (kpi,) = found["kpis"]
    assert (kpi["old"]["n"], kpi["new"]["n"]) == (5, 4)
    assert "than 5 runs of A and its history" in kpi["why"]
    assert found["history"]["used"] == 4
    assert {"why": "invalid", "runs": [run_id(8)]} in found["history"]["left_out"]


def test_an_invalid_run_makes_the_comparison_invalid(tmp_path: Path) -> None:
    sides = [side(tmp_path, n, 10.0, ran=OLD if n < 4 else NEW) for n in range(1, 6)]
    sides.append(side(tmp_path, 6, 10.0, ran=NEW, verdict="invalid"))
    found = judged(sides)
    assert (found["verdict"], found["why"]) == ("invalid", [f"The verdict of B3 ({run_id(6)}) is invalid."])


def test_simulated_and_measured_runs_are_not_judged(tmp_path: Path) -> None:
    found = judged([side(tmp_path, 1), side(tmp_path, 2, ran={"simulated": False})])
    assert (found["verdict"], found["why"]) == ("invalid", ["Simulated figures are not compared with measured ones."])


def test_three_configurations_are_two_comparisons(tmp_path: Path) -> None:
    values = {1: 10.0, 2: 10.01, 3: 9.99, 4: 10.0, 5: 10.02, 6: 9.98, 7: 20.0, 8: 20.1, 9: 19.9}
    sides = [side(tmp_path, n, value, ran={"kubernetes": f"v1.3{(n - 1) // 3}.0"}) for n, value in values.items()]
    found = judged(sides)
    assert [(one["group"], one["reading"]) for one in found["kpis"]] == [("B", "pass"), ("C", "regression")]
    assert found["why"][0].startswith("time_to_running_p95 (C): 100 % slower")


def test_points_are_compared_with_those_of_the_same_matrix_values(tmp_path: Path) -> None:
    def run(number: int, factor: float, ran: dict[str, Any]) -> RunSide:
        top = write_past_run(tmp_path, number, ran=ran, points=("001", "002"))
        for point, value in (("001", 10.0), ("002", 40.0 * factor)):
            folder = top / "points" / point
            document = files.read_json(folder / "kpis.json")
            document["kpis"][0]["value"] = value + number / 100
            files.write_json(folder / "kpis.json", document)
            files.write_yaml(folder / "point.yml", {**files.read_yaml(folder / "point.yml"), "settings": {"n": point}})
        read = run_reader.read_run_directory(top)
        kpis = {one.number: {kpi["name"]: (kpi, None) for kpi in one.kpis or ()} for one in read.points}
        return RunSide(read, "", "pass", kpis=kpis)

    found = judged([run(n, 1.0 if n < 4 else 2.0, OLD if n < 4 else NEW) for n in range(1, 7)])
    assert [(one["point"], one["reading"]) for one in found["kpis"]] == [("001", "pass"), ("002", "regression")]
    assert found["why"][0].startswith("time_to_running_p95 (point 002): ")


def test_without_a_common_figure_there_is_no_answer(tmp_path: Path) -> None:
    found = judged([side(tmp_path, 1, kpis=[]), side(tmp_path, 2)])
    assert (found["verdict"], found["why"]) == ("inconclusive", ["The runs have no judged figure in common."])
