# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The project scheduler as a user runs it, against the real Kueue."""

from __future__ import annotations

import itertools
import json
import secrets
from pathlib import Path
from typing import Any

import playbook
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files

PRESETS = Path(__file__).resolve().parents[2] / "group_vars" / "all"


def run(folder: Path, rehearsal_folder: Path, preset: str, **settings: Any) -> tuple[playbook.Done, Path]:
    """Run a preset with settings of our own on an instance of its own; return what was printed, and the run."""
    own = {
        "rehearsal_name": f"scheduler-{secrets.token_hex(3)}",
        "rehearsal_data_dir": str(rehearsal_folder),
        "workload_max_lateness": 60,  # how busy this machine is says nothing of a scheduler
    }
    words = ["-e", f"preset={preset}", "-e", json.dumps({**own, **settings})]
    done = playbook.play(*words, artifacts=folder, project="scheduler", timeout=900)
    return done, next(folder.glob("scheduler-*"))


def kpis(top: Path, point: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in files.read_json(top / "points" / point / "kpis.json")["kpis"]}


# The role with Kueue is in Molecule's scenario, preemptions are in the unit tests of timelines and comparisons.
@pytest.mark.long
def test_the_same_load_with_and_without_preemption_and_their_comparison(tmp_path: Path, rehearsal_folder: Path) -> None:
    jobs = [
        {"name": "batch", "weight": 2, "pods": 4, "priority": "low", "run_time": {"type": "fixed", "mean": 6}},
        {"name": "urgent", "weight": 1, "pods": 8, "priority": "high", "run_time": {"type": "fixed", "mean": 2}},
    ]
    arrival = {"type": "constant", "rate": 2}
    done, top = run(
        tmp_path, rehearsal_folder, "preemption", scheduler_count=9, scheduler_jobs=jobs, scheduler_arrival=arrival
    )
    assert done.code == 0, done.output
    without, preempting = kpis(top, "001"), kpis(top, "002")
    for found in (without, preempting):
        assert found["workloads_succeeded"]["value"] == 9
        assert 0 < found["scheduling_efficiency"]["value"] <= 100
        assert found["utilisation_held"]["value"] >= found["utilisation_useful"]["value"] > 0
    assert without["preemptions"]["value"] == without["pods_lost"]["value"] == 0
    assert preempting["preemptions"]["value"] > 0
    # A gang that is preempted loses all of its pods, and each comes again.
    assert preempting["pods_lost"]["value"] % 4 == 0 and preempting["pods_lost"]["value"] > 0
    rows = list(files.read_lines(top / "points" / "002" / "timeline.jsonl"))[1:]
    assert [row["pods"] for row in rows] == [8 if row["template"] == "urgent" else 4 for row in rows]
    plans = [list(files.read_lines(top / "points" / point / "plan.jsonl"))[1:] for point in ("001", "002")]
    assert [row["offset"] for row in plans[0]] == [row["offset"] for row in plans[1]]
    comparison = files.read_json(top / "report" / "compare" / "comparison.json")
    assert [pair["points"] for pair in comparison["pairs"]] == [["001", "002"]]
    assert "LowerPriority" in str(comparison["settings"])
    assert (top / "report" / "compare" / "index.html").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    "preset", ["gang_large", "kueue_vs_job", "fair_share", "kueue_throughput", "dra_light", "dra_vs_extended"]
)
def test_a_preset_runs_at_a_smaller_count(tmp_path: Path, rehearsal_folder: Path, preset: str) -> None:
    count = {"kueue_throughput": 300, "gang_large": 10}.get(preset, 12)
    done, top = run(tmp_path, rehearsal_folder, preset, scheduler_count=count)
    assert done.code == 0, done.output
    for point in sorted(one.name for one in (top / "points").iterdir()):
        assert kpis(top, point)["workloads_succeeded"]["value"] == count


@pytest.mark.long
def test_gangs_that_need_most_of_the_room_go_one_by_one_with_coscheduling_and_not_without(
    tmp_path: Path, rehearsal_folder: Path
) -> None:
    done, top = run(
        tmp_path, rehearsal_folder, "coscheduling", scheduler_count=4, scheduler_gang_timeout=10, scheduler_timeout=90
    )
    assert done.code == 0, done.output
    plain, together = kpis(top, "001"), kpis(top, "002")
    # 48 pods on 16 GPUs: several gangs hold a part and give up.
    assert plain["pods_lost"]["value"] > 0 and plain["utilisation_lost"]["value"] > 0
    assert together["workloads_succeeded"]["value"] == 4
    assert together["pods_lost"]["value"] == 0
    rows = [one for one in files.read_lines(top / "points/002/timeline.jsonl") if one["type"] == "workload"]
    lives = sorted((one["stages"]["pods_scheduled_first"], one["stages"]["pods_running"]) for one in rows)
    for (_first, whole), (following, _whole) in itertools.pairwise(lives):
        assert following[1] >= whole[0]  # nobody gets a GPU before the gang that is there is whole
    assert all(one["stages"]["podgroup_running"][1] >= one["stages"]["podgroup_scheduling"][0] for one in rows)
