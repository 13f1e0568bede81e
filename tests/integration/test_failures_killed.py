# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loads with failures that are killed, or whose control plane fails: nothing stays broken."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import run_cleanup
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import (
    failure_recoveries,
)
from failing_load import (
    BEGIN,
    failing_cluster,
    load,
    nodes_are_whole,
    processes_of,
    within_patience,
)
from killed_runs import end, give_back
from load_world import World, world_on
from playbook import begin, run_dirs


@pytest.fixture(scope="module")
def cluster(rehearsal_folder: Path) -> Iterator[support.Rehearsal]:
    with failing_cluster(rehearsal_folder, "failures-killed") as found:
        yield found


@pytest.fixture
def world(cluster: support.Rehearsal, tmp_path: Path) -> Iterator[World]:
    with world_on(cluster.kubeconfig, tmp_path) as found:
        yield found


def test_a_kill_in_the_middle_of_failures_leaves_nothing_broken_after_the_cleanup(world: World) -> None:
    failures = [
        {"kind": "node_lost", "at": [BEGIN], "duration": 3600.0},
        {"kind": "node_drained", "at": [BEGIN + 1], "duration": 3600.0},
        {"kind": "gpu_lost", "at": [BEGIN + 2], "duration": 3600.0},
    ]
    process = world.start(**load(60, *failures))
    path = world.point_dir / "failures.jsonl"
    enough = within_patience(lambda: path.exists() and path.read_bytes().count(b'"injected"') >= 3)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert enough, path.read_text() if path.exists() else "nothing was injected"
    with open(path, "ab") as stream:
        stream.write(b'{"type":"undone","number":0,"tar')  # as a power cut leaves it
    assert not nodes_are_whole(world)
    spec = run_cleanup.CleanupSpec(world.kubeconfig, world.run_id, run_dir=str(world.folder))
    run_cleanup.clean_up_or_verify(spec, StepDirectory(None))
    assert within_patience(lambda: nodes_are_whole(world)), "a node stayed broken"
    left = world.client.list(world.client.kind("batch/v1", "Job"), world.namespace)[0]
    assert left == []
    assert {row["changed"] for row in world.rows("failures", "undone")} == {True}
    run_cleanup.clean_up_or_verify(spec, StepDirectory(None))
    assert len(world.rows("failures", "undone")) == 3, "what was undone was undone again"


@pytest.mark.long
def test_a_call_that_is_repeated_after_a_kill_undoes_and_goes_on(world: World) -> None:
    failures = [{"kind": "node_drained", "at": [BEGIN], "duration": 3600.0}, {"kind": "pod_killed", "at": [BEGIN + 18]}]
    process = world.start(**load(35, *failures))
    path = world.point_dir / "failures.jsonl"
    assert within_patience(lambda: path.exists() and b'"injected"' in path.read_bytes())
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    other = world.submit(**load(35, {**failures[0], "at": [BEGIN + 1]}, failures[1]))
    assert other["failed"] == "InputError" and "those of an earlier call" in other["msg"]
    assert within_patience(lambda: nodes_are_whole(world)), "what the killed call left is undone first"
    found = world.submit(**load(35, *failures))
    assert found["counts"]["succeeded"] == 4, found
    assert found["failures"] == {"node_drained": 1, "pod_killed": 1}, "those of both calls"
    assert [row["kind"] for row in world.rows("failures", "inject")] == ["node_drained", "pod_killed"]
    assert len(world.rows("failures", "schedule")) == 1
    assert within_patience(lambda: nodes_are_whole(world))


