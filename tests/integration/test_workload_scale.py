"""workload_scale on a real control plane: its templates, Run:ai's kinds, and reports while a run goes on."""

from __future__ import annotations

import json
import os
import secrets
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rehearsal as support
import runai_platform
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import random_draws
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.runai import runai_export
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import read_workload_files, workload_kinds
from load_world import World
from playbook import ROOT, begin, play, run_dirs
from runai_platform import Platform

POD = str(ROOT / "roles" / "workload_scale" / "templates" / "pod.yaml.j2")


def template(kind: str, world: World, **more: Any) -> dict[str, Any]:
    """The template of a kind as the role combines it, with what the role renders it with."""
    usual = {
        "pods": 3 if kind in ("PyTorchJob", "DistributedWorkload", "JobSet") else 1,
        "suspend": False,
        "backoff_limit": 0,
        "gpus": 1,
        "gpu_fraction": 0.0,
        "resources": {"cpu": "100m", "memory": "64Mi", "nvidia.com/gpu": 1},
        "annotations": {"perfscale.seatrial/run-seconds": "1"},
        "node_selector": {},
        "tolerations": [],
        "scheduler": "",
        "image": "none",
        "command": ["sleep", "10"],
        "pvc": False,
        "pvc_size": "1Gi",
        "storage_class": "",
        "simulated_volume": False,
        "provision_seconds": 1.0,
        "project": "team",
        "project_namespace": world.namespace,
        "queue": "team",
        "metadata": {"namespace": world.namespace, "labels": {"perfscale.seatrial/project": "team"}},
    }
    entry = {"name": "team", "kind": kind, "src": POD, "parameters": {**usual, **more}}
    return dict(read_workload_files.templates_with_content([entry], lambda _folder, name: name)[0])


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("Job", {}),
        ("Job", {"suspend": True, "pvc": True, "storage_class": "fast", "scheduler": "other"}),
        ("PyTorchJob", {"pvc": True}),
        ("PyTorchJob", {"pods": 1, "suspend": True}),
        ("StatefulSet", {"pvc": True, "gpus": 0, "gpu_fraction": 0.5}),
        ("Deployment", {}),
        ("Pod", {}),
    ],
)
def test_the_api_server_takes_what_the_template_makes(kind: str, more: dict[str, Any], world: World) -> None:
    done = world.submit(count=2, templates=[template(kind, world, **more)], stages=[])
    assert done["counts"]["created"] == 2, done
    version = workload_kinds.load_kind_by_name_or_path(kind).references[0].rpartition("/")[0]
    found, _version = world.client.list(
        world.client.kind(version, kind), world.namespace, f"perfscale.seatrial/run={world.run_id}"
    )
    owned = [one for one in found if not one["metadata"].get("ownerReferences")]
    assert len(owned) == 2
    if kind != "Pod":  # its labels are those of the macro
        assert owned[0]["metadata"]["labels"]["perfscale.seatrial/project"] == "team"
    if more.get("suspend"):
        assert (owned[0]["spec"].get("runPolicy") or owned[0]["spec"])["suspend"] is True
    claims = world.client.list(world.client.kind("v1", "PersistentVolumeClaim"), world.namespace)[0]
    assert len(claims) == (2 if more.get("pvc") else 0)


@pytest.fixture
def nodes(world: World) -> Iterator[World]:
    """A world with a node on which pods run until they are deleted."""
    pool = simulated_node_pool.NodePoolSpec(1, pool="test-scale", run_id=world.run_id)
    fake_nodes.create_fake_nodes(world.client, pool, 240, support.quiet)
    yield world
    fake_nodes.remove_fake_nodes(world.client, pool, 240, support.quiet)


@pytest.fixture
def runai(nodes: World) -> Iterator[World]:
    """A world whose server has stand-ins for the kinds of Run:ai."""
    with runai_platform.definitions(nodes.client):
        yield nodes


#: How long the simulated controllers of Run:ai wait before each object, seconds.
DELAYS = {"job": 0.3, "group": 0.5, "pods": 0.4, "run": 0.5}


def through_runai(world: World, kind: str, parts: list[Any], **more: Any) -> tuple[dict[str, Any], Platform]:
    """Submit three workloads while the simulated platform runs; return the result and the platform."""
    job = runai_platform.pytorch_job if kind == "DistributedWorkload" else runai_platform.runai_job
    platform = Platform(world.client, world.namespace, kind, DELAYS, job)
    platform.start()
    try:
        done = world.submit(
            count=3,
            templates=[template(kind, world, gpus=0)],
            stages=workload_kinds.resolve_stage_definitions(parts, lambda _folder, name: name),
            wait=True,
            timeout=240,
            **more,
        )
    finally:
        platform.over.set()
        platform.join(120)
    assert platform.error is None
    return done, platform


