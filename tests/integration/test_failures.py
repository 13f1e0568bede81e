# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures of nodes and pods under loads on a real control plane: stages, the schedule, what is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any

import drive_workload
import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import conditions_by_type
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures.failure_schedule import OF_PODS
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import (
    failure_recoveries,
)
from failing_load import (
    BEGIN,
    check_stages,
    failing_cluster,
    load,
    nodes_are_whole,
    within_patience,
)
from load_world import World, world_on


@pytest.fixture(scope="module")
def cluster(rehearsal_folder: Path) -> Iterator[support.Rehearsal]:
    with failing_cluster(rehearsal_folder, "failures") as found:
        yield found


@pytest.fixture
def world(cluster: support.Rehearsal, tmp_path: Path) -> Iterator[World]:
    with world_on(cluster.kubeconfig, tmp_path) as found:
        yield found


def test_each_stage_of_a_recovery_meets_the_audit_log(world: World, cluster: support.Rehearsal) -> None:
    failures = [
        {"kind": "node_lost", "at": [BEGIN], "duration": 25.0},
        {"kind": "pod_killed", "at": [BEGIN + 1]},
        {"kind": "container_oom", "at": [BEGIN + 2]},
    ]
    found = world.submit(**load(30, *failures))
    assert found["counts"]["succeeded"] == 4, found
    assert found["failures"] == {"node_lost": 1, "pod_killed": 1, "container_oom": 1}
    assert "failures: 1 node_lost" in found["msg"]
    seen = check_stages(world, Path(cluster.cluster["audit_log"]))
    assert set(seen.injected) == {"node_lost", "pod_killed", "container_oom"}
    lost = [recovery for recovery in seen.recoveries if recovery.kind == "node_lost"]
    assert lost and {recovery.kind for recovery in seen.recoveries} == set(seen.injected)
    # A node that has just renewed its lease is lost after the grace period, another one up to a renewal earlier.
    assert all(recovery.stages["detected"][1] - recovery.injected[0] > 2 for recovery in lost)
    assert 0 < seen.useful < seen.held, "each pod has a GPU"
    assert within_patience(lambda: nodes_are_whole(world)), "a lost node did not come back"


@pytest.mark.long
def test_a_load_with_the_same_seed_has_the_same_failures_of_the_same_roles(
    cluster: support.Rehearsal, tmp_path: Path
) -> None:
    failures = [
        {"kind": "pod_killed", "at": [BEGIN], "count": 2},
        {"kind": "container_oom", "rate": 3600.0, "since": BEGIN, "until": BEGIN + 3},
        {"kind": "node_drained", "at": [BEGIN + 4], "duration": 2.0},
    ]
    seen = []
    for session in ("first", "second"):
        with world_on(cluster.kubeconfig, tmp_path / session) as world:
            # Enough pods that each node runs some of them until the last failure.
            found = world.submit(**{**load(25, *failures), "count": 8})
            assert found["counts"]["succeeded"] == 8, found
            (schedule,) = world.rows("failures", "schedule")
            rows = world.rows("failures", "inject")
            roles = [(row["number"], [pod["role"] for pod in row["pods"]]) for row in rows if row["kind"] in OF_PODS]
            drained = [row["target"] for row in rows if row["kind"] == "node_drained"]
            seen.append((schedule["seed"], schedule["failures"], roles, drained))
            intended = [row["intended"] for row in world.rows("failures", "injected")]
            due = [schedule["failures"][row["number"]]["at"] for row in rows]
            gaps = [first - second for first, second in zip(intended, due, strict=True)]
            assert max(gaps) - min(gaps) < 0.001, "each is due at its time after the start"
            assert within_patience(partial(nodes_are_whole, world))
    assert seen[0] == seen[1] and len(seen[0][2]) >= 3, seen


def test_failures_of_nodes_are_undone_when_the_load_is_over(world: World) -> None:
    failures = [
        {"kind": "node_drained", "at": [BEGIN], "duration": 0},
        {"kind": "gpu_lost", "at": [BEGIN + 2], "duration": 0},
    ]
    found = world.submit(**load(25, *failures))
    assert found["counts"]["succeeded"] == 4 and found["failures"] == {"node_drained": 1, "gpu_lost": 1}, found
    undone = world.rows("failures", "undone")
    assert len(undone) == 2 and all(row["changed"] for row in undone)
    assert within_patience(lambda: nodes_are_whole(world))
    drained = failure_recoveries.read_point_failures(world.point_dir, world.run_id, "001")
    assert {recovery.kind for recovery in drained.recoveries} == {"node_drained"}