def test_a_load_goes_on_when_the_api_server_was_away_and_a_controller_was_killed(
    world: World, cluster: support.Rehearsal
) -> None:
    failures = [
        {"kind": "api_away", "at": [4.0], "duration": 5.0},
        {"kind": "pod_killed", "at": [5.0]},
        {"kind": "controller_restarted", "at": [12.0], "duration": 3.0},
    ]
    controllers = processes_of(cluster)["kube-controller-manager"]
    options = {**load(8, *failures), "count": 14, "arrival": {"type": "constant", "rate": 1}, "breaker_latency": 0.5}
    found = world.submit(**options)
    assert found["counts"]["succeeded"] == 14, found
    assert found["failures"]["api_away"] == 1 and found["failures"]["controller_restarted"] == 1
    undone = world.rows("failures", "undone")
    assert [row["changed"] for row in undone] == [True, True]
    assert processes_of(cluster)["kube-controller-manager"] != controllers
    seen = failure_recoveries.read_point_failures(world.point_dir, world.run_id, "001")
    away, restarted = seen.outages
    assert 5 <= away.undone[1] - away.injected[0] < 7 and 3 <= restarted.undone[1] - restarted.injected[0] < 5
    injected = {row["number"]: row for row in world.rows("failures", "injected")}
    begin, end = injected[0]["answered"], undone[0]["sent"]
    answers = [row["answered"] for row in world.rows("ledger", "attempt") if row.get("answered")]
    assert not [moment for moment in answers if begin < moment < end], "it answered while it was away"
    assert injected[1]["sent"] >= end, "a pod is killed when the API server is back"


def test_a_kill_while_the_control_plane_fails_leaves_one_that_works(world: World, cluster: support.Rehearsal) -> None:
    failures = [
        {"kind": "controller_restarted", "at": [2.0], "duration": 100.0},
        {"kind": "api_away", "at": [3.0], "duration": 100.0},
    ]
    process = world.start(**load(30, *failures))
    path = world.point_dir / "failures.jsonl"
    enough = within_patience(lambda: path.exists() and path.read_bytes().count(b'"injected"') >= 2)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert enough, path.read_text() if path.exists() else "nothing was injected"
    assert "kube-controller-manager" not in processes_of(cluster)
    world.client.request("GET", "/version")  # it goes on although nobody has undone it
    spec = run_cleanup.CleanupSpec(world.kubeconfig, world.run_id, run_dir=str(world.folder))
    run_cleanup.clean_up_or_verify(spec, StepDirectory(None))
    assert "kube-controller-manager" in processes_of(cluster)
    assert {row["target"] for row in world.rows("failures", "undone")} == {"kube-apiserver", "kube-controller-manager"}
    assert world.client.list(world.client.kind("batch/v1", "Job"), world.namespace)[0] == []


@pytest.mark.long
def test_a_run_that_is_killed_in_mid_failure_leaves_nothing_broken_after_its_command(
    world: World, cluster: support.Rehearsal, tmp_path: Path
) -> None:
    """On a cluster that the run has not started, with nodes of others: nothing removes what it broke there."""
    data, artifacts = Path(cluster.info["data_dir"]), tmp_path / "artifacts"
    kinds = ("node_lost", "node_drained", "gpu_lost", "controller_restarted")
    own = {
        "rehearsal_name": data.name,
        "rehearsal_data_dir": str(data.parent),
        "rehearsal_components": ["node-failures-fast"],
        "fake_gpu_nodes": 0,
        "workload_scale_kind": "Job",
        "workload_scale_workers": 1,
        "workload_scale_gpus": 8,  # one on each node
        "workload_scale_count": 3,
        "workload_scale_run_seconds": 200,
        "workload_failures": [
            {"kind": kind, "at": [BEGIN + number], "duration": 3600} for number, kind in enumerate(kinds)
        ],
    }
    words = ("-e", json.dumps({"preset": "failures", "overrides": own}))
    process = begin(*words, artifacts=artifacts, log=tmp_path / "log", project="workload_scale")
    try:
        deadline = time.monotonic() + 600
        while injected(artifacts) < len(kinds) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
        assert injected(artifacts) == len(kinds), (tmp_path / "log").read_text()[-6000:]
    finally:
        end(process, "kill")
    assert not nodes_are_whole(world) and "kube-controller-manager" not in processes_of(cluster)
    (run,) = run_dirs(artifacts)
    done = give_back(run)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "kube-controller-manager" in processes_of(cluster)
    assert within_patience(lambda: nodes_are_whole(world)), "a node stayed broken"
    jobs = world.client.request("GET", "/apis/batch/v1/jobs")["items"]
    assert [job["metadata"]["name"] for job in jobs] == []


def injected(artifacts: Path) -> int:
    """How many failures the runs below a folder have injected."""
    return sum(path.read_bytes().count(b'"injected"') for path in artifacts.glob("*/points/*/failures.jsonl"))
