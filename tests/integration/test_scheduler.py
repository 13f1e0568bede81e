# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The project scheduler as a user runs it, against the real Kueue."""

from __future__ import annotations

import itertools
import json
import secrets
from pathlib import Path
from typing import Any

import chain_truth
import playbook
import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

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


@pytest.mark.long
def test_gangs_are_in_the_racks_that_kueue_assigned_and_the_figures_say_so(
    tmp_path: Path, rehearsal_folder: Path, own_instance: Any
) -> None:
    name = f"racks-{secrets.token_hex(3)}"
    info = cluster_lifecycle.create_or_repair_instance(own_instance(name, components=["kueue", "gangs"]), support.quiet)
    own = {
        "rehearsal_name": name,
        "rehearsal_data_dir": str(rehearsal_folder),
        "workload_max_lateness": 60,
        "scheduler_count": 6,
        "matrix": {"scheduler_topology": ["required"]},
    }
    words = ["-e", "preset=topology", "-e", json.dumps(own), "--tags", "cluster,prepare,test,report"]
    done = playbook.play(*words, artifacts=tmp_path, project="scheduler", timeout=300)
    assert done.code == 0, done.output[-6000:]
    top = next(tmp_path.glob("scheduler-*"))
    found = kpis(top, "001")
    namespace = f"scheduler-{top.name.removeprefix('scheduler-topology-')}"
    with Client.from_kubeconfig(info["kubeconfig"]) as client:
        nodes = {one["metadata"]["name"]: one for one in client.list(client.kind("v1", "Node"))[0]}
        pods = client.list(client.kind("v1", "Pod"), namespace)[0]
        workloads = client.list(client.kind("kueue.x-k8s.io/v1beta2", "Workload"), namespace)[0]
    racks: dict[str, list[str]] = {}
    hosts: dict[str, list[str]] = {}
    for pod in pods:
        assert pod["metadata"]["annotations"]["kueue.x-k8s.io/podset-required-topology"] == "example.com/rack"
        job, node = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"], pod["spec"]["nodeName"]
        racks.setdefault(job, []).append(nodes[node]["metadata"]["labels"]["example.com/rack"])
        hosts.setdefault(job, []).append(node)
    assert len(racks) == 6 and {len(set(of)) for of in racks.values()} == {1}
    # What Kueue assigned: hosts, as the lowest level.
    for workload in workloads:
        job = workload["metadata"]["ownerReferences"][0]["name"]
        (assigned,) = workload["status"]["admission"]["podSetAssignments"]
        assert assigned["topologyAssignment"]["levels"] == ["kubernetes.io/hostname"]
        assert assigned["count"] == len(hosts[job])
    means = {"rack": 1.0, "host": sum(len(set(of)) for of in hosts.values()) / 6}
    assert {level: found[f"domains_{level}_mean"]["value"] for level in means} == pytest.approx(means)
    assert found["compact_rack"]["value"] == 100 and found["domains_rack_max"]["n"] == 6
    assert 0 < found["largest_slot_rack_min"]["value"] <= found["largest_slot_rack_mean"]["value"] <= 16
    assert (top / "report" / "plots" / "001_placement.png").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    ("preset", "settings"),
    [
        ("topology", {"scheduler_count": 8, "matrix": {"scheduler_topology": ["required"]}}),
        (
            "dra_light",
            {"scheduler_count": 40, "fake_gpu_nodes": 10, "scheduler_arrival": {"type": "constant", "rate": 5}},
        ),
        (
            "dra_vs_extended",
            {"scheduler_count": 30, "fake_gpu_nodes": 10, "matrix": {"scheduler_gpu_request": ["resource_by_claim"]}},
        ),
        ("dra_partitions", {"scheduler_count": 20, "matrix": {"scheduler_partition": ["1g.10gb"]}}),
        ("multikueue", {"scheduler_count": 8}),
        ("coscheduling", {"scheduler_count": 8, "matrix": {"scheduler_mode": ["coscheduling"]}}),
        ("gang_native", {"scheduler_count": 8, "matrix": {"scheduler_mode": ["workload-aware"]}}),
        ("kueue_upgrade", {"scheduler_count": 20, "matrix_points": [{"rehearsal_versions.kueue": "0.18.3"}]}),
        ("fairness", {"scheduler_count": 16, "matrix_points": [{"scheduler_fair_sharing": True}]}),
    ],
)
def test_each_stage_of_the_jobs_of_a_preset_meets_the_audit_log(
    tmp_path: Path, rehearsal_folder: Path, preset: str, settings: dict[str, Any]
) -> None:
    name = f"audit-{secrets.token_hex(3)}"
    own = {
        "rehearsal_name": name,
        "rehearsal_data_dir": str(rehearsal_folder),
        "workload_max_lateness": 60,
        "cluster_keep": True,  # for its audit log
    }
    try:
        words = ["-e", f"preset={preset}", "-e", json.dumps({**own, **settings})]
        done = playbook.play(*words, artifacts=tmp_path, project="scheduler", timeout=900)
        assert done.code == 0, done.output[-6000:]
        top = next(tmp_path.glob("scheduler-*"))
        log = Path(files.read_yaml(top / "cluster.yml")["clusters"]["sutest"]["audit_log"])
        chain, point = chain_truth.OF_PRESETS[preset], top / "points" / "001"
        run_id = files.read_yaml(top / "run.yml")["id"]
        print("\n".join(chain_truth.check_stages(point, run_id, log, chain, settings["scheduler_count"])))
    finally:
        for cluster in (name, f"{name}-worker-1", f"{name}-worker-2"):
            cluster_lifecycle.remove_instance(support.options(rehearsal_folder, cluster, force=True), support.quiet)


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
    rows = list(files.read_json_lines(top / "points" / "002" / "timeline.jsonl"))[1:]
    assert [row["pods"] for row in rows] == [8 if row["template"] == "urgent" else 4 for row in rows]
    plans = [list(files.read_json_lines(top / "points" / point / "plan.jsonl"))[1:] for point in ("001", "002")]
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
    gangs = {"scheduler_count": 4, "scheduler_jobs": [{"name": "gang", "pods": 12}], "scheduler_gang_timeout": 10}
    done, top = run(tmp_path, rehearsal_folder, "coscheduling", scheduler_timeout=90, **gangs)
    assert done.code == 0, done.output
    plain, together = kpis(top, "001"), kpis(top, "002")
    # 48 pods on 16 GPUs: several gangs hold a part and give up.
    assert plain["pods_lost"]["value"] > 0 and plain["utilisation_lost"]["value"] > 0
    assert together["workloads_succeeded"]["value"] == 4
    assert together["pods_lost"]["value"] == 0
    rows = [one for one in files.read_json_lines(top / "points/002/timeline.jsonl") if one["type"] == "workload"]
    lives = sorted((one["stages"]["pods_scheduled_first"], one["stages"]["pods_running"]) for one in rows)
    for (_first, whole), (following, _whole) in itertools.pairwise(lives):
        assert following[1] >= whole[0]  # nobody gets a GPU before the gang that is there is whole
    assert all(one["stages"]["podgroup_running"][1] >= one["stages"]["podgroup_scheduling"][0] for one in rows)