def test_a_pod_that_is_held_on_a_lost_node_ends_only_when_it_is_released(world: World) -> None:
    """Whichever way KWOK has started: some of its processes play pods of nodes whose lease they don't hold."""
    container = {"name": "c", "image": "none", "resources": {"limits": {"cpu": "1"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "held", "namespace": world.namespace}}
    kind = world.client.kind_of(pod)
    path = kind.path(world.namespace, "held")

    def mark(value: str | None) -> None:
        marks = {run_labels.FAILURE: value, **({} if value else {run_labels.HELD: None})}
        world.client.request("PATCH", path, {"metadata": {"annotations": marks}}, None, MERGE_PATCH)

    def found() -> dict[str, Any]:
        return world.client.get(kind, "held", world.namespace) or {}

    world.client.create({**pod, "spec": {"restartPolicy": "Never", "containers": [container]}})
    assert within_patience(lambda: found()["status"].get("phase") == "Running")
    mark("test-0")
    assert within_patience(lambda: run_labels.HELD in found()["metadata"]["annotations"])
    world.client.delete(kind, "held", world.namespace)
    time.sleep(3)
    assert found()["metadata"]["deletionTimestamp"] and found()["status"]["phase"] == "Running"
    mark(None)
    assert within_patience(lambda: not found())


def test_a_gpu_that_a_health_agent_reports_as_lost_costs_the_pods_that_do_not_tolerate_it(world: World) -> None:
    marks = {"condition": "GPUHealthy=False", "taint": "example.com/gpu-lost=true:NoExecute"}
    process = world.start(**load(40, {"kind": "gpu_lost", "at": [BEGIN], "duration": 0, **marks}))
    kind = world.client.kind("v1", "Node")

    def marked() -> list[tuple[str, str, list[str]]]:
        nodes = world.client.list(kind)[0]
        return [
            (node["metadata"]["name"], condition["status"], [taint["key"] for taint in node["spec"].get("taints", ())])
            for node in nodes
            if (condition := conditions_by_type(node).get("GPUHealthy"))
        ]

    # The taint is written after the condition.
    seen = within_patience(lambda: [node for node in marked() if node[2]])
    time.sleep(12)  # the node reports its own conditions meanwhile
    assert marked() == seen
    found = drive_workload.result(process)
    assert found["counts"]["succeeded"] == 4 and found["failures"] == {"gpu_lost": 1}, found
    (failed,) = world.rows("failures", "inject")
    assert seen == [(failed["target"], "False", ["example.com/gpu-lost"])] and failed["pods"]
    assert [row["changed"] for row in world.rows("failures", "undone")] == [True]
    assert marked() == [] and within_patience(lambda: nodes_are_whole(world))
    hit = failure_recoveries.read_point_failures(world.point_dir, world.run_id, "001").recoveries
    assert sum(recovery.pods for recovery in hit) == len(failed["pods"])
    assert all(not isnan(recovery.stages[stage][0]) for recovery in hit for stage in ("disrupted", "whole"))


def test_a_failure_that_no_node_can_have_is_refused_before_anything_is_created(world: World) -> None:
    found = world.submit(**load(5, {"kind": "controller_restarted", "at": [1.0], "process": "kube-schedular"}))
    assert found["failed"] == "InputError" and "did you mean 'kube-scheduler'?" in found["msg"]
    found = world.submit(**load(5, {"kind": "node_lost", "at": [1.0], "selector": "rack=none"}))
    assert found["failed"] == "InputError" and "no node has the labels 'rack=none'" in found["msg"]
    assert world.names() == [] and not (world.point_dir / "failures.jsonl").exists()


def test_a_failure_after_the_end_of_the_load_is_refused_before_anything_is_created(world: World) -> None:
    late = {**load(5, {"kind": "pod_killed", "at": [5.0, 500.0]}), "arrival": {"type": "constant", "rate": 1}}
    found = world.submit(**late)
    assert found["failed"] == "InputError" and "at is 500 s, and the load is over after 183 s" in found["msg"]
    assert world.names() == [] and not (world.point_dir / "failures.jsonl").exists()
