"""The doctor on a real control plane: it names what a user may not do, and what it prints is enough for the load."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rehearsal as support
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from load_world import World, without_rights
from playbook import play, run_dirs


@pytest.fixture
def nobody(world: World, tmp_path: Path) -> tuple[str, str]:
    """A kubeconfig of a service account without any right, and its name as a user."""
    return without_rights(world, tmp_path)


def test_what_is_missing_is_named_and_what_is_printed_is_enough(
    world: World, nobody: tuple[str, str], tmp_path: Path
) -> None:
    kubeconfig, user = nobody
    rbac = tmp_path / "rbac.yml"
    given: dict[str, Any] = {
        "doctor_project": "workload_scale",
        "doctor_phases": ["test"],
        "doctor_subject": user,
        "doctor_rbac_file": rbac.name,  # relative to where the user stands
        "cluster_kubeconfig": Path(kubeconfig).name,
        "workload_scale_gpus": 0,
        "workload_scale_count": 4,
        "workload_scale_projects": [{"name": "one", "namespace": world.namespace}],
    }
    words = ["-e", json.dumps(given)]
    before = play(*words, artifacts=tmp_path, project="doctor", cwd=tmp_path)
    assert before.code != 0
    assert before.output.count(f"watch jobs.batch in namespace {world.namespace} (phase test)") == 1, before.output
    documents = list(yaml.safe_load_all(rbac.read_text(encoding="utf-8")))
    assert [one["kind"] for one in documents] == ["Role", "RoleBinding"]
    for one in documents:
        world.client.create(one)
    after = play(*words, artifacts=tmp_path, project="doctor", cwd=tmp_path)
    assert after.code == 0, after.output
    assert "point 001: 4 workloads in about 6 s, 0.00 GPU hours" in after.flat()
    done = world.submit(kubeconfig=kubeconfig, count=4, wait=False)
    assert (done["counts"]["created"], done["notes"]) == (4, []), done


def test_a_project_that_says_nothing_of_its_needs_is_named(tmp_path: Path, world: World) -> None:
    words = ["-e", "doctor_project=workload_sacle", "-e", f"cluster_kubeconfig={world.kubeconfig}"]
    done = play(*words, artifacts=tmp_path, project="doctor")
    assert done.code != 0 and "did you mean 'workload_scale'?" in done.flat()


def test_a_run_that_nothing_can_be_scheduled_for_fails_before_it_prepares_anything(
    world: World, tmp_path: Path
) -> None:
    given = {
        "cluster_provider": "existing",
        "cluster_kubeconfig": world.kubeconfig,
        "fine_tuning_node_selector": {"pool": "nowhere"},
        "fine_tuning_namespace": f"{world.namespace}-new",
    }
    words = ["-e", "preset=light", "-e", json.dumps(given), "--tags", "cluster,prepare,test,release"]
    done = play(*words, artifacts=tmp_path)
    assert done.code != 0 and "lacks what the run needs: " in done.flat(), done.output[-4000:]
    assert "no node" in done.flat() and "doctor_fail=false" in done.flat()
    record = files.read_yaml(run_dirs(tmp_path)[0] / "run.yml")
    assert record["phases"]["prepare"]["status"] == "failed" and "test" not in record["phases"]
    kind = world.client.kind("v1", "Namespace")
    assert world.client.get(kind, given["fine_tuning_namespace"]) is None


@pytest.mark.long
def test_a_cluster_without_the_kinds_of_an_api_is_refused_with_the_apis_that_it_has(
    own_instance: Callable[..., cluster_lifecycle.RehearsalOptions], tmp_path: Path
) -> None:
    info = cluster_lifecycle.create_or_repair_instance(
        own_instance("older", components=["training-operator"]), support.quiet
    )
    given = {
        "cluster_provider": "existing",
        "cluster_kubeconfig": info["kubeconfig"],
        "fake_gpu_real_cluster": True,
        "fine_tuning_api": "trainjob",
    }
    words = ["-e", "preset=light", "-e", json.dumps(given)]
    ran = play(*words, "--tags", "cluster,prepare,test,release", artifacts=tmp_path)
    asked = play(*words, artifacts=tmp_path, project="doctor")
    for done in (ran, asked):
        assert done.code != 0, done.output
        assert "fine_tuning_api=trainjob needs TrainJob (trainer.kubeflow.org/v1alpha1) and JobSet (" in done.flat()
        assert "or set fine_tuning_api=pytorchjob or fine_tuning_api=job" in done.flat()
        assert "has no API version" not in done.flat()
    with Client.from_kubeconfig(info["kubeconfig"]) as client:
        names = {one["metadata"]["name"] for one in client.list(client.kind("v1", "Namespace"))[0]}
    assert not [name for name in names if name.startswith("fine-tuning-")]


def test_nodes_that_the_run_makes_itself_count_as_there(world: World, tmp_path: Path) -> None:
    words = ["-e", f"cluster_kubeconfig={world.kubeconfig}", "-e", "preset=light", "-e", "fake_gpu_real_cluster=true"]
    done = play(*words, artifacts=tmp_path, project="doctor")
    assert done.code == 0 and "2 more with 8 nvidia.com/gpu" in done.flat(), done.output