@pytest.mark.parametrize("kind", ["TrainingWorkload", "DistributedWorkload", "InteractiveWorkload"])
def test_the_chain_of_objects_of_runai_is_measured_as_it_was_made(kind: str, runai: World) -> None:
    """Job and pod group have different times, and the interval of each meets the request that created the object."""
    distributed = kind == "DistributedWorkload"
    job = {"use": "PyTorchJob", "select": "owners"} if distributed else "RunaiJob"
    done, platform = through_runai(runai, kind, [kind, job, "RunaiPodGroup", {"use": "Pod", "select": "owners"}])
    assert done["counts"]["succeeded"] == 3, done
    table = timeline_builder.build_timeline_of_workloads(runai.point_dir, runai.run_id, "001")
    assert not table.contradictions
    assert table.seen("accepted") == table.seen("running") == table.seen("pods_scheduled") == 3
    (anchor,) = {(row["anchor"]["wall"], row["anchor"]["monotonic"]) for row in runai.rows("ledger", "session")}
    stages = {"job": "pytorchjob_created" if distributed else "runaijob_created", "group": "podgroup_created"}
    if not distributed:  # the pods of a PyTorchJob are made by the real training-operator
        stages["pods"] = "pods_created"
    for row, name in enumerate(table.name):
        for event, stage in stages.items():
            before, after = (anchor[0] + moment - anchor[1] for moment in platform.truth[name][event])
            assert table.earliest[stage][row] <= after and before <= table.latest[stage][row], (name, stage)
        # No object came sooner after the previous one than the platform waits.
        assert table.latest[stages["job"]][row] - table.earliest["created"][row] >= DELAYS["job"]
        assert table.latest["podgroup_created"][row] - table.earliest[stages["job"]][row] >= DELAYS["group"]
    seen = {stamps.sentinels for _row, stamps in runai_export.fully_measured_workloads(table)}
    assert len(seen) == 1 and seen.pop().isdisjoint({"jobCreatedTimestamp", "podGroupCreatedTimestamp"})


@pytest.mark.long
def test_the_sample_command_of_the_tool_is_a_closed_loop_through_runai(
    runai: World, rehearsal: support.Rehearsal, tmp_path: Path
) -> None:
    """``-t training -n 2000 -p 5 --delay 1``, with ten workloads: five at once, a second between, until all run."""
    job = runai_platform.runai_job
    platform = Platform(runai.client, "runai-project-0", "TrainingWorkload", {**DELAYS, "run": 0}, job)
    platform.start()
    words = ["-e", "preset=training_2000,runai", "-e", "workload_scale_count=10", "-e", "workload_scale_timeout=120"]
    words += ["-e", "cluster_provider=existing", "-e", f"cluster_kubeconfig={rehearsal.kubeconfig}"]
    try:
        done = play(*words, "-e", "cluster_exclusive=true", artifacts=tmp_path, project="workload_scale")
    finally:
        platform.over.set()
        platform.join(120)
    assert done.code == 0 and platform.error is None, done.output[-6000:]
    point = run_dirs(tmp_path)[0] / "points/001"
    attempts = [row for row in files.read_json_lines(point / "ledger.jsonl") if row["type"] == "attempt"]
    assert [row["status"] for row in attempts] == [201] * 10
    first, second = attempts[:5], attempts[5:]
    assert min(row["sent"] for row in second) >= max(row["answered"] for row in first) + 1
    rows = [one for one in files.read_json_lines(point / "timeline.jsonl") if one["type"] == "workload"]
    assert all(one["outcome"] == "succeeded" and "succeeded" not in one["stages"] for one in rows)
    for one in rows:
        stages = one["stages"]
        assert stages["runaijob_created"][0] <= stages["podgroup_created"][1] <= stages["pods_scheduled"][1]
    names = {"submitted.json", "sampled.json", "times.csv", "names.csv", "general.png", "detailed.png"}
    assert {one.name for one in (point / "runai").iterdir()} == names
    sampled = json.loads((point / "runai/sampled.json").read_text(encoding="utf-8"))
    assert {(one["projectName"], one["jobNamespace"]) for one in sampled} == {("project-0", "runai-project-0")}
    assert len(sampled) == 10
    assert runai.client.get(runai.client.kind("v1", "Namespace"), "runai-project-0") is None


