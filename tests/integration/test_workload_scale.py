"""workload_scale on a real control plane: its templates, Run:ai's kinds, and reports while a run goes on."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline import timeline_builder
from load_world import World
from playbook import ROOT, begin, play, run_dirs

TEMPLATES = ROOT / "roles" / "workload_scale" / "templates"
STAGES = ROOT / "roles" / "workload" / "files" / "stages"


def parameters(world: World, **more: Any) -> dict[str, Any]:
    """What the role's templates are rendered with."""
    usual = {
        "type": "training",
        "workers": 2,
        "kueue": False,
        "notebook": False,
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
    }
    return {**usual, **more}


def stages(*kinds: str) -> list[dict[str, Any]]:
    return [yaml.safe_load((STAGES / f"{kind}.yml").read_text(encoding="utf-8")) for kind in kinds]


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("Job", {"type": "training"}),
        ("Job", {"type": "training", "kueue": True, "pvc": True, "storage_class": "fast", "scheduler": "other"}),
        ("PyTorchJob", {"type": "distributed", "pvc": True}),
        ("PyTorchJob", {"type": "distributed", "workers": 0, "kueue": True}),
        ("StatefulSet", {"type": "interactive", "pvc": True, "gpus": 0, "gpu_fraction": 0.5}),
    ],
)
def test_the_api_server_takes_what_the_template_makes(kind: str, more: dict[str, Any], world: World) -> None:
    content = (TEMPLATES / "native.yaml.j2").read_text(encoding="utf-8")
    done = world.submit(
        count=2, templates=[{"name": "team", "content": content, "parameters": parameters(world, **more)}], stages=[]
    )
    assert done["counts"]["created"] == 2, done
    version = {"Job": "batch/v1", "PyTorchJob": "kubeflow.org/v1", "StatefulSet": "apps/v1"}[kind]
    found, _version = world.client.list(world.client.kind(version, kind), world.namespace)
    assert len(found) == 2
    labels = found[0]["metadata"]["labels"]
    assert labels.get("kueue.x-k8s.io/queue-name") == ("team" if more.get("kueue") else None)
    claims = world.client.list(world.client.kind("v1", "PersistentVolumeClaim"), world.namespace)[0]
    assert len(claims) == (2 if more.get("pvc") else 0)


@pytest.fixture
def runai(world: World) -> Iterator[World]:
    """Stand-ins for Run:ai's definitions, labelled as such; nothing of them is left."""
    kinds = ("TrainingWorkload", "DistributedWorkload", "InteractiveWorkload")
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for kind in kinds:
        plural = f"{kind.lower()}s"
        version = {
            "name": "v2alpha1",
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}},
        }
        names = {"kind": kind, "plural": plural, "singular": kind.lower()}
        world.client.create(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{plural}.run.ai", "labels": {"perfscale.seatrial/stand-in": "true"}},
                "spec": {"group": "run.ai", "scope": "Namespaced", "names": names, "versions": [version]},
            }
        )
    deadline = time.monotonic() + 30
    while True:
        try:
            for kind in kinds:
                world.client.list(world.client.kind("run.ai/v2alpha1", kind), world.namespace)
            break
        except (ApiError, InputError):  # not served yet
            assert time.monotonic() < deadline, "the stand-in definitions are not served"
            time.sleep(0.2)
    yield world
    definitions = world.client.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    for kind in kinds:
        world.client.delete(definitions, f"{kind.lower()}s.run.ai")
    deadline = time.monotonic() + 60
    while any(one["metadata"]["name"].endswith(".run.ai") for one in world.client.list(definitions)[0]):
        assert time.monotonic() < deadline, "the stand-in definitions do not go away"
        time.sleep(0.2)


class Platform(threading.Thread):
    """Plays Run:ai's controller: every workload that appears is brought through its phases."""

    def __init__(self, world: World, kind: str, phases: list[str]) -> None:
        super().__init__(daemon=True)
        self.world, self.phases, self.over = world, phases, threading.Event()
        self.kind = world.client.kind("run.ai/v2alpha1", kind)
        self.at: dict[str, int] = {}

    def run(self) -> None:
        while not self.over.wait(0.1):
            for one in self.world.client.list(self.kind, self.world.namespace)[0]:
                name = one["metadata"]["name"]
                step = self.at.get(name, 0)
                if step < len(self.phases):
                    path = f"{self.kind.path(self.world.namespace, name)}/status"
                    body = {"status": {"phase": self.phases[step]}}
                    self.world.client.request("PATCH", path, body, content_type="application/merge-patch+json")
                    self.at[name] = step + 1


