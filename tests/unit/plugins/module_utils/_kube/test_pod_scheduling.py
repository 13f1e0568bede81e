"""Whether a pod could ever be scheduled: only what no waiting changes counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import pod_scheduling
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
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
    assert pod_scheduling.why_unschedulable(wanted, selector, nodes) == told


def test_a_pod_asks_for_what_its_containers_ask_for_together_or_the_largest_of_the_first_ones() -> None:
    def asks(**resources: dict[str, str]) -> dict[str, Any]:
        return {"name": "c", "resources": resources}

    spec = {
        "containers": [asks(requests={"cpu": "1"}, limits={"cpu": "2", GPU: "1"}), asks(limits={"cpu": "500m"})],
        "initContainers": [asks(requests={"cpu": "1200m"}), asks(requests={"cpu": "1", "memory": "1Gi"})],
        "overhead": {"cpu": "250m"},
    }
    found = {name: float(text) for name, text in pod_scheduling.pod_requests(spec).items()}
    assert found == {"cpu": 1.75, GPU: 1.0, "memory": 2**30}


@given(st.lists(st.integers(0, 16), min_size=1, max_size=6), st.integers(0, 20))
def test_with_one_resource_the_largest_node_decides(has: list[int], asked: int) -> None:
    nodes = [node(gpu=str(count)) for count in has]
    assert (pod_scheduling.why_unschedulable({GPU: asked}, {}, nodes) == "") == (asked <= max(has))


@pytest.mark.parametrize(
    ("there", "told"), [("", ""), ("/configmaps/cluster-autoscaler-status", "the cluster autoscaler")]
)
def test_an_autoscaler_is_found_by_what_it_writes(tmp_path: Path, there: str, told: str) -> None:
    def answer(asked: Any) -> Any:
        return (200, {"metadata": {}}) if there and there in asked.path else (404, {"kind": "Status", "code": 404})

    with ScriptedServer(answer) as server, Client.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig")) as client:
        assert pod_scheduling.find_node_autoscaler(client) == told
