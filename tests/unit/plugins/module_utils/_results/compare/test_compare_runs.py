# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sides of a comparison: warnings of each run, and the settings that differ."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.compare import compare_runs, run_pairs
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.collect_history import HistoryRequest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.comparable_points import LabelRules
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.judge_run_groups import ComparisonRules
from run_directory import REAL, World, write_run

TEMPLATE = Path(__file__).parents[6] / "roles" / "results" / "templates" / "compare.html.j2"


def made(top: Path, provenance: dict[str, Any], settings: dict[str, Any], warnings: list[str]) -> Path:
    top.mkdir()
    for name, document in (
        ("run.yml", {"id": top.name}),
        ("provenance.yml", {"settings": provenance}),
        ("settings.yml", settings),
        ("verdict.json", {"verdict": "pass", "warnings": warnings}),
    ):
        files.write_yaml(top / name, document) if name.endswith("yml") else files.write_json(top / name, document)
    return top


def test_what_makes_the_figures_of_a_run_doubtful_is_said_in_its_comparison(tmp_path: Path) -> None:
    notes: list[str] = []
    side = run_pairs.complete_and_read_compared_run(
        made(tmp_path / "t1122-aaaaaa", {}, {}, ["The machine was busy."]), [], notes
    )
    assert (side.verdict, notes) == ("pass", ["t1122-aaaaaa: The machine was busy."])


def test_a_setting_that_only_one_run_set_is_compared_with_the_default_of_the_other(tmp_path: Path) -> None:
    kept = {"keep": [{"value": True}], "same": [{"value": False}]}
    sides = [
        run_pairs.complete_and_read_compared_run(
            made(tmp_path / name, provenance, {"keep": False, "same": False}, []), [], []
        )
        for name, provenance in (("t1122-aaaaaa", {}), ("t1122-aaaaab", kept))
    ]
    found = run_pairs.differing_settings([one.settings for one in sides], [one.run.settings for one in sides])
    assert found == [{"name": "keep", "values": [False, True]}]


def written(parent: Path, number: int, run_for: float, points: int = 1) -> str:
    world = World(count=12, run_for=run_for, seed=number, training=False, start=1_795_000_000.0 + 600 * number)
    matrix = [(world, {"fine_tuning_gpus": place}) for place in range(points)]
    return str(write_run(parent / f"r{number}", matrix, id=f"t1121-aaaaa{number}"))


def test_a_plot_that_cannot_be_drawn_is_a_note(
    tmp_path: Path, definitions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: Any) -> None:
        raise TypeError("unusual data")

    monkeypatch.setattr(compare_runs.comparison_page, "draw_stage_distributions", fail)
    runs = [written(tmp_path, number, 5.0) for number in range(2)]
    result = compare_runs.write_run_comparison(runs, str(tmp_path / "out"), [definitions], str(TEMPLATE))
    assert "plots of B against A could not be drawn: TypeError: unusual data" in result["warnings"]
    assert Path(result["path"]).is_file()


def test_simulated_and_measured_runs_of_one_cluster_are_not_compared(tmp_path: Path, definitions: str) -> None:
    tops = []
    for number, nodes in enumerate(("real", "simulated", "mixed")):
        kinds = {"real": [REAL], "simulated": ["fake-0"], "mixed": [REAL, "fake-0"]}[nodes]
        world = World(count=4, training=False, nodes={row: kinds[row % len(kinds)] for row in range(4)})
        tops.append(str(write_run(tmp_path / nodes, [(world, {})], id=f"t1121-aaaaa{number}")))
    for pair in ((0, 1), (1, 2), (0, 2)):
        out = tmp_path / f"out{pair[0]}{pair[1]}"
        found = compare_runs.write_run_comparison([tops[one] for one in pair], str(out), [definitions], str(TEMPLATE))
        assert found["verdict"] == "invalid", pair
        document = files.read_json(out / "comparison.json")
        rows = {row["name"]: row for one in document["pairs"] for row in one["kpis"]}
        assert "time_to_scheduled_p95" in rows
        assert ("time_to_running_p95" in rows) == (pair == (0, 2)), pair


def test_settings_of_another_project_are_no_difference(tmp_path: Path, definitions: str) -> None:
    roles = {"read": ["fine_tuning", "workload"], "other": ["scheduler"]}
    tops = [Path(written(tmp_path, number, 8.0)) for number in range(2)]
    for top, settings in zip(tops, ({"my_llm_test_rate": 1, "scheduler_mode": "job"}, {}), strict=True):
        record = files.read_yaml(top / "run.yml")
        files.write_yaml(top / "run.yml", {**record, "roles": roles}, "run/1")
        for path in (top / "settings.yml", top / "points/000/settings.yml"):
            files.write_yaml(path, {"fine_tuning_count": 12, **settings}, "settings/1")
        provenance = {name: [{"source": "-e", "value": value}] for name, value in settings.items()}
        files.write_yaml(top / "provenance.yml", {"schema": "provenance/1", "settings": provenance}, "provenance/1")
    out = tmp_path / "out"
    compare_runs.write_run_comparison([str(top) for top in tops], str(out), [definitions], str(TEMPLATE))
    document = files.read_json(out / "comparison.json")
    assert document["settings"] == []
    assert [group["what"] for group in document["groups"]] == ["", ""]


