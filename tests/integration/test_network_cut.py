# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures of a real node, as its pods see them: a network that is cut between two of them, a kubelet that is away."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import rehearsal as support
import suite_prerequisites
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import run_cleanup
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import failure_recoveries
from load_world import World, world_on

pytestmark = pytest.mark.skipif(
    bool(suite_prerequisites.real_node_lacks()), reason=suite_prerequisites.real_node_lacks()
)

#: Each of two pods sends to the other one and to itself, and prints when something came from whom.
PEER = """
import os, socket, time
own, end = int(os.environ["JOB_COMPLETION_INDEX"]), time.time() + SECONDS
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.bind(("", 7000))
link.settimeout(0.1)
addresses = {}
while time.time() < end:
    for index in range(2):
        try:
            addresses[index] = addresses.get(index) or socket.gethostbyname(f"{os.environ['JOB']}-{index}.peers")
            link.sendto(str(own).encode(), (addresses[index], 7000))
        except OSError:
            time.sleep(0.1)
    try:
        while True:
            sender = link.recv(9).decode()  # before the clock is read
            print(f"{time.time():.3f} {sender}", flush=True)
    except TimeoutError:
        pass
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: "{{ name }}"}
spec:
  completionMode: Indexed
  parallelism: 2
  completions: 2
  template:
    metadata: {labels: {{ labels | to_json }}}
    spec:
      restartPolicy: Never
      subdomain: peers
      nodeSelector: {perfscale.seatrial/real: "true"}
      tolerations: [{key: perfscale.seatrial/real, operator: Exists}]
      containers:
        - name: main
          image: localhost/seatrial/python:1
          command: [python3, -c, {{ script | to_json }}]
          env: [{name: JOB, value: "{{ name }}"}]
"""
DURATION = 10.0


@pytest.fixture(scope="module")
def kubeconfig(rehearsal_folder: Path) -> Iterator[str]:
    options = support.options(rehearsal_folder, "cut", nodes_real=1, components=["python-image"])
    yield cluster_lifecycle.create_or_repair_instance(options, support.quiet)["kubeconfig"]
    cluster_lifecycle.remove_instance(support.options(rehearsal_folder, "cut", force=True), support.quiet)


@pytest.fixture
def world(kubeconfig: str, tmp_path: Path) -> Iterator[World]:
    with world_on(kubeconfig, tmp_path) as found:
        labels = {"perfscale.seatrial/run": found.run_id}
        spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels, "ports": [{"port": 7000}]}
        meta = {"name": "peers", "namespace": found.namespace}
        found.client.create({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})
        yield found


def load(seconds: int, failure: dict[str, Any]) -> dict[str, Any]:
    parameters = {"script": PEER.replace("SECONDS", str(seconds))}
    return {
        "count": 1,
        "templates": [{"name": "job", "content": JOB, "parameters": parameters}],
        "failures": [failure],
        "wait": True,
        "timeout": 240,
        "settle": 1,
        "seed": 3,
    }


def receipts(world: World, own: int) -> dict[str, list[float]]:
    """Return index of a sender -> when something of it came to the pod ``own`` of the first workload."""
    pods = world.client.list(world.client.kind("v1", "Pod"), world.namespace)[0]
    (name,) = [
        pod["metadata"]["name"]
        for pod in pods
        if pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == str(own)
        and pod["metadata"]["labels"]["perfscale.seatrial/index"] == "0"
    ]
    log = world.client.text(f"/api/v1/namespaces/{world.namespace}/pods/{name}/log")
    found: dict[str, list[float]] = {"0": [], "1": []}
    for line in log.splitlines():
        moment, sender = line.split()
        found[sender].append(float(moment))
    return found


def longest_gap(moments: list[float]) -> tuple[float, float]:
    return max(pairwise(moments), key=lambda pair: pair[1] - pair[0])


@pytest.mark.long
def test_two_pods_do_not_reach_each_other_while_the_network_between_them_is_cut(world: World) -> None:
    found = world.submit(**load(60, {"kind": "network_cut", "at": [30.0], "duration": DURATION}))
    assert found["counts"]["succeeded"] == 1, found
    assert found["failures"] == {"network_cut": 1}, world.rows("failures", "skipped")
    (injected,), (undone,) = world.rows("failures", "injected"), world.rows("failures", "undone")
    assert undone["changed"], "the guard was asked to end"
    for own in (0, 1):
        came = receipts(world, own)
        begin, end = longest_gap(came[str(1 - own)])
        assert injected["sent"] - 1 < begin <= injected["answered"] + 0.5, "the last one came before the cut"
        assert undone["sent"] - 0.5 <= end < undone["answered"] + 5, "they came again after it"
        begin, end = longest_gap(came[str(own)])
        assert end - begin < 5, "what a pod sends to itself arrives all the time"
    (recovery,) = failure_recoveries.read_point_failures(world.point_dir, world.run_id, "001").recoveries
    assert (recovery.kind, recovery.pods) == ("network_cut", 2)
    assert DURATION <= recovery.stages["whole"][1] - recovery.injected[0] < DURATION + 5