def test_kinds_of_runai_that_a_cluster_lacks_are_left_out(world: World) -> None:
    with runai_platform.definitions(world.client, ("TrainingWorkload", "RunaiJob")):
        parts = ["TrainingWorkload", {"use": "RunaiJob", "optional": True}, {"use": "RunaiPodGroup", "optional": True}]
        platform = Platform(world.client, world.namespace, "TrainingWorkload", DELAYS, runai_platform.runai_job)
        templates = [template("TrainingWorkload", world, gpus=0)]
        stages = workload_kinds.resolve_stage_definitions(parts, lambda _folder, name: name)
        done = world.submit(count=1, templates=templates, stages=stages, wait=False)
    assert not platform.truth and done["counts"]["created"] == 1
    assert any("no PodGroup (scheduling.run.ai/v2alpha2 or" in note for note in done["notes"]), done["notes"]
    assert not any("RunaiJob" in note for note in done["notes"])


def test_interactive_workloads_end_each_by_itself_when_their_time_is_over(nodes: World) -> None:
    world = nodes
    lifetime = {"type": "uniform", "low": 0.5, "high": 2.5}
    done = world.submit(
        count=5,
        seed=3,
        templates=[template("StatefulSet", world, gpus=0, resources={"cpu": "10m"})],
        stages=workload_kinds.resolve_stage_definitions(["StatefulSet", "Pod"], lambda _folder, name: name),
        wait=True,
        timeout=240,
        lifetime=lifetime,
    )
    assert done["counts"]["succeeded"] == done["counts"]["stopped"] == 5 and not done["timed_out"], done
    assert done["counts"]["deleted"] == 0
    ready, gone = {}, {}
    for row in world.rows("observations", "event"):
        if row["kind"] == "StatefulSet" and row["values"].get("ready"):
            ready.setdefault(row["index"], row["received"])
        if row["kind"] == "StatefulSet" and row["event"] == "DELETED":
            gone[row["index"]] = row["received"]
    stops = {row["index"]: row for row in world.rows("ledger", "stop")}
    assert set(ready) == set(gone) == set(stops) == set(range(5))
    for index, row in stops.items():
        due = ready[index] + random_draws.draw_number_for_workload(index, lifetime, 3, "lifetime")
        assert row["intended"] == pytest.approx(due, abs=0.002) and row["sent"] >= row["intended"]
        assert row["sent"] <= gone[index] + 0.001
    table = timeline_builder.build_timeline_of_workloads(world.point_dir, world.run_id, "001")
    assert table.outcome == ["succeeded"] * 5
    assert world.names("apps/v1", "StatefulSet") == []


def test_a_resumed_load_stops_what_the_killed_one_left(nodes: World) -> None:
    options: dict[str, Any] = {
        "count": 2,
        "templates": [template("StatefulSet", nodes, gpus=0, resources={"cpu": "10m"})],
        "stages": workload_kinds.resolve_stage_definitions(["StatefulSet", "Pod"], lambda _folder, name: name),
        "wait": True,
        "timeout": 110,
    }
    first = nodes.start("submit", lifetime={"type": "fixed", "mean": 3600}, **options)
    path, deadline = nodes.point_dir / "observations.jsonl", time.monotonic() + 120
    while not path.exists() or path.read_bytes().count(b'"ready":true') < 2:
        assert first.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert len(nodes.names("apps/v1", "StatefulSet")) == 2
    done = nodes.submit(lifetime={"type": "fixed", "mean": 0.1}, **options)
    assert done["counts"]["stopped"] == done["counts"]["succeeded"] == 2, done
    assert nodes.names("apps/v1", "StatefulSet") == []


