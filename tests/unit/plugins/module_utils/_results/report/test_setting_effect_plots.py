# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots of what each setting of a matrix changed in the figures of trainings."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report import setting_effect_plots
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point

RANK = "fine_tuning_hyper_parameters.r"
SPEED, RUNTIME = "train_samples_per_second", "train_runtime"


def kpi(figure: str, direction: str, **labels: Any) -> dict[str, Any]:
    more = {"figure": figure, "statistic": "median", **labels}
    name = "_".join([figure, *labels])
    return {"name": name, "title": figure.replace("_", " "), "unit": "1/s", "direction": direction, "labels": more}


def point(top: Path, number: str, settings: dict[str, Any], *speeds: float, simulated: bool = False) -> Point:
    folder = top / number
    folder.mkdir(parents=True)
    figures = [{SPEED: one, RUNTIME: 100 / one} for one in speeds]
    rows = [{"index": n, "pod": f"p{n}", "figures": one, "simulated": simulated} for n, one in enumerate(figures)]
    if rows:
        files.write_json_lines(folder / setting_effect_plots.FILE, rows, "training/1")
    found = Point(number, folder, {"status": "passed", "matrix": settings, "settings": settings})
    found.kpis = [kpi(SPEED, "higher"), kpi(SPEED, "higher", per="gpu"), kpi(RUNTIME, "lower")]
    return found


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("simulated", [False, True])
def test_each_figure_has_a_plot_with_a_line_for_each_value(tmp_path: Path, simulated: bool) -> None:
    points = [
        point(tmp_path, "001", {RANK: 4}, 10.0, 11.0, simulated=simulated),
        point(tmp_path, "002", {RANK: 16}, 5.0, 5.5, simulated=simulated),
        point(tmp_path, "003", {RANK: 64}, 2.0, 2.2, simulated=simulated),
    ]
    plots = setting_effect_plots.draw_setting_effects(points, tmp_path)
    assert [one.path.name for one in plots] == [f"effects_{SPEED}.png", f"effects_{RUNTIME}.png"]
    speed = rows_of(tmp_path / f"effects_{SPEED}.csv")
    assert [(one["setting"], one["from"], one["to"], one["change"]) for one in speed] == [
        (RANK, "4", "16", "-50"),
        (RANK, "4", "64", "-80"),
    ]
    assert all(float(one["low_95"]) < float(one["change"]) < float(one["high_95"]) < 0 for one in speed)
    assert {one["jobs"] for one in speed} == {"4"} and {one["simulated"] for one in speed} == {str(simulated)}
    assert ("SIMULATED" in plots[0].title) is simulated and f"{RANK} from 4 to 16: -50 %" in plots[0].alt


def test_attempts_at_a_point_count_together_and_what_failed_does_not(tmp_path: Path) -> None:
    points = [point(tmp_path, "001", {RANK: 4}, 10.0), point(tmp_path, "001-2", {RANK: 4}, 11.0)]
    points += [point(tmp_path, "002", {RANK: 16}, 20.0), point(tmp_path, "002-2", {RANK: 16}, 1.0)]
    points[-1].record["status"] = "failed"
    plots = setting_effect_plots.draw_setting_effects(points, tmp_path)
    (only,) = rows_of(tmp_path / f"effects_{SPEED}.csv")
    assert only["jobs"] == "3" and only["low_95"] and len(plots) == 2


def test_one_job_at_each_point_gives_a_change_without_an_interval(tmp_path: Path) -> None:
    points = [point(tmp_path, "001", {RANK: 4}, 10.0), point(tmp_path, "002", {RANK: 16}, 20.0)]
    plots = setting_effect_plots.draw_setting_effects(points, tmp_path)
    (only,) = rows_of(tmp_path / f"effects_{SPEED}.csv")
    assert (only["change"], only["low_95"], only["high_95"]) == ("100", "", "")
    assert "+100 %, without an interval (1 pair of points, 2 jobs)" in plots[0].alt


