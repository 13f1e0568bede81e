# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures injected into loads on a real control plane: stages against the audit log, and a kill in the middle."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import Any

import audit_truth
import drive_workload
import pytest
import rehearsal as support
import suite_prerequisites
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import run_cleanup
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    cluster_lifecycle,
    instance_processes,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import (
    conditions_by_type,
    is_condition_true,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures.failure_schedule import OF_PODS
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import (
    failure_recoveries,
    timeline_builder,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.queue_recoveries import OF_QUEUE
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, node_pool
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds
from load_world import World, world_on
from playbook import play, run_dirs

#: A queue of Kueue in front of all nodes.
QUEUE = """
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: failing}, spec: {}}
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: ClusterQueue
  metadata: {name: failing}
  spec:
    namespaceSelector: {}
    resourceGroups:
      - coveredResources: [cpu, nvidia.com/gpu]
        flavors:
          - name: failing
            resources: [{name: cpu, nominalQuota: "300"}, {name: nvidia.com/gpu, nominalQuota: "24"}]
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: users}, spec: {clusterQueue: failing}}
"""

#: As component node-failures, only faster: a lease is renewed every two seconds, a node is lost after six.
COMPONENT = """
about: Leases of nodes for tests of failures
adds_arguments:
  kwok: [--node-lease-duration-seconds=8]
  kube-controller-manager: [--node-monitor-grace-period=6s, --node-monitor-period=1s]
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: "{{ name }}"}
spec:
  parallelism: 2
  completions: 2
  backoffLimit: 100
  template:
    metadata: {labels: {{ labels | to_json }}, annotations: {perfscale.seatrial/run-seconds: "{{ seconds }}"}}
    spec:
      restartPolicy: Never
      tolerations:
        - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
      containers: [{name: c, image: none, resources: {limits: {cpu: "10", nvidia.com/gpu: "1"}}}]
"""
NODES = 3
#: When failures begin: the pods run by then, also on a slow machine. Timeout of what a test waits for. Both in seconds.
BEGIN, PATIENCE = 12.0, 120.0


@pytest.fixture(scope="module")
def cluster(rehearsal_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[support.Rehearsal]:
    folder = tmp_path_factory.mktemp("components") / "quick-failures"
    folder.mkdir()
    (folder / "component.yml").write_text(COMPONENT, encoding="utf-8")
    info = cluster_lifecycle.present(support.options(rehearsal_folder, "failures", components=[str(folder)]), print)
    found = support.Rehearsal(info["kubeconfig"], info)
    with found.client() as client:
        fake_nodes.present(client, node_pool.NodePoolSpec(NODES, pool="failures"), 240, support.quiet)
    yield found
    cluster_lifecycle.absent(support.options(rehearsal_folder, "failures", force=True), support.quiet)


@pytest.fixture
def world(cluster: support.Rehearsal, tmp_path: Path) -> Iterator[World]:
    with world_on(cluster.kubeconfig, tmp_path) as found:
        yield found


def load(seconds: float, *failures: dict[str, Any]) -> dict[str, Any]:
    templates = [{"name": "job", "content": JOB, "parameters": {"seconds": seconds}}]
    return {
        "count": 4,
        "templates": templates,
        "failures": list(failures),
        "wait": True,
        "timeout": 180,
        "settle": 1,
        "canary_rate": 20,
        "seed": 3,
    }


def nodes_are_whole(world: World) -> bool:
    """Whether all nodes are ready, without taints or marks, cordoned by nobody, with all of their GPUs."""
    nodes = world.client.list(world.client.kind("v1", "Node"))[0]
    return len(nodes) == NODES and all(
        is_condition_true(node, "Ready")
        and not node["spec"].get("taints")
        and not node["spec"].get("unschedulable")
        and "perfscale.seatrial/failure" not in node["metadata"].get("annotations", {})
        and node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        for node in nodes
    )


def within_patience(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def processes_of(cluster: support.Rehearsal) -> dict[str, int]:
    """Return name -> pid of the processes of the cluster."""
    folder = Path(cluster.kubeconfig).parent
    return {process.name: process.pid for process in instance_processes.list_running_processes(folder)}


#: Stage -> resource with its subresource, verbs, part of the user's name.
WRITES = {
    "detected": ("nodes/status", ("patch", "update"), "node-controller"),
    "tainted": ("nodes/", ("patch", "update"), "node-controller"),
    "disrupted": ("pods/status", ("patch", "update"), "controller"),
    "scheduled": ("pods/binding", ("create",), "system:kube-scheduler"),
    "whole": ("pods/status", ("patch", "update"), "seatrial:kwok"),
}


def windows(
    log: Path, names: tuple[str, ...], writes: Mapping[str, tuple[str, tuple[str, ...], str]]
) -> dict[str, list[audit_truth.Window]]:
    """Return stage -> when ``writes`` of its kind to objects with such names were received and answered."""
    found: dict[str, list[audit_truth.Window]] = defaultdict(list)
    for raw in log.read_text(encoding="utf-8").splitlines():
        if not any(name in raw for name in names):
            continue
        record = json.loads(raw)
        ref = record.get("objectRef") or {}
        what, user = f"{ref.get('resource')}/{ref.get('subresource', '')}", record["user"]["username"]
        for stage, (resource, verbs, writer) in writes.items():
            if what == resource and record["verb"] in verbs and writer in user:
                moments = (record["requestReceivedTimestamp"], record["stageTimestamp"])
                found[stage].append((audit_truth.moment(moments[0]), audit_truth.moment(moments[1])))
    return found


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
    seen = failure_recoveries.read_point_failures(world.point_dir, world.run_id, "001")
    assert set(seen.injected) == {"node_lost", "pod_killed", "container_oom"}
    start = timeline_builder.build_timeline(world.point_dir, world.run_id, "001").header["start"]
    lost = [recovery for recovery in seen.recoveries if recovery.kind == "node_lost"]
    assert lost and {recovery.kind for recovery in seen.recoveries} == set(seen.injected)
    written = windows(Path(cluster.cluster["audit_log"]), (lost[0].target, world.run_id), WRITES)
    for recovery in seen.recoveries:
        of_node = recovery.kind == "node_lost"
        stages = {name: span for name, span in recovery.stages.items() if not isnan(span[0])}
        needed = {"replaced", "scheduled", "whole"} | ({"detected", "tainted", "disrupted"} if of_node else set())
        assert needed <= set(stages), recovery
        assert ("detected" in stages) is of_node
        order = [span for name, span in recovery.stages.items() if name in needed]
        assert all(first[0] <= second[1] for first, second in zip(order, order[1:], strict=False)), stages
        for stage in needed - {"replaced"}:  # the log lacks names that the server makes
            first, last = stages[stage][0] + start, stages[stage][1] + start
            met = [window for window in written[stage] if first <= window[1] and last >= window[0]]
            assert met, f"{stage} of {recovery.kind}: {first:.3f} to {last:.3f} meets no write"
    # A node that has just renewed its lease is lost after the grace period, another one up to a renewal earlier.
    assert all(recovery.stages["detected"][1] - recovery.injected[0] > 2 for recovery in lost)
    assert 0 < seen.useful < seen.held, "each pod has a GPU"
    assert within_patience(lambda: nodes_are_whole(world)), "a lost node did not come back"


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

    seen = within_patience(marked)
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
    run_cleanup.run(spec, Step(None))
    assert within_patience(lambda: nodes_are_whole(world)), "a node stayed broken"
    left = world.client.list(world.client.kind("batch/v1", "Job"), world.namespace)[0]
    assert left == []
    assert {row["changed"] for row in world.rows("failures", "undone")} == {True}
    run_cleanup.run(spec, Step(None))
    assert len(world.rows("failures", "undone")) == 3, "what was undone was undone again"


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
    options = {**load(4, *failures), "count": 14, "arrival": {"type": "constant", "rate": 1}, "breaker_latency": 0.5}
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
    run_cleanup.run(spec, Step(None))
    assert "kube-controller-manager" in processes_of(cluster)
    assert {row["target"] for row in world.rows("failures", "undone")} == {"kube-apiserver", "kube-controller-manager"}
    assert world.client.list(world.client.kind("batch/v1", "Job"), world.namespace)[0] == []


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


def test_each_stage_of_an_eviction_by_kueue_meets_the_audit_log(own_instance: Any, tmp_path: Path) -> None:
    folder = tmp_path / "quick-failures"
    folder.mkdir()
    (folder / "component.yml").write_text(COMPONENT, encoding="utf-8")
    components = ["kueue", "kueue-pods-ready", str(folder)]
    info = cluster_lifecycle.present(own_instance("queued", components=components), support.quiet)
    job = JOB.replace('{name: "{{ name }}"}', '{name: "{{ name }}", labels: {kueue.x-k8s.io/queue-name: users}}', 1)
    job = job.replace("  parallelism", "  suspend: true\n  parallelism", 1)
    with world_on(info["kubeconfig"], tmp_path / "world") as world:
        fake_nodes.present(world.client, node_pool.NodePoolSpec(NODES, pool="failures"), 240, support.quiet)
        for entry in yaml.safe_load(QUEUE):
            place = {"namespace": world.namespace} if entry["kind"] == "LocalQueue" else {}
            world.client.create({**entry, "metadata": {**entry["metadata"], **place}})
        stages = workload_kinds.resolve_stage_definitions(["Job", "Workload", "Pod"], lambda _where, name: name)
        templates = [{"name": "job", "content": job, "parameters": {"seconds": 30}}]
        failure = {"kind": "node_lost", "at": [BEGIN], "duration": 40.0}
        found = world.submit(**{**load(30, failure), "templates": templates, "stages": stages})
        assert found["counts"]["succeeded"] == 4, found
        seen = failure_recoveries.read_point_failures(world.point_dir, world.run_id, "001")
        start = timeline_builder.build_timeline(world.point_dir, world.run_id, "001").header["start"]
        write = ("workloads/status", ("patch", "update"), "seatrial:kueue")
        written = windows(Path(info["cluster"]["audit_log"]), (world.run_id,), dict.fromkeys(OF_QUEUE, write))
    assert seen.recoveries
    for recovery in seen.recoveries:
        spans = [recovery.stages[stage] for stage in (*OF_QUEUE, "whole")]
        assert not any(isnan(first) for first, _last in spans), recovery
        assert all(one[0] <= other[1] for one, other in pairwise(spans)), spans
        for stage in OF_QUEUE:
            first, last = recovery.stages[stage][0] + start, recovery.stages[stage][1] + start
            assert [window for window in written[stage] if first <= window[1] and last >= window[0]], (stage, recovery)


@pytest.mark.skipif(bool(suite_prerequisites.real_node_lacks()), reason=suite_prerequisites.real_node_lacks())
@pytest.mark.long
def test_a_real_training_goes_on_from_its_checkpoint_when_a_pod_of_it_was_killed(
    rehearsal_folder: Path, tmp_path: Path
) -> None:
    given = {
        "rehearsal_data_dir": str(rehearsal_folder),
        "rehearsal_name": "training",
        "cluster_keep": True,  # for its audit log
    }
    try:
        words = ("-e", json.dumps({"preset": "failures_real", "overrides": given}))
        done = play(*words, artifacts=tmp_path, timeout=3600)
        assert done.code == 0, done.output
        (run,) = run_dirs(tmp_path)
        log = Path(files.read_yaml(run / "cluster.yml")["clusters"]["sutest"]["audit_log"])
        check_real_recovery(run, log)
    finally:
        cluster_lifecycle.absent(support.options(rehearsal_folder, "training", force=True), support.quiet)


def check_real_recovery(run: Path, log: Path) -> None:
    """Compare the stages of the recovery with the audit log, and what is done again with the files of the training."""
    point, run_id = run / "points" / "001", files.read_yaml(run / "run.yml")["id"]
    rows = list(files.read_lines(point / "training.jsonl"))
    seen = failure_recoveries.read_point_failures(point, run_id, "001", training=rows)
    start = timeline_builder.build_timeline(point, run_id, "001").header["start"]
    (recovery,) = seen.recoveries
    writes = {**WRITES, "whole": (*WRITES["whole"][:2], "system:node:real-0"), "killed": ("pods/", ("delete",), "")}
    written = windows(log, (run_id,), writes)
    for stage, (first, last) in {**recovery.stages, "killed": recovery.injected}.items():
        if stage in ("killed", "scheduled", "whole"):
            met = [window for window in written[stage] if first + start <= window[1] and last + start >= window[0]]
            assert met, f"{stage}: {first:.3f} to {last:.3f} meets no write"
    whole, resumed, useful = (recovery.stages[stage] for stage in ("whole", "resumed", "useful"))
    assert recovery.injected[0] < whole[0] < resumed[0] < useful[0] < seen.end, recovery.stages
    (folder,) = (entry for entry in (point / "files").iterdir() if entry.is_dir())
    lines = (json.loads(line) for line in (folder / "training_logs.jsonl").read_text(encoding="utf-8").splitlines())
    steps = [line["data"]["step"] for line in lines]
    (back,) = (place for place in range(1, len(steps)) if steps[place] <= steps[place - 1])
    checkpoints = {int(path.name.partition("-")[2]) for path in folder.glob("checkpoint-*")}
    assert steps[back] - 1 in checkpoints and steps[-1] == max(checkpoints), "it went on from a checkpoint to the end"
    kpis = {kpi["name"]: kpi for kpi in files.read_json(point / "kpis.json")["kpis"]}
    assert kpis["training_steps_redone_pod_killed"]["value"] == steps[back - 1] - steps[back] + 1 > 0
    assert kpis["training_seconds_redone_pod_killed"]["value"] > 0
    assert kpis["time_to_useful_pod_killed_p50"]["value"] > kpis["time_to_recover_pod_killed"]["value"]
    assert not [name for name, kpi in kpis.items() if kpi["simulated"]]
    history = files.read_json(folder / f"checkpoint-{steps[-1]}" / "trainer_state.json")["log_history"]
    counted = [entry["step"] for entry in history if "loss" in entry]
    assert counted == sorted(set(counted)), "the training itself counts each step once"