# Reports beside a session that works: test_sample.py and test_open_run.py. Runs of this project: test_ci_wrapper.py.
@pytest.mark.long
def test_a_report_can_be_made_again_and_again_while_the_run_goes_on(tmp_path: Path) -> None:
    artifacts, log = tmp_path / "artifacts", tmp_path / "log"
    words = {"matrix": {}, "workload_scale_arrival": {"type": "constant", "rate": 0.8}}
    process = begin(
        "-e", "preset=light", "-e", json.dumps(words), "-e", "workload_scale_count=24",
        "-e", "workload_scale_runai_files=true",
        artifacts=artifacts, log=log, project="workload_scale",
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 300
        while not list(artifacts.glob("*/points/001/observations.jsonl")):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text(errors="replace")[-4000:]
            time.sleep(0.5)
        run = run_dirs(artifacts)[0]
        before = files.read_yaml(run / "run.yml")["phases"]["test"]
        for _each in range(2):
            done = play("--tags", "report", "-e", f"run_dir={run}", artifacts=artifacts, project="workload_scale")
            assert done.code == 0, done.output[-4000:]
            assert "this is the report of the results so far" in done.output
            assert (run / "report" / "index.html").exists()
        record = files.read_yaml(run / "run.yml")
        assert record["phases"]["test"]["started"] == before["started"] and len(record["sessions"]) == 1
        assert process.wait(timeout=600) == 0, log.read_text(errors="replace")[-6000:]
    finally:
        if process.poll() is None:
            process.terminate()
    assert files.read_yaml(run / "run.yml")["status"] == "passed"
    rows = [one for one in files.read_json_lines(run / "points/001/timeline.jsonl") if one["type"] == "workload"]
    assert [one["outcome"] for one in rows] == ["succeeded"] * 24
    assert all(one["stages"]["persistentvolumeclaim_bound"][1] > one["sent"] + 1 for one in rows)  # 1 s is played
    assert {name: [one["template"] for one in rows].count(name) for name in ("team-a", "team-b")} == {
        "team-a": 16,
        "team-b": 8,
    }
    assert len(json.loads((run / "points/001/runai/sampled.json").read_text(encoding="utf-8"))) == 24


@pytest.mark.long
def test_workloads_go_through_queues_of_kueue_that_the_run_makes(tmp_path: Path, rehearsal_folder: Path) -> None:
    own = {
        "rehearsal_name": f"scale-{secrets.token_hex(3)}",
        "rehearsal_data_dir": str(rehearsal_folder),
        "workload_scale_count": 4,
        "workload_scale_pvc": False,
        "matrix": {"workload_scale_type": ["training", "distributed"]},
    }
    done = play("-e", "preset=light,kueue", "-e", json.dumps(own), artifacts=tmp_path, project="workload_scale")
    assert done.code == 0, done.output[-6000:]
    run = run_dirs(tmp_path)[0]
    for point in ("001", "002"):
        rows = [
            one for one in files.read_json_lines(run / f"points/{point}/timeline.jsonl") if one["type"] == "workload"
        ]
        assert [one["outcome"] for one in rows] == ["succeeded"] * 4
        for one in rows:
            stages = one["stages"]
            assert stages["created"][0] <= stages["workload_quota_reserved"][1] <= stages["workload_admitted"][1]
            assert stages["workload_admitted"][0] <= stages["pods_scheduled"][1]


STEPS = {"type": "steps", "steps": [{"rate": rate, "duration": 3} for rate in (5, 10, 20)]}
#: The large presets with little of everything, but for what makes them what they are.
SMALLER: dict[str, dict[str, Any]] = {
    "training_2000": {"workload_scale_count": 40},
    "distributed_1000_pvc": {
        "workload_scale_count": 4,
        "workload_scale_arrival": {"type": "closed", "batch": 1, "delay": 1},
    },
    "burst": {"workload_scale_count": 200},
    "soak": {"workload_scale_count": 8, "workload_scale_arrival": {"type": "poisson", "rate": 2}},
    "saturation": {"workload_scale_arrival": STEPS},
    "saturation_10000": {"workload_scale_arrival": STEPS},
}


@pytest.mark.long
@pytest.mark.parametrize("preset", SMALLER)
def test_a_large_preset_runs_at_a_smaller_count(tmp_path: Path, rehearsal_folder: Path, preset: str) -> None:
    own = {
        "rehearsal_name": f"scale-{secrets.token_hex(3)}",
        "rehearsal_data_dir": str(rehearsal_folder),
        "fake_gpu_nodes": 10,
        "workload_scale_run_seconds": 3,
        "workload_max_lateness": 60,  # how busy this machine is says nothing of a preset
        **SMALLER[preset],
    }
    done = play("-e", f"preset={preset}", "-e", json.dumps(own), artifacts=tmp_path, project="workload_scale")
    assert done.code == 0, done.output[-6000:]
    run = run_dirs(tmp_path)[0]
    rows = [one for one in files.read_json_lines(run / "points/001/timeline.jsonl") if one["type"] == "workload"]
    assert len(rows) == own.get("workload_scale_count", 105)
    assert {one["outcome"] for one in rows} == {"succeeded"}
    assert {one["pods"] for one in rows} == {8 if preset == "distributed_1000_pvc" else 1}
    kpis = {one["name"]: one for one in files.read_json(run / "points/001/kpis.json")["kpis"]}
    assert (kpis["time_to_bound_p95"]["value"] is not None) == (preset == "distributed_1000_pvc")
    # Few steps on a machine that is busy with other tests: whether it bends is open, but all of them are looked at.
    assert ("knee" in kpis) == preset.startswith("saturation")
    assert not preset.startswith("saturation") or kpis["knee"]["of"] == 3
