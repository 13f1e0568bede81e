"""Whether a pod could ever be scheduled: only what no waiting changes counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import why_pod_waits_or_cannot_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.why_pod_waits_or_cannot_run import (
    pod_templates_in_object,
    why_never_created,
)
from hypothesis import given
from hypothesis import strategies as st
from scripted_server import ScriptedServer

GPU = "nvidia.com/gpu"


def node(labels: dict[str, str] | None = None, **allocatable: str) -> dict[str, Any]:
    has = {name.replace("gpu", GPU): text for name, text in allocatable.items()}
    return {"metadata": {"name": "n", "labels": labels or {}}, "status": {"allocatable": has}}


SMALL = node({"pool": "small"}, cpu="4", memory="16Gi")
LARGE = node({"pool": "large"}, cpu="7500m", memory="64Gi", gpu="8")


@pytest.mark.parametrize(
    ("wanted", "selector", "nodes", "told"),
    [
        ({}, {}, [], "the cluster has no node"),
        ({GPU: 1}, {}, [SMALL], "it asks for 1 nvidia.com/gpu, and no node has any"),
        ({GPU: 16}, {}, [SMALL, LARGE], "it asks for 16 nvidia.com/gpu, and the largest node has 8"),
        ({"memory": "128Gi"}, {}, [SMALL, LARGE], "it asks for 128Gi memory, and the largest node has 64Gi"),
        ({"cpu": "6"}, {"pool": "small"}, [SMALL, LARGE], "it asks for 6 cpu, and the largest node has 4"),
        ({}, {"pool": "lagre"}, [SMALL, LARGE], "no node has the labels pool=lagre"),
        ({"cpu": "8", GPU: 1}, {}, [node(cpu="16"), LARGE], "no node has 8 cpu, 1 nvidia.com/gpu together"),
        ({"cpu": "7.5", GPU: 8, "memory": "1Gi"}, {"pool": "large"}, [SMALL, LARGE], ""),
        ({"cpu": "100m", GPU: 0}, {}, [SMALL], ""),
    ],
)
def test_it_says_why_no_node_can_take_a_pod(
    wanted: dict[str, Any], selector: dict[str, str], nodes: list[dict[str, Any]], told: str
) -> None:
    assert why_pod_waits_or_cannot_run.why_pod_is_unschedulable(wanted, selector, nodes) == told


def test_a_pod_asks_for_what_its_containers_ask_for_together_or_the_largest_of_the_first_ones() -> None:
    def asks(**resources: dict[str, str]) -> dict[str, Any]:
        return {"name": "c", "resources": resources}

    spec = {
        "containers": [asks(requests={"cpu": "1"}, limits={"cpu": "2", GPU: "1"}), asks(limits={"cpu": "500m"})],
        "initContainers": [asks(requests={"cpu": "1200m"}), asks(requests={"cpu": "1", "memory": "1Gi"})],
        "overhead": {"cpu": "250m"},
    }
    found = {name: float(text) for name, text in why_pod_waits_or_cannot_run.pod_requests(spec).items()}
    assert found == {"cpu": 1.75, GPU: 1.0, "memory": 2**30}


@given(st.lists(st.integers(0, 16), min_size=1, max_size=6), st.integers(0, 20))
def test_with_one_resource_the_largest_node_decides(has: list[int], asked: int) -> None:
    nodes = [node(gpu=str(count)) for count in has]
    assert (why_pod_waits_or_cannot_run.why_pod_is_unschedulable({GPU: asked}, {}, nodes) == "") == (asked <= max(has))


@pytest.mark.parametrize(
    ("there", "told"), [("", ""), ("/configmaps/cluster-autoscaler-status", "the cluster autoscaler")]
)
def test_an_autoscaler_is_found_by_what_it_writes(tmp_path: Path, there: str, told: str) -> None:
    def answer(asked: Any) -> Any:
        return (200, {"metadata": {}}) if there and there in asked.path else (404, {"kind": "Status", "code": 404})

    with ScriptedServer(answer) as server, Client.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig")) as client:
        assert why_pod_waits_or_cannot_run.find_node_autoscaler(client) == told


def pod(requests: dict[str, str] | None = None, limits: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return {"containers": [{"name": "c", "resources": resources}], **spec}


def quota(hard: dict[str, str], **spec: Any) -> list[dict[str, Any]]:
    return [{"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}]


def limits(**item: Any) -> list[dict[str, Any]]:
    return [{"metadata": {"name": "r"}, "spec": {"limits": [{"type": "Container", **item}]}}]


@pytest.mark.parametrize(
    ("spec", "quotas", "ranges", "why"),
    [
        (pod({"cpu": "2"}), quota({"requests.cpu": "1500m"}), [], "ResourceQuota q: one pod needs 2 requests.cpu, it"),
        (pod({"cpu": "2"}), quota({"cpu": "1"}), [], "one pod needs 2 cpu, it allows 1 in all"),
        (pod(limits={"nvidia.com/gpu": "8"}), quota({"requests.nvidia.com/gpu": "4"}), [], "8 requests.nvidia.com/gpu"),
        (pod(), quota({"pods": "0"}), [], "one pod needs 1 pods, it allows 0 in all"),
        (pod(), quota({"limits.memory": "1Gi"}), [], "container c states no limits.memory"),
        (pod(limits={"cpu": "2"}), [], limits(max={"cpu": "1"}), "LimitRange r: container c has 2 cpu as requests"),
        (pod({"memory": "1Mi"}), [], limits(min={"memory": "64Mi"}), "1Mi memory as requests, the minimum is 64Mi"),
        (pod({"cpu": "2"}, {"cpu": "3"}), [], limits(type="Pod", max={"cpu": "2"}), "a pod has 3 cpu as limits"),
    ],
)
def test_what_a_single_pod_exceeds_is_named(spec: Any, quotas: Any, ranges: Any, why: str) -> None:
    assert why in why_never_created(spec, quotas, ranges)


@pytest.mark.parametrize(
    ("spec", "quotas", "ranges"),
    [
        (pod({"cpu": "1"}), quota({"requests.cpu": "1"}), []),
        (pod(), quota({"pods": "0"}, scopes=["BestEffort"]), []),  # only of some pods
        (pod(), quota({"limits.cpu": "4"}), limits(default={"cpu": "1"})),  # the LimitRange states it
        (pod(), quota({"requests.nvidia.com/gpu": "0", "count/jobs.batch": "0"}), []),
        (pod({"cpu": "9"}), [], limits(type="PersistentVolumeClaim", max={"cpu": "1"})),
        (pod({"cpu": "9"}, resources={"requests": {"cpu": "1"}}), quota({"cpu": "1"}), []),  # of the whole pod
    ],
)
def test_what_may_be_created_later_is_not_refused(spec: Any, quotas: Any, ranges: Any) -> None:
    assert why_never_created(spec, quotas, ranges) == ""


def test_templates_are_found_in_objects_of_any_kind() -> None:
    template = {"metadata": {}, "spec": pod()}
    training = {"spec": {"pytorchReplicaSpecs": {"Master": {"template": template}, "Worker": {"template": template}}}}
    sets = {"spec": {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": template}}}]}}
    assert list(pod_templates_in_object(training)) == [pod(), pod()] and list(pod_templates_in_object(sets)) == [pod()]
    leaders = {"spec": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": template, "leaderTemplate": template}}}
    assert list(pod_templates_in_object(leaders)) == [pod(), pod()]
    assert list(pod_templates_in_object({"spec": {"podTemplate": template}})) == [pod()], "of a Sandbox"
    assert (
        list(pod_templates_in_object({"spec": {"template": "text", "runtimeRef": {"template": {"spec": None}}}})) == []
    )