def test_a_slower_stage_is_found_by_three_runs_against_three_and_named(tmp_path: Path, definitions: str) -> None:
    tops = [written(tmp_path, number, 8.0 if number < 3 else 12.0) for number in range(6)]
    found = compare_runs.write_run_comparison(tops, str(tmp_path / "out"), [definitions], str(TEMPLATE))
    document = files.read_json(tmp_path / "out" / "comparison.json")
    files.validate_schema_if_enabled("comparison/2", document)
    assert (found["verdict"], found["code"], found["exit_status"]) == ("regression", 4, 1)
    assert [one["runs"] for one in document["groups"]] == [
        ["t1121-aaaaa0", "t1121-aaaaa1", "t1121-aaaaa2"],
        ["t1121-aaaaa3", "t1121-aaaaa4", "t1121-aaaaa5"],
    ]
    (changed,) = document["changed"]
    assert (changed["group"], changed["stage"]) == ("B", "pods_succeeded_first")
    assert [pair["label"] for pair in document["pairs"]] == ["B1 against A1", "B2 against A1", "B3 against A1"]
    assert found["lines"][0] == "A is t1121-aaaaa0, t1121-aaaaa1, t1121-aaaaa2, the baseline"
    assert any(line.startswith("verdict REGRESSION: ") for line in found["lines"])
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    for words in (
        "Verdict: regression",
        "A is t1121-aaaaa0",
        "Stage first pod succeeded changed most",
        "judged_00.png",
    ):
        assert words in page, words


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (
            ComparisonRules(judged=["makespann"]),
            "results_judged: KPI 'makespann' is not defined (did you mean 'makespan'?)",
        ),
        (
            ComparisonRules(HistoryRequest(rules=LabelRules(("ran.kubernets",)))),
            "results_compare_on: 'ran.kubernets' matches no label of these runs (did you mean 'ran.kubernetes'?)",
        ),
        (
            ComparisonRules(HistoryRequest(rules=LabelRules((), ("ran.node",)))),
            "results_ignore: 'ran.node' matches no label of these runs (did you mean 'ran.nodes'?)",
        ),
    ],
)
def test_an_unknown_name_is_refused_before_anything_is_written(
    tmp_path: Path, definitions: str, rules: ComparisonRules, message: str
) -> None:
    tops = [written(tmp_path, number, 8.0) for number in range(2)]
    with pytest.raises(InputError, match=re.escape(message)):
        compare_runs.write_run_comparison(tops, str(tmp_path / "out"), [definitions], str(TEMPLATE), rules)
    assert not (tmp_path / "out").exists()


def test_names_of_settings_are_not_refused_if_the_runs_recorded_none(tmp_path: Path, definitions: str) -> None:
    tops = [written(tmp_path, number, 8.0) for number in range(2)]
    assert not (Path(tops[0]) / "points" / "000" / "settings.yml").exists()
    rules = ComparisonRules(HistoryRequest(rules=LabelRules((), ("fine_tuning_gpus",))))
    assert compare_runs.write_run_comparison(tops, str(tmp_path / "out"), [definitions], str(TEMPLATE), rules)[
        "verdict"
    ]


def test_the_points_of_one_run_have_no_verdict(tmp_path: Path, definitions: str) -> None:
    found = compare_runs.write_run_comparison(
        [written(tmp_path, 0, 8.0, points=2)], str(tmp_path / "out"), [definitions], str(TEMPLATE)
    )
    assert found["verdict"] is None
    assert "Verdict:" not in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


ABBA = [(1, "before"), (1, "after"), (2, "after"), (2, "before")]


@pytest.mark.parametrize(
    ("matrix", "compared"),
    [
        ([{"scheduler_seed": seed, "state": state} for seed, state in ABBA], ["B against A", "C against D"]),
        ([{"scheduler_seed": seed} for seed in (1, 2, 3)], ["B against A", "C against A"]),
        ([{"scheduler_seed": 1, "state": "before"}, {"scheduler_seed": 2, "state": "after"}], ["B against A"]),
        ([{"state": state} for state in ("before", "after")], ["B against A"]),
    ],
)
def test_points_are_compared_with_that_of_their_seed(
    tmp_path: Path, definitions: str, matrix: list[dict[str, Any]], compared: list[str]
) -> None:
    worlds = [
        World(count=12, run_for=8.0, seed=place, training=False, start=1_795_000_000.0 + 600 * place)
        for place in range(len(matrix))
    ]
    run = write_run(tmp_path / "run", list(zip(worlds, matrix, strict=True)), id="t1121-aaaaaa")
    compare_runs.write_run_comparison([str(run)], str(tmp_path / "out"), [definitions], str(TEMPLATE))
    document = json.loads((tmp_path / "out" / "comparison.json").read_text(encoding="utf-8"))
    assert [pair["label"].partition(",")[0] for pair in document["pairs"]] == compared
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    heads = re.findall(
        r'figure</th><th scope="col" class="number">(\w) [^<]*</th><th scope="col" class="number">(\w) ', page
    )
    assert list(dict.fromkeys(f"{other} against {base}" for base, other in heads)) == compared
