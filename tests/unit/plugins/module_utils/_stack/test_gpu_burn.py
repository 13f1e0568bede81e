# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A burn-in of all GPUs, on an API server that answers as scripted: there is no GPU here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    ProcessError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import gpu_burn
from scripted_server import ScriptedServer, status_object

JOBS, SPACE = "/apis/batch/v1/namespaces/gpus/jobs", "/api/v1/namespaces/gpus/pods"
RESULTS = {"a": "100.0%  proc'd: 10\nTested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: FAULTY\n", "c": "\tGPU 0: OK\n"}


def node(name: str, gpus: str, **labels: str) -> dict[str, Any]:
    named = {"nvidia.com/gpu.product": "NVIDIA-L40S", **{f"nvidia.com/gpu.{key}": one for key, one in labels.items()}}
    return {"metadata": {"name": name, "labels": named}, "status": {"allocatable": {"nvidia.com/gpu": gpus}}}


class Cluster:
    """Nodes, and Jobs whose pods have ended at once (or never, if ``phase`` is Pending)."""

    def __init__(self, nodes: list[dict[str, Any]], phase: str = "Succeeded") -> None:
        self.nodes, self.phase = nodes, phase
        self.jobs: dict[str, dict[str, Any]] = {}
        self.created: list[dict[str, Any]] = []

    def pods(self) -> list[dict[str, Any]]:
        found = []
        for name, job in self.jobs.items():
            required = job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
            terms = required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            on = {} if self.phase == "Pending" else {"nodeName": terms[0]["matchFields"][0]["values"][0]}
            metadata = {"name": f"{name}-pod", "namespace": "gpus", "labels": job["metadata"]["labels"]}
            found.append({"metadata": metadata, "spec": on, "status": {"phase": self.phase}})
        return found

    def answer(self, asked: Any) -> Any:
        path = asked.path.partition("?")[0]
        kinds = {
            "/api/v1": [{"name": "nodes", "kind": "Node"}, {"name": "pods", "kind": "Pod", "namespaced": True}],
            "/apis/batch/v1": [{"name": "jobs", "kind": "Job", "namespaced": True}],
        }
        lists = {"/api/v1/nodes": self.nodes, JOBS: list(self.jobs.values()), SPACE: self.pods()}
        if path in kinds:
            return 200, {"resources": [{"namespaced": False, "verbs": ["list"], **one} for one in kinds[path]]}
        if asked.method == "POST":
            job = json.loads(asked.body)
            job["metadata"]["uid"] = f"u{len(self.created)}"
            self.created.append(job)
            self.jobs[job["metadata"]["name"]] = job
            return 201, job
        if asked.method == "DELETE":
            return 200, self.jobs.pop(path.rpartition("/")[2])
        if path in lists:
            return 200, {"metadata": {"resourceVersion": "7"}, "items": lists[path]}
        if path.endswith("/log"):
            pod = next(one for one in self.pods() if one["metadata"]["name"] in path)
            return 200, RESULTS[pod["spec"]["nodeName"]].encode()
        return 404, status_object(404, "NotFound", path)


def burnt(folder: Path, cluster: Cluster, image: str = "burn:1", timeout: float = 60.0) -> list[dict[str, Any]]:
    burn = gpu_burn.GpuBurnSpec("gpus", "t1121-abcdef", 30, image, ["./gpu_burn", "{seconds}"], timeout)
    with (
        ScriptedServer(cluster.answer) as server,
        Client.from_kubeconfig(server.kubeconfig(folder / "kubeconfig")) as client,
    ):
        return gpu_burn.burn_in_all_gpus(client, burn, lambda _text: None)


def test_each_gpu_has_a_result_and_nothing_is_left(tmp_path: Path) -> None:
    cluster = Cluster([node("c", "2"), node("a", "2"), node("cpu", "0"), node("b", "1", product="simulated-A100")])
    found = burnt(tmp_path, cluster)
    assert [(one["node"], one["gpu"], one["result"]) for one in found] == [
        ("a", 0, "ok"),
        ("a", 1, "faulty"),
        ("b", 0, "simulated"),
        ("c", 0, "ok"),
        ("c", 1, "missing"),
    ]
    containers = [one["spec"]["template"]["spec"]["containers"][0] for one in cluster.created]
    assert [one["resources"]["limits"]["nvidia.com/gpu"] for one in containers] == ["2", "2"], "none for the simulated"
    assert containers[0]["command"] == ["./gpu_burn", "30"]
    assert cluster.jobs == {}
    with pytest.raises(ProcessError, match="2 of 5 GPUs failed: a GPU 1: faulty; c GPU 1: missing"):
        gpu_burn.refuse_failed_gpus(found)
    assert gpu_burn.format_burn_in_summary(found, 30) == "4 GPUs burnt in for 30 s; 1 GPU simulated, without a burn-in"


def test_with_time_slicing_devices_are_counted_and_not_their_replicas(tmp_path: Path) -> None:
    cluster = Cluster([node("a", "8", count="2")])
    assert [one["gpu"] for one in burnt(tmp_path, cluster)] == [0, 1]
    limits = cluster.created[0]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"nvidia.com/gpu": "8"}, "all replicas, so that nobody else uses the devices"


def test_simulated_gpus_need_neither_image_nor_job(tmp_path: Path) -> None:
    cluster = Cluster([node("b", "2", product="simulated-A100")])
    found = burnt(tmp_path, cluster, image="")
    gpu_burn.refuse_failed_gpus(found)
    assert cluster.created == []
    assert gpu_burn.format_burn_in_summary(found, 30) == "2 GPUs simulated, without a burn-in"


@pytest.mark.parametrize(
    "mark",
    [{"perfscale.seatrial/fake-gpus": "t1"}, {"run.ai/simulated-gpu-node-pool": "default"}],
    ids=["added by a run", "of somebody's fake-gpu-operator"],
)
def test_gpus_that_were_added_to_a_real_node_have_no_device(tmp_path: Path, mark: dict[str, str]) -> None:
    one = node("a", "2")
    one["metadata"]["labels"] |= mark
    cluster = Cluster([one])
    assert {row["result"] for row in burnt(tmp_path, cluster)} == {"simulated"}
    assert cluster.created == []


def test_what_is_missing_is_refused_before_a_job_is_made(tmp_path: Path) -> None:
    cluster = Cluster([node("a", "2")])
    with pytest.raises(InputError, match="gpu_operator_burn_image is not set, and a have GPUs|gpu_operator_burn_image"):
        burnt(tmp_path, cluster, image="")
    with pytest.raises(InputError, match="no node of .* has nvidia.com/gpu"):
        burnt(tmp_path, Cluster([node("cpu", "0")]))
    assert cluster.created == []


def test_a_burn_in_that_does_not_end_names_what_it_waits_for_and_leaves_nothing(tmp_path: Path) -> None:
    cluster = Cluster([node("a", "2")], phase="Pending")
    with pytest.raises(WaitTimeout, match="not complete after 0 s: burn-in ended on 0 of 1 node"):
        burnt(tmp_path, cluster, timeout=0.0)
    assert len(cluster.created) == 1 and cluster.jobs == {}


@pytest.mark.parametrize(("label", "number"), [("99999999999", 10_000), ("abc", 2), ("-1", 2), ("", 2), ("3", 3)])
def test_the_label_of_a_node_makes_no_endless_list_of_gpus(label: str, number: int) -> None:
    assert len(gpu_burn.burn_in_results_of_node(node("a", "2", count=label), "")) == number
