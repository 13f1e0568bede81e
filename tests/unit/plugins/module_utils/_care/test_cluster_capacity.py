"""Whether there is room: for one pod on one node, for one workload on all, with the nodes that the run makes."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.duration_and_capacity_estimate import (
    count_node_gpus,
    load_of_planned_point,
    node_objects_to_create,
    why_capacity_is_missing,
)

GPU = "nvidia.com/gpu"


def node(count: int, resource: str = GPU) -> dict[str, Any]:
    return {"metadata": {"labels": {"pool": "a"}}, "status": {"allocatable": {"cpu": "8", resource: str(count)}}}


def plan(**given: Any) -> Any:
    return load_of_planned_point("001", {"workloads": 3, "arrival": {"type": "closed"}, **given})


@pytest.mark.parametrize(
    ("given", "nodes", "told"),
    [
        ({"gpus": 2, "requests": {GPU: 1}}, [], "the cluster has no node"),
        ({"gpus": 16, "requests": {GPU: 16}}, [node(8), node(8)], "a pod asks for 16 nvidia.com/gpu, and the largest"),
        ({"gpus": 16, "requests": {GPU: 8}}, [node(8)], "one workload wants 16 GPUs, there are 8"),
        ({"gpus": 16, "requests": {GPU: 8}}, [node(8), node(8)], ""),
        ({"gpus": 1, "requests": {"x/slice": 1}, "gpu_resource": "x/slice"}, [node(4, "x/slice")], ""),
        ({"requests": {"cpu": "100m"}, "node_selector": {"pool": "b"}}, [node(8)], "no node has the labels pool=b"),
    ],
)
def test_what_can_never_run_is_named(given: dict[str, Any], nodes: list[dict[str, Any]], told: str) -> None:
    found = why_capacity_is_missing(plan(**given), nodes)
    assert found.startswith(told) and bool(found) == bool(told)


def test_nodes_that_the_run_makes_count_as_there() -> None:
    entries = [{"count": 2, "allocatable": {GPU: 8, "cpu": 96}}, {"count": 4}]
    wanted = plan(gpus=16, requests={GPU: 8}, node_selector={"pool": "a"})
    nodes = node_objects_to_create(entries, wanted.selector)
    assert (len(nodes), count_node_gpus(wanted, nodes), why_capacity_is_missing(wanted, nodes)) == (2, 16.0, "")