@pytest.mark.parametrize(
    ("kind", "phases"),
    [
        ("TrainingWorkload", ["Pending", "Running", "Completed"]),
        ("DistributedWorkload", ["Pending", "Running", "Completed"]),
        ("InteractiveWorkload", ["Initializing", "Running"]),
    ],
)
def test_workloads_of_runai_are_made_and_followed_to_their_end(kind: str, phases: list[str], runai: World) -> None:
    made = parameters(runai, type=kind.removesuffix("Workload").lower())
    content = (TEMPLATES / "runai.yaml.j2").read_text(encoding="utf-8")
    platform = Platform(runai, kind, phases)
    platform.start()
    try:
        done = runai.submit(
            count=3,
            templates=[{"name": "team", "content": content, "parameters": made}],
            stages=stages(kind.lower()),
            wait=True,
            timeout=60,
        )
    finally:
        platform.over.set()
        platform.join(10)
    assert done["counts"]["succeeded"] == 3, done
    table = timeline_builder.build(runai.point_dir, runai.run_id, "001")
    assert table.seen("accepted") == table.seen("running") == 3


def test_a_report_can_be_made_again_and_again_while_the_run_goes_on(tmp_path: Path) -> None:
    artifacts, log = tmp_path / "artifacts", tmp_path / "log"
    words = {"matrix": {}, "workload_scale_arrival": {"type": "constant", "rate": 0.8}}
    process = begin(
        "-e", "preset=smoke", "-e", json.dumps(words), "-e", "workload_scale_count=24",
        "-e", "workload_scale_runai_files=true",
        artifacts=artifacts, log=log, project="workload_scale",
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 300
        while not list(artifacts.glob("*/points/001/observations.jsonl")):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text(errors="replace")[-4000:]
            time.sleep(0.5)
        run = run_dirs(artifacts)[0]
        before = _files.read_yaml(run / "run.yml")["phases"]["test"]
        for _each in range(2):
            done = play("--tags", "report", "-e", f"run_dir={run}", artifacts=artifacts, project="workload_scale")
            assert done.code == 0, done.output[-4000:]
            assert "this is the report of the results so far" in done.output
            assert (run / "report" / "index.html").exists()
        record = _files.read_yaml(run / "run.yml")
        assert record["phases"]["test"]["started"] == before["started"] and len(record["sessions"]) == 1
        assert process.wait(timeout=600) == 0, log.read_text(errors="replace")[-6000:]
    finally:
        if process.poll() is None:
            process.terminate()
    assert _files.read_yaml(run / "run.yml")["status"] == "passed"
    rows = [one for one in _files.read_lines(run / "points/001/timeline.jsonl") if one["type"] == "workload"]
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
    done = play("-e", "preset=smoke,kueue", "-e", json.dumps(own), artifacts=tmp_path, project="workload_scale")
    assert done.code == 0, done.output[-6000:]
    run = run_dirs(tmp_path)[0]
    for point in ("001", "002"):
        rows = [one for one in _files.read_lines(run / f"points/{point}/timeline.jsonl") if one["type"] == "workload"]
        assert [one["outcome"] for one in rows] == ["succeeded"] * 4
        for one in rows:
            stages = one["stages"]
            assert stages["created"][0] <= stages["workload_quota_reserved"][1] <= stages["workload_admitted"][1]
            assert stages["workload_admitted"][0] <= stages["pods_scheduled"][1]


STEPS = {"type": "steps", "steps": [{"rate": rate, "duration": 3} for rate in (5, 10, 20)]}
#: The large presets with little of everything, but for what makes them what they are.
SMALLER: dict[str, dict[str, Any]] = {
    "training_2000": {"workload_scale_count": 40},
    "distributed_1000_pvc": {"workload_scale_count": 4, "workload_scale_arrival": {"type": "constant", "rate": 1}},
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
    rows = [one for one in _files.read_lines(run / "points/001/timeline.jsonl") if one["type"] == "workload"]
    assert len(rows) == own.get("workload_scale_count", 105)
    assert {one["outcome"] for one in rows} == {"succeeded"}
    assert {one["pods"] for one in rows} == {8 if preset == "distributed_1000_pvc" else 1}
    kpis = {one["name"]: one for one in _files.read_json(run / "points/001/kpis.json")["kpis"]}
    assert (kpis["time_to_bound_p95"]["value"] is not None) == (preset == "distributed_1000_pvc")
    # Few steps on a machine that is busy with other tests: whether it bends is open, but all of them are looked at.
    assert ("knee" in kpis) == preset.startswith("saturation")
    assert not preset.startswith("saturation") or kpis["knee"]["of"] == 3