def test_a_killed_load_leaves_no_network_cut(world: World) -> None:
    process = world.start(**load(70, {"kind": "network_cut", "at": [25.0], "duration": 500.0}))
    path = world.point_dir / "failures.jsonl"
    deadline = time.monotonic() + 120
    while not (path.exists() and b'"injected"' in path.read_bytes()):
        assert time.monotonic() < deadline and process.poll() is None, "the network is not cut"
        time.sleep(0.1)
    time.sleep(3)
    killed = time.time()  # from here on the guard may end the cut
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while not (again := [moment for moment in receipts(world, 0)["1"] if moment > killed]):
        assert time.monotonic() < deadline, "the network is still cut"
        time.sleep(0.5)
    assert again[0] - killed < 20
    (injected,) = world.rows("failures", "injected")
    cut = (injected["answered"] + 0.5, killed)
    assert not [moment for moment in receipts(world, 0)["1"] if cut[0] < moment < cut[1]], cut


def kubelets(kubeconfig: str) -> list[int]:
    """Return the pids of the kubelets of the cluster."""
    return [
        pid
        for pid, environment in processes.find_by_environment_variable(
            "SEATRIAL_INSTANCE", str(Path(kubeconfig).parent)
        ).items()
        if environment and (processes.command_line_of_process(pid) or [""])[0].endswith("/kubelet")
    ]


@pytest.mark.long
def test_containers_run_on_while_their_kubelet_is_away_and_new_ones_wait_for_it(world: World, kubeconfig: str) -> None:
    (before,) = kubelets(kubeconfig)
    failure = {"kind": "kubelet_restarted", "at": [25.0], "duration": DURATION}
    options = {**load(30, failure), "count": 2, "arrival": {"type": "constant", "rate": 1 / 28}}
    found = world.submit(**options)
    assert found["counts"]["succeeded"] == 2 and found["failures"] == {"kubelet_restarted": 1}, found
    (after,) = kubelets(kubeconfig)
    assert after != before
    (injected,), (undone,) = world.rows("failures", "injected"), world.rows("failures", "undone")
    assert injected["target"] == "real-0" and undone["changed"]
    events = [row for row in world.rows("observations", "event") if row["kind"] == "Pod"]
    assert len({row["uid"] for row in events}) == 4, "no pod was made again"
    running = {row["uid"]: (row["index"], row["received"]) for row in reversed(events) if row["values"].get("running")}
    first = [moment for index, moment in running.values() if index == 0]
    second = [moment for index, moment in running.values() if index == 1]
    assert max(first) < injected["sent"] < undone["sent"] < min(second)
    came = receipts(world, 0)
    begin, end = longest_gap(came["1"])
    assert end - begin < 5, "the containers run on"
    seen = failure_recoveries.read_point_failures(world.point_dir, world.run_id, "001")
    assert seen.recoveries == [] and [outage.kind for outage in seen.outages] == ["kubelet_restarted"]


@pytest.mark.long
def test_a_killed_load_leaves_a_kubelet_that_runs(world: World, kubeconfig: str) -> None:
    process = world.start(**load(40, {"kind": "kubelet_restarted", "at": [15.0], "duration": 500.0}))
    path = world.point_dir / "failures.jsonl"
    deadline = time.monotonic() + 120
    while not (path.exists() and b'"injected"' in path.read_bytes()):
        assert time.monotonic() < deadline and process.poll() is None, "the kubelet is not killed"
        time.sleep(0.1)
    assert kubelets(kubeconfig) == []
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while not kubelets(kubeconfig):
        assert time.monotonic() < deadline, "the kubelet is still away"
        time.sleep(0.1)
    run_cleanup.clean_up_or_verify(
        run_cleanup.CleanupSpec(world.kubeconfig, world.run_id, run_dir=str(world.folder)), StepDirectory(None)
    )
    assert [row["changed"] for row in world.rows("failures", "undone")] == [False], "it had come back by itself"


def test_a_cut_is_refused_on_a_cluster_without_a_real_node(rehearsal_folder: Path, tmp_path: Path) -> None:
    options = support.options(rehearsal_folder, "uncut")
    try:
        kubeconfig = cluster_lifecycle.create_or_repair_instance(options, support.quiet)["kubeconfig"]
        with world_on(kubeconfig, tmp_path) as world:
            found = world.submit(**load(5, {"kind": "network_cut", "at": [1.0], "duration": 5.0}))
            assert found["failed"] == "InputError" and "real node of a rehearsal cluster" in found["msg"]
            assert world.names() == []
    finally:
        cluster_lifecycle.remove_instance(support.options(rehearsal_folder, "uncut", force=True), support.quiet)
