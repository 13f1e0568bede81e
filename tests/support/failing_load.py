# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures injected into a load on a real control plane: the load, its nodes, and who writes what of a recovery."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import Any

import audit_truth
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    cluster_lifecycle,
    instance_processes,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import is_condition_true
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import (
    failure_recoveries,
    timeline_builder,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.failure_recoveries import (
    PointFailures,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from load_world import World

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
#: The component with which nodes are lost after ten seconds.
FAST = "node-failures-fast"
NODES = 3
#: When failures begin: the pods run by then, also on a slow machine. Timeout of what a test waits for. Both in seconds.
BEGIN, PATIENCE = 12.0, 120.0


@contextmanager
def failing_cluster(folder: Path, name: str, components: Sequence[str] = ()) -> Iterator[support.Rehearsal]:
    """A cluster whose nodes can fail, until the end of the context."""
    info = cluster_lifecycle.create_or_repair_instance(
        support.options(folder, name, components=[FAST, *components]), print
    )
    found = support.Rehearsal(info["kubeconfig"], info)
    with found.client() as client:
        add_nodes(client)
    yield found
    cluster_lifecycle.remove_instance(support.options(folder, name, force=True), support.quiet)


def add_nodes(client: Client) -> None:
    fake_nodes.create_fake_nodes(client, simulated_node_pool.NodePoolSpec(NODES, pool="failures"), 240, support.quiet)


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
    "replaced": ("pods/", ("create",), "-controller"),
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


#: What every failure has, and a lost node besides.
OF_PODS, OF_NODE = ("replaced", "scheduled", "whole"), ("detected", "tainted", "disrupted")


def check_stages(world: World, audit_log: Path) -> PointFailures:
    """Compare each stage of each recovery of a load with the audit log, whose lines name the namespace of the load."""
    seen = failure_recoveries.read_point_failures(world.point_dir, world.run_id, "001")
    start = timeline_builder.build_timeline_of_workloads(world.point_dir, world.run_id, "001").header["start"]
    lost = {recovery.target for recovery in seen.recoveries if recovery.kind == "node_lost"}
    written = windows(audit_log, (*lost, world.run_id), WRITES)
    for recovery in seen.recoveries:
        of_node = recovery.kind == "node_lost"
        stages = {name: span for name, span in recovery.stages.items() if not isnan(span[0])}
        needed = {*OF_PODS, *(OF_NODE if of_node else ())}
        assert needed <= set(stages), recovery
        assert ("detected" in stages) is of_node
        order = [span for name, span in recovery.stages.items() if name in needed]
        assert all(first[0] <= second[1] for first, second in pairwise(order)), stages
        for stage in needed:
            first, last = stages[stage][0] + start, stages[stage][1] + start
            met = [window for window in written[stage] if first <= window[1] and last >= window[0]]
            assert met, f"{stage} of {recovery.kind}: {first:.3f} to {last:.3f} meets no write"
    return seen
