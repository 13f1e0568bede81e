"""Verdicts by history: of recorded runs through replot.yml, and of whole runs on a rehearsal cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from history_copies import write_copies
from history_series import noisy
from playbook import Done, play, run_dirs
from run_directory import World, write_run

ROLES = Path(__file__).parents[2] / "roles"
KPIS = [str(ROLES / "results/files/kpis/workload.yml"), str(ROLES / "fine_tuning/files/kpis.yml")]
NAME = "fine_tuning-light-t1121-abcdef"
REPETITIONS, AT_MOST = 20, 5


def extra(**settings: Any) -> tuple[str, str]:
    return "-e", json.dumps(settings)


def test_replot_judges_a_recorded_run_by_the_history_that_is_given(tmp_path: Path) -> None:
    top = write_run(tmp_path / NAME, [(World(count=6, canary=5.0), {})])
    write_timeline(str(top))
    write_kpis(str(top), KPIS)
    write_verdict(str(top), 0.1)
    assert files.read_json(top / "verdict.json")["verdict"] == "pass"
    write_copies(top, tmp_path / "history", noisy(1, 1 / 1.3, 12), labels={"openshift": "4.19.3"})
    write_copies(top, tmp_path / "history", noisy(2, 1.0, 4), since=30)
    write_copies(top, tmp_path / "history", [1.0] * 3, labels={"kubernetes": "v0"}, since=20)
    given = extra(results_history=["history"], results_compare_on=["ran.openshift"], results_judged=["makespan"])
    done = play("-e", f"source={NAME}", *given, artifacts=tmp_path / "new", project="replot", cwd=tmp_path)
    assert done.code == 0, done.output[-4000:]
    made = tmp_path / "new" / f"{NAME}-replot"
    verdict = files.read_json(made / "verdict.json")
    assert (verdict["verdict"], verdict["baseline"]) == ("regression", "12 runs of 4.19.3")
    assert {one["why"]: len(one["runs"]) for one in verdict["history"]["left_out"]} == {"other ran.kubernetes": 3}
    (makespan,) = [one for one in verdict["kpis"] if one["name"] == "makespan"]
    page = (made / "report" / "index.html").read_text(encoding="utf-8")
    for text in (page, (made / "summary.md").read_text(encoding="utf-8"), done.output):
        assert "% slower than 12 runs of 4.19.3 (" in text
    assert "16 of 19 runs comparable; left out: 3 other ran.kubernetes" in page
    assert "Compared with earlier runs" in page and makespan["change_low"] > 0.1
    assert (made / "report/plots/history_00.csv").read_text().count("\n") == 18

    known = {"kpi": "makespan", "since": verdict["run"], "until": "2999-12-31", "ticket": "PERF-1"}
    words = [*given, *extra(results_acknowledged=[known])]
    done = play("-e", f"source={NAME}", *words, artifacts=tmp_path / "known", project="replot", cwd=tmp_path)
    verdict = files.read_json(tmp_path / "known" / f"{NAME}-replot" / "verdict.json")
    assert (done.code, verdict["verdict"]) == (0, "pass"), done.output[-4000:]
    assert "known regression (PERF-1), acknowledged until 2999-12-31: " in done.output


@pytest.fixture
def repeat(own_instance: Callable[..., cluster_lifecycle.RehearsalOptions], tmp_path: Path) -> Callable[..., Done]:
    """Run the main job, small, on one cluster; further words are settings."""
    options = own_instance("g-verdicts", components=["trainer"])
    cluster_lifecycle.create_or_repair_instance(options, support.quiet)
    words = [
        *("-e", "preset=light", "-e", "rehearsal_name=g-verdicts", "-e", f"rehearsal_data_dir={options.data_dir}"),
        *("-e", "fine_tuning_count=20", "-e", "fine_tuning_rate=10", "-e", "fine_tuning_pod_count=1"),
        *("-e", "fake_gpu_nodes=3", "-e", "fine_tuning_run_seconds_spread=0", "-e", "workload_max_lateness=5"),
        *extra(results_history=[str(tmp_path / "runs")], results_fail_on=["error", "invalid"]),
    ]

    def run(**settings: Any) -> Done:
        done = play(*words, *extra(**settings), artifacts=tmp_path / "runs", timeout=900)
        assert done.code == 0, done.output[-8000:]
        return done

    return run


@pytest.mark.long
def test_unchanged_runs_raise_no_alarm_and_a_slowed_stage_is_found_within_five_runs(
    repeat: Callable[..., Done], tmp_path: Path
) -> None:
    # Simulated clusters pull no image: the runs of both images are the same, and either is compared with the other.
    for number in range(REPETITIONS):
        repeat(fine_tuning_run_seconds=5, fine_tuning_image=f"build:{number % 2}", results_ignore=["fine_tuning_image"])
    unchanged = run_dirs(tmp_path / "runs")
    assert len(unchanged) == REPETITIONS
    for number, top in enumerate(unchanged):
        verdict = files.read_json(top / "verdict.json")
        assert verdict["verdict"] in ("pass", "inconclusive", "improvement"), (top, verdict["kpis"])
        assert verdict["history"]["used"] == number
    given = extra(results_history=[str(tmp_path / "runs")], results_compare_on=["fine_tuning_image"])
    done = play("-e", f"source={unchanged[-1]}", *given, artifacts=tmp_path / "replots", project="replot")
    (verdict,) = [files.read_json(one) for one in (tmp_path / "replots").glob("*/verdict.json")]
    assert verdict["verdict"] != "regression", done.output[-4000:]
    assert verdict["baseline"] == f"{REPETITIONS // 2} runs of fine_tuning_image build:0"
    assert all(one["new"]["n"] == REPETITIONS // 2 for one in verdict["kpis"] if one["reading"] != "not judged")

    # KWOK completes a pod after this delay: the last stage takes 20 % longer.
    stages = ["headline", "duration_*_p50"]
    for _number in range(AT_MOST):
        done = repeat(
            fine_tuning_run_seconds=6,
            fine_tuning_image="build:2",
            results_judged=stages,
            results_ignore=["fine_tuning_image"],
            results_compare_on=["fine_tuning_run_seconds"],
        )
        slow = run_dirs(tmp_path / "runs")[-1]
        verdict = files.read_json(slow / "verdict.json")
        if verdict["verdict"] == "regression":
            break
    assert verdict["verdict"] == "regression", [one["why"] for one in verdict["kpis"]]
    assert f"slower than {REPETITIONS} runs of" in done.output
    found = {one["name"]: one for one in verdict["kpis"] if one["reading"] == "regression"}
    named = [name for name in found if name.startswith("duration_")]
    assert "duration_pods_succeeded_p50" in named, found
    assert found["duration_pods_succeeded_p50"]["change"] == pytest.approx(0.2, abs=0.05)
    assert not {"duration_created_p50", "duration_pods_scheduled_p50"} & set(named)
    assert "duration_pods_succeeded_p50" in (slow / "summary.md").read_text().replace("\\", "")

    done = play("-e", f"runs={unchanged[0]},{slow}", artifacts=tmp_path / "compared", project="compare")
    assert done.code == 0, done.output[-4000:]
    (comparison,) = (tmp_path / "compared").rglob("comparison.json")
    (pair,) = files.read_json(comparison)["pairs"]
    assert max(pair["stages"], key=lambda one: one["difference"])["name"] == "pods_succeeded_first"
