# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a failure hits: nodes that run pods of the load, or such pods."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import get_label

from . import failure_actions, node_health_marks
from .failure_schedule import (
    CONTAINER_OOM,
    GPU_LOST,
    NETWORK_CUT,
    OF_CONTROL_PLANE,
    OF_NODES,
    OF_PODS,
    REAL_ONLY,
    SIMULATED_ONLY,
    PlannedFailure,
    choose_targets,
)

#: Namespace, name, uid, node and role of a pod, and for a network that is cut, its address and its workload's number.
PodRow = dict[str, str]


def list_running_load_pods(
    client: Client, failure: PlannedFailure, run: str, point: str, namespaces: Collection[str]
) -> list[PodRow]:
    """Return the pods of the load that run, those with the labels of the failure if it is one of pods.

    namespaces: those of the workloads. In others, anybody may give a pod the labels of the load.
    """
    selector = run_labels.workload_label_selector(run, point)
    if failure.kind not in OF_NODES and failure.selector:
        selector = f"{selector},{failure.selector}"
    kind = client.kind("v1", "Pod")
    listed = client.list(kind, label_selector=selector, field_selector="status.phase=Running")[0]
    pods = [
        pod
        for pod in listed
        if pod["metadata"].get("namespace") in namespaces and not pod["metadata"].get("deletionTimestamp")
    ]
    if failure.kind == CONTAINER_OOM or failure.pod_fails:
        # A kubelet would restart the containers of other pods, and nothing simulates that.
        pods = [pod for pod in pods if pod["spec"].get("restartPolicy") == "Never"]
    if node_health_marks.does_taint_evict_pods(failure.taint):
        pods = [pod for pod in pods if not node_health_marks.does_pod_tolerate_taint(pod, failure.taint)]
    if failure.kind != NETWORK_CUT:
        return [_row(pod, run, point) for pod in pods]
    rows = [
        {**_row(pod, run, point), "address": pod["status"]["podIP"], "index": get_label(pod, run_labels.INDEX)}
        for pod in pods
        if pod["status"].get("podIP") and not pod["spec"].get("hostNetwork")
    ]
    return [row for row in rows if _peers(row, rows)]


def _row(pod: dict[str, Any], run: str, point: str) -> PodRow:
    meta = pod["metadata"]
    place = {name: meta[name] for name in ("namespace", "name", "uid")}
    return {**place, "node": pod["spec"].get("nodeName") or "", "role": _role(pod, run, point)}


def _role(pod: dict[str, Any], run: str, point: str) -> str:
    """Return what a pod is in the load: its name without what differs from run to run.

    So a replacement has the role of the pod that it replaces. Pods of a Job without indexes have the same role.
    """
    meta = pod["metadata"]
    made = "" if get_label(pod, "apps.kubernetes.io/pod-index") else meta.get("generateName")  # of a StatefulSet
    role = str(made or meta["name"]).removeprefix(f"{run}-{point}-")
    template = get_label(pod, "pod-template-hash")  # of a template with the labels of the run
    return (role.removesuffix(f"{template}-") if template else role).removesuffix("-")


def _peers(pod: PodRow, pods: Collection[PodRow]) -> list[PodRow]:
    """Return the other pods of the workload of a pod, on the same node."""
    return [peer for peer in pods if peer is not pod and all(peer[key] == pod[key] for key in ("index", "node"))]