def test_without_a_matrix_of_trainings_nothing_is_drawn(tmp_path: Path) -> None:
    assert setting_effect_plots.draw_setting_effects([point(tmp_path, "001", {RANK: 4}, 10.0)], tmp_path) == []
    assert (
        setting_effect_plots.draw_setting_effects(
            [point(tmp_path, "004", {"a": 1}), point(tmp_path, "005", {"a": 2})], tmp_path
        )
        == []
    )


KIND, PODS, SEED_SETTING = "workload_scale_kind", "workload_scale_workers", "workload_scale_seed"
ORDER = [(seed, pods, kind) for seed in (1, 2, 3) for pods in (0, 7) for kind in ("Job", "TrainJob")]


def repeated(top: Path, costs: dict[tuple[int, int, str], float]) -> tuple[dict[str, Any], list[Point]]:
    points = [
        point(top, f"{number:03}", {SEED_SETTING: seed, PODS: pods, KIND: kind})
        for number, (seed, pods, kind) in enumerate(costs, 1)
    ]
    values = [{"point": each.number, "value": cost} for each, cost in zip(points, costs.values(), strict=True)]
    entry = {"name": "time", "title": "Time", "unit": "s", "direction": "lower", "simulated": True, "points": values}
    return entry, points


def test_a_matrix_over_a_seed_shows_what_its_last_setting_costs_at_each_value_of_the_others(tmp_path: Path) -> None:
    # A TrainJob costs 1 s, with eight pods 3 s; the cluster gets slower from seed to seed, which is no cost.
    cost = {
        (seed, pods, kind): seed * 10 + (0.1 * seed + (3 if pods else 1) if kind == "TrainJob" else 0.0)
        for seed, pods, kind in ORDER
    }
    entry, points = repeated(tmp_path, cost)
    (plot,) = setting_effect_plots.draw_setting_effects_over_seeds([entry], points, tmp_path)
    rows = rows_of(tmp_path / "effects_time.csv")
    assert [(row["from"], row["to"], row["at"], row["pairs_of_points"], row["unit"]) for row in rows] == [
        ("Job", "TrainJob", "workload_scale_workers = 0", "3", "s"),
        ("Job", "TrainJob", "workload_scale_workers = 7", "3", "s"),
    ]
    assert [float(row["change"]) for row in rows] == pytest.approx([1.2, 3.2])
    # Student's t over three seeds, whose differences have a standard deviation of 0.1 s.
    assert [float(row["high_95"]) - float(row["change"]) for row in rows] == pytest.approx([0.2484] * 2, rel=1e-3)
    assert "SIMULATED" in plot.title and f"{KIND} from Job to TrainJob at {PODS} = 7: +3.20 s" in plot.alt


def test_without_repetitions_there_are_no_such_effects(tmp_path: Path) -> None:
    once = {place: 1.0 for place in ORDER if place[0] == 1}
    entry, points = repeated(tmp_path / "once", once)
    assert setting_effect_plots.draw_setting_effects_over_seeds([entry], points, tmp_path) == []
    entry, points = repeated(tmp_path / "failed", dict.fromkeys(ORDER, 1.0))
    for failed in points[4:]:
        failed.record["status"] = "failed"
    assert setting_effect_plots.draw_setting_effects_over_seeds([entry], points, tmp_path) == []


def test_points_that_ran_several_versions_at_the_same_settings_are_not_compared(tmp_path: Path) -> None:
    entry, points = repeated(tmp_path, dict.fromkeys(ORDER, 1.0))
    for number, each in enumerate(points):
        each.ran = {"operators": {"kueue": "1" if number < 6 or each.settings[PODS] else "2"}}
    setting_effect_plots.draw_setting_effects_over_seeds([entry], points, tmp_path)
    assert {row["at"] for row in rows_of(tmp_path / "effects_time.csv")} == {"workload_scale_workers = 7"}
