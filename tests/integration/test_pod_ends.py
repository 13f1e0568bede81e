"""Pods on simulated nodes end as a kubelet lets them end; workloads that wait say why."""

from __future__ import annotations

import time
from typing import Any

import pytest
import rehearsal as support
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds
from load_world import SUSPENDED, World

POLICY = """
apiVersion: batch/v1
kind: Job
metadata: {name: keeps}
spec:
  backoffLimit: 0
  podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}
  template:
    metadata: {annotations: {perfscale.seatrial/run-seconds: "4"}}
    spec: {restartPolicy: Never, tolerations: [{operator: Exists}], containers: [{name: c, image: none}]}
"""
BARE = """
apiVersion: v1
kind: Pod
metadata: {name: "{{ name }}", annotations: {perfscale.seatrial/run-seconds: "1"}}
spec: {restartPolicy: Never, tolerations: [{operator: Exists}], containers: [{name: c, image: none}]}
"""
ZERO = """
apiVersion: apps/v1
kind: {{ kind }}
metadata: {name: "{{ name }}"}
spec:
  replicas: {{ index % 2 }}
  selector: {matchLabels: {app: "{{ name }}"}}
  template:
    metadata: {labels: {app: "{{ name }}"}}
    spec: {tolerations: [{operator: Exists}], containers: [{name: c, image: none}]}
"""


def definitions(*kinds: str) -> list[dict[str, Any]]:
    return [workload_kinds.load_kind_by_name_or_path(kind).definition for kind in kinds]


@pytest.fixture(scope="module")
def node(rehearsal: support.Rehearsal) -> Any:
    order = simulated_node_pool.NodePoolSpec(2, pool="pod-ends")
    with rehearsal.client() as client:
        fake_nodes.create_fake_nodes(client, order, 240, support.quiet)
        yield
        fake_nodes.remove_fake_nodes(client, order, 240, support.quiet)


def test_an_evicted_pod_of_a_job_with_a_failure_policy_fails_and_the_job_goes_on(world: World, node: Any) -> None:
    job = yaml.safe_load(POLICY)
    job["metadata"]["namespace"] = world.namespace
    world.client.create(job)
    jobs, pods = world.client.kind("batch/v1", "Job"), world.client.kind("v1", "Pod")
    deadline = time.monotonic() + 120
    evicted = False
    while time.monotonic() < deadline:
        held = world.client.get(jobs, "keeps", world.namespace) or {}
        if any(condition["type"] == "Complete" for condition in held.get("status", {}).get("conditions", [])):
            break
        running = [
            pod["metadata"]["name"]
            for pod in world.client.list(pods, world.namespace)[0]
            if pod["status"]["phase"] == "Running"
        ]
        if running and not evicted:
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": running[0]}}
            world.client.request("POST", pods.path(world.namespace, running[0], "eviction"), eviction)
            evicted = True
        time.sleep(0.2)
    else:
        raise AssertionError(f"the Job has not ended: {world.client.list(pods, world.namespace)[0]}")
    assert evicted


def test_a_bare_pod_ends_by_itself(world: World, node: Any) -> None:
    found = world.submit(
        count=3, templates=[{"name": "pod", "content": BARE}], stages=definitions("pod"), wait=True, timeout=60
    )
    assert found["counts"]["succeeded"] == 3, found


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_workload_scaled_to_zero_is_complete(world: World, node: Any, kind: str) -> None:
    template = {"name": "own", "content": ZERO, "parameters": {"kind": kind}}
    found = world.submit(count=4, templates=[template], stages=definitions(kind.lower()), wait=True, timeout=60)
    assert found["counts"]["succeeded"] == 4, found


def test_a_suspended_job_says_why_it_waits(world: World) -> None:
    found = world.submit(count=2, templates=[{"name": "job", "content": SUSPENDED}], wait=True, timeout=5)
    assert found["timed_out"] and "2 pending: Job suspended" in found["msg"], found