def choose_failure_targets(
    client: Client, failure: PlannedFailure, pods: list[PodRow], failing: set[str], seed: int
) -> list[str]:
    """Return what a failure hits, of nodes that run pods of the load and have no failure, or of such pods.

    With ``by``, all nodes that can fail and have the same value of this label as one of these. failing: targets of
    failures that are not over.
    """
    if failure.kind in OF_CONTROL_PLANE:
        return [failure.process] if failure.process not in failing else []
    selector = failure.selector if failure.kind in OF_NODES else ""
    nodes = client.list(client.kind("v1", "Node"), label_selector=selector)[0]
    able = {
        node["metadata"]["name"]: node for node in nodes if failure_actions.can_node_have_failure(node, failure.kind)
    }
    for target in failing:
        able.pop(target, None)  # a lost node is Ready until the node controller has noticed it
    if failure.kind in OF_PODS:
        free = [pod for pod in pods if pod["node"] in able and target_name_of_pod(pod) not in failing]
        if failure.kind == NETWORK_CUT:
            free = [pod for pod in free if _peers(pod, free)]
        return choose_targets(failure, _roles(free), seed)
    used = set(able) & {pod["node"] for pod in pods}
    if not failure.by:
        return choose_targets(failure, sorted(used), seed)
    values = {name: get_label(node, failure.by) for name, node in able.items()}
    chosen = choose_targets(failure, sorted({values[name] for name in used} - {""}), seed)
    return sorted(name for name, value in values.items() if value in chosen)


def targets_of_failures(rows: Collection[Mapping[str, Any]]) -> set[str]:
    """Return the targets of the rows ``inject``, and the peers of pods whose network is cut."""
    peers = {target_name_of_pod(pod) for row in rows if row["kind"] == NETWORK_CUT for pod in row["pods"]}
    return peers | {row["target"] for row in rows}


def pods_of_target(
    failure: PlannedFailure, target: str, pods: list[PodRow], seed: int, failing: Set[str] = frozenset()
) -> list[PodRow]:
    """Return the pods that a failure of ``target`` concerns; with a network that is cut, the pod and its peer.

    None if the target or each peer is one of ``failing`` (failing_places) then.
    """
    hit = [pod for pod in pods if target in (pod["node"], target_name_of_pod(pod))]
    one = replace(failure, count=1, share=0.0)
    if failure.kind == GPU_LOST and not node_health_marks.does_taint_evict_pods(failure.taint):
        chosen = choose_targets(one, _roles(hit), seed) if failure.pod_fails else []
        return [pod for pod in hit if target_name_of_pod(pod) in chosen]
    if failure.kind != NETWORK_CUT:
        return hit
    peers = {target_name_of_pod(peer): peer for peer in _peers(hit[0], pods) if target_name_of_pod(peer) not in failing}
    if target in failing or not peers:
        return []
    chosen = choose_targets(one, _roles(peers.values()), seed)
    return [*hit, *(peers[place] for place in chosen)]


def _roles(pods: Iterable[PodRow]) -> dict[str, str]:
    return {target_name_of_pod(pod): pod["role"] for pod in pods}


def target_name_of_pod(pod: PodRow) -> str:
    """Return what a failure of a pod names as its target."""
    return f"{pod['namespace']}/{pod['name']}"


def why_no_target(failure: PlannedFailure) -> str:
    """Return why a failure had no target."""
    if failure.kind in OF_CONTROL_PLANE:
        return f"{failure.process} has a failure that is not over"
    simulated = "simulated " if failure.kind in SIMULATED_ONLY else "real " if failure.kind in REAL_ONLY else ""
    gpus = " with GPUs" if failure.kind == GPU_LOST else ""
    labels = f" with the labels '{failure.selector}'" if failure.selector else ""
    node = f"{simulated}node{gpus}"
    if failure.kind in OF_NODES:
        label = f" and label {failure.by}" if failure.by else ""
        evicted = (
            f" that does not tolerate {failure.taint}" if node_health_marks.does_taint_evict_pods(failure.taint) else ""
        )
        return f"no {node}{labels}{label} that is Ready and has no failure runs a pod of the load{evicted}"
    if failure.kind == NETWORK_CUT:
        return f"no two pods{labels} of a workload run on one real node that is Ready and has no failure"
    policy = " and restartPolicy Never" if failure.kind == CONTAINER_OOM else ""
    return f"no pod of the load{labels}{policy} runs on a {node} that is Ready and has no failure"
