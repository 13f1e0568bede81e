# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a failure does to a cluster, and how it is undone.

Everything that has to be undone carries a mark of its failure, so that undoing it twice, or after somebody else has
changed the object, changes nothing. A lost node comes back by itself when its time is over, even if nobody undoes it:
its lease is held until then, and KWOK takes over a lease that has expired.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from http import HTTPStatus
from math import ceil
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    InputError,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import (
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    Client,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    get_label,
    is_condition_true,
)

from . import control_plane_failures, kubelet_and_network_failures, node_health_marks
from .failure_schedule import (
    CONTAINER_OOM,
    GPU_LOST,
    KUBELET_RESTARTED,
    LONGEST,
    NETWORK_CUT,
    NODE_DRAINED,
    NODE_LOST,
    OF_CONTROL_PLANE,
    OF_NODES,
    REAL_ONLY,
    SIMULATED_ONLY,
    PlannedFailure,
)

#: Namespace and name of a pod.
Pod = tuple[str, str]
#: Namespace of the leases of nodes.
LEASES = "kube-node-lease"
GPU = "nvidia.com/gpu"
#: Pause before an eviction that a disruption budget refused is repeated, seconds.
_PAUSE = 1.0
#: How long KWOK may take to stop pods, and a disruption budget to permit their eviction, seconds.
_PATIENCE = 10.0


def check_failures_are_possible(client: Client, failures: Sequence[PlannedFailure]) -> None:
    """Raise InputError for a failure that the cluster or no node of it can have, or whose selector is none."""
    control_plane_failures.check_processes_exist(client.access.server, failures)
    targets = {
        (failure.kind, failure.selector, failure.by, failure.condition, failure.taint)
        for failure in failures
        if failure.process == ""
    }
    for kind, selector, by, condition, taint in sorted(targets):
        # A selector of pods is sent here too, because the server says whether it is one.
        nodes = _list_nodes(client, kind, selector)
        if kind in OF_NODES and not nodes:
            raise InputError(f"failures: no node has the labels '{selector}' of a {kind}")
        if by:
            _check_label(nodes, by, kind)
        if kind not in OF_NODES and selector:
            nodes = _list_nodes(client, kind, "")
        if kind in REAL_ONLY:
            kubelet_and_network_failures.require_real_node(client.access.server, kind)
        simulated = [node for node in nodes if get_label(node, run_labels.SIMULATED)]
        if kind in SIMULATED_ONLY and not simulated:
            raise InputError(
                f"failures: {kind} is possible only on simulated nodes, and {client.access.server} has none of"
                " them; use node_drained or pod_killed, or a rehearsal cluster"
            )
        if kind == NODE_LOST:
            _check_leases(client, [node["metadata"]["name"] for node in simulated])
        node_health_marks.check_node_has_no_such_mark(nodes, condition, taint)
        if kind == GPU_LOST and not any(map(count_gpus, simulated)):
            where = f" with the labels '{selector}'" if selector else ""
            raise InputError(f"failures: no simulated node{where} offers a GPU ({GPU}) that a {kind} could take")


def _check_label(nodes: Sequence[dict[str, Any]], label: str, kind: str) -> None:
    known = {name for node in nodes for name in node["metadata"].get("labels") or ()}
    if label not in known:
        raise InputError(
            f"failures: by of a {kind} is '{label}', and no node has this label{suggest_similar_name(label, known)}"
        )


def _list_nodes(client: Client, kind: str, selector: str) -> list[dict[str, Any]]:
    try:
        return client.list(client.kind("v1", "Node"), label_selector=selector)[0]
    except ApiError as error:
        if error.status != HTTPStatus.BAD_REQUEST:
            raise
        raise InputError(f"failures: selector '{selector}' of a {kind} is no label selector: {error}") from error


def _check_leases(client: Client, names: list[str]) -> None:
    leases = client.list(client.kind("coordination.k8s.io/v1", "Lease"), LEASES)[0]
    renewed = {lease["metadata"]["name"] for lease in leases if lease["spec"].get("renewTime")}
    if missing := [name for name in names if name not in renewed]:
        raise InputError(
            f"failures: {formats.format_list(missing, 3)} can't be lost, because nothing renews a lease of that name in"
            f" namespace {LEASES}"
        )


def can_node_have_failure(node: dict[str, Any], kind: str) -> bool:
    """Return whether a node can have a failure of this kind now: it is Ready, and has none of any run."""
    if not is_condition_true(node, "Ready") or run_labels.FAILURE in (node["metadata"].get("annotations") or {}):
        return False
    simulated = bool(get_label(node, run_labels.SIMULATED))
    if simulated if kind in REAL_ONLY else (kind in SIMULATED_ONLY and not simulated):
        return False
    return kind != GPU_LOST or count_gpus(node) > 0


def count_gpus(node: dict[str, Any]) -> int:
    """Return the number of GPUs that a node offers."""
    return int((node.get("status") or {}).get("allocatable", {}).get(GPU, "0"))


def read_state_for_undo(client: Client, failure: PlannedFailure, name: str) -> dict[str, Any]:
    """Return what has to be known to undo a failure of this target; it is recorded before the failure is injected."""
    kind = failure.kind
    if kind in OF_CONTROL_PLANE:
        return control_plane_failures.read_process_state(client.access.server, kind, name)
    if kind == NETWORK_CUT:
        return kubelet_and_network_failures.read_cluster_folder(client.access.server)
    if kind == KUBELET_RESTARTED:
        return kubelet_and_network_failures.read_cluster_and_kubelet(client.access.server)
    if kind == NODE_LOST:
        return {"holder": _renewed_lease(client, name)["spec"].get("holderIdentity") or ""}
    if kind == NODE_DRAINED:
        return {"unschedulable": bool(_get_node(client, name)["spec"].get("unschedulable"))}
    if failure.condition or failure.taint:
        return {"condition": failure.condition, "taint": failure.taint}
    if kind == GPU_LOST:
        status = _get_node(client, name)["status"]
        return {part: status.get(part, {}).get(GPU, "0") for part in ("capacity", "allocatable")}
    return {}


def inject_failure(
    client: Client, failure: Mapping[str, Any], pods: list[Pod], run: str, halted: Callable[[], bool] = lambda: False
) -> list[Pod]:
    """Do to the target what the row ``inject`` says; return the pods that it could not stop or evict in time.

    pods: (namespace, name) of the load's pods that it concerns; run: its run. halted: whether waiting for pods ends.
    Raises ApiError, AccessError.
    """
    name = failure["target"]
    left: list[Pod] = []
    if failure["kind"] in OF_CONTROL_PLANE:
        control_plane_failures.inject_process_failure(failure)
    elif failure["kind"] == NETWORK_CUT:
        kubelet_and_network_failures.inject_pod_network_cut(failure)
    elif failure["kind"] == KUBELET_RESTARTED:
        kubelet_and_network_failures.inject_kubelet_outage(failure)
    elif failure["kind"] == NODE_LOST:
        left = _hold(client, pods, failure["mark"], halted)
        last = datetime.fromisoformat(_renewed_lease(client, name)["spec"]["renewTime"])
        # The lease counts from its last renewal, which stays: a new one would show that the node is alive.
        held = (datetime.now(timezone.utc) - last).total_seconds() + (failure["duration"] or LONGEST)
        spec = {"holderIdentity": failure["mark"], "leaseDurationSeconds": max(1, ceil(held))}
        _patch(client, _lease_path(client, name), {"spec": spec})
    elif failure["kind"] == NODE_DRAINED:
        marks = {"annotations": {run_labels.FAILURE: failure["mark"]}}
        _patch(client, _node_path(client, name), {"metadata": marks, "spec": {"unschedulable": True}})
        left = _evict(client, pods, failure["duration"] or LONGEST, halted)
    elif failure["kind"] == GPU_LOST:
        _patch(client, _node_path(client, name), {"metadata": {"annotations": {run_labels.FAILURE: failure["mark"]}}})
        if _is_marked(failure["before"]):
            node_health_marks.mark_node_unhealthy(client, name, **failure["before"])
        else:
            less = {part: {GPU: str(max(0, int(count) - 1))} for part, count in failure["before"].items()}
            _patch(client, f"{_node_path(client, name)}/status", {"status": less})
        # With pod_fails, as a program does whose GPU fell off the bus; pods that a taint evicts are left to it.
        ends = [] if node_health_marks.does_taint_evict_pods(failure["before"].get("taint", "")) else pods
        for namespace, pod in ends:
            _end_containers(client, namespace, pod, 1, "Error")
    elif failure["kind"] == CONTAINER_OOM:
        for namespace, pod in pods:
            _end_containers(client, namespace, pod, 137, "OOMKilled")
    else:
        for namespace, pod in pods:
            found = client.get(client.kind("v1", "Pod"), pod, namespace, metadata_only=True)
            if found is not None and get_label(found, run_labels.RUN) == run:
                client.delete_seen(client.kind("v1", "Pod"), found["metadata"], gracePeriodSeconds=0)
    return left


def undo_failure(client: Client, failure: Mapping[str, Any]) -> bool:
    """Undo what the row ``inject`` says; return False if there was nothing to undo. Raises ApiError, AccessError."""
    if failure["kind"] in OF_CONTROL_PLANE:
        return control_plane_failures.undo_process_failure(client.access.server, failure)
    if failure["kind"] == NETWORK_CUT:
        return kubelet_and_network_failures.undo_pod_network_cut(client.access.server, failure)
    if failure["kind"] == KUBELET_RESTARTED:
        return kubelet_and_network_failures.undo_kubelet_outage(client.access.server, failure)
    changed = False
    with _unless_deleted():
        changed = _undo(client, failure)
    return changed


def _undo(client: Client, failure: Mapping[str, Any]) -> bool:
    name = failure["target"]
    if failure["kind"] == NODE_LOST:
        _release(client, failure)
        lease = _get_lease(client, name)
        if lease is None or lease["spec"].get("holderIdentity") != failure["mark"]:
            return False
        # It has expired then, and KWOK takes it over at its next renewal.
        _patch(client, _lease_path(client, name), {"spec": {"leaseDurationSeconds": 1}})
        return True
    if failure["kind"] not in OF_NODES:
        return False
    node = client.get(client.kind("v1", "Node"), name)
    if node is None or (node["metadata"].get("annotations") or {}).get(run_labels.FAILURE) != failure["mark"]:
        return False
    before = failure["before"]
    spec: dict[str, Any] = {}
    if failure["kind"] == NODE_DRAINED:
        spec = {"unschedulable": True if before["unschedulable"] else None}
    elif _is_marked(before):
        node_health_marks.remove_node_health_marks(client, name, before["condition"], before["taint"])
    else:
        status = {part: {GPU: count} for part, count in before.items()}
        _patch(client, f"{_node_path(client, name)}/status", {"status": status})
    _patch(client, _node_path(client, name), {"metadata": {"annotations": {run_labels.FAILURE: None}}, "spec": spec})
    return True


def _is_marked(before: Mapping[str, Any]) -> bool:
    """Return whether a lost GPU shows in what a health agent writes, not in the number of GPUs."""
    return "taint" in before


def _hold(client: Client, pods: list[Pod], mark: str, halted: Callable[[], bool]) -> list[Pod]:
    """Have KWOK stop the containers of pods on a node, as long as it still serves the node; return those that run."""
    for namespace, pod in pods:
        _annotate_pod(client, namespace, pod, {run_labels.FAILURE: mark})
    deadline = time.monotonic() + _PATIENCE
    left = list(pods)
    while left := [place for place in left if not _is_held(client, *place)]:
        if time.monotonic() >= deadline or halted():
            break
        time.sleep(0.05)
    return left


def _is_held(client: Client, namespace: str, name: str) -> bool:
    pod = client.get(client.kind("v1", "Pod"), name, namespace)
    if pod is None or pod["status"].get("phase") != "Running":
        return True
    return run_labels.HELD in (pod["metadata"].get("annotations") or {})


def _release(client: Client, failure: Mapping[str, Any]) -> None:
    """Have KWOK run those of the pods again that are still there."""
    for place in failure["pods"]:
        pod = client.get(client.kind("v1", "Pod"), place["name"], place["namespace"], metadata_only=True)
        if pod is not None and (pod["metadata"].get("annotations") or {}).get(run_labels.FAILURE) == failure["mark"]:
            _annotate_pod(client, place["namespace"], place["name"], {run_labels.FAILURE: None, run_labels.HELD: None})


def _annotate_pod(client: Client, namespace: str, name: str, annotations: dict[str, str | None]) -> None:
    with _unless_deleted():
        _patch(client, client.kind("v1", "Pod").path(namespace, name), {"metadata": {"annotations": annotations}})


def _evict(client: Client, pods: list[Pod], patience: float, halted: Callable[[], bool]) -> list[Pod]:
    """Evict pods; return those that their disruption budget still refuses. patience: seconds, at most _PATIENCE."""
    deadline = time.monotonic() + min(patience, _PATIENCE)
    left = list(pods)
    while True:
        refused = []
        for namespace, pod in left:
            path = f"{client.kind('v1', 'Pod').path(namespace, pod)}/eviction"
            meta = {"name": pod, "namespace": namespace}
            try:
                client.request("POST", path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta})
            except ApiError as error:
                if error.status == HTTPStatus.TOO_MANY_REQUESTS:
                    refused.append((namespace, pod))
                elif error.status != HTTPStatus.NOT_FOUND:
                    raise
        left = refused
        if not left or halted() or time.monotonic() >= deadline:
            return left
        time.sleep(_PAUSE)


def _end_containers(client: Client, namespace: str, name: str, code: int, reason: str) -> None:
    """Write what a kubelet writes when the containers of a pod that is not restarted have ended."""
    kind = client.kind("v1", "Pod")
    pod = client.get(kind, name, namespace)
    if pod is None or pod["status"].get("phase") != "Running":
        return
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    killed = {"exitCode": code, "reason": reason, "message": "simulated", "finishedAt": now}
    containers = [
        {**status, "ready": False, "started": False, "state": {"terminated": killed}}
        for status in pod["status"].get("containerStatuses") or ()
    ]
    conditions = [
        {"type": name, "status": "False", "reason": "PodFailed", "lastTransitionTime": now}
        for name in ("Ready", "ContainersReady")
    ]
    status = {"phase": "Failed", "containerStatuses": containers, "conditions": conditions}
    with _unless_deleted():
        client.request(
            "PATCH", f"{kind.path(namespace, name)}/status", {"status": status}, content_type=STRATEGIC_MERGE_PATCH
        )


def _lease_path(client: Client, name: str) -> str:
    return client.kind("coordination.k8s.io/v1", "Lease").path(LEASES, name)


def _get_lease(client: Client, name: str) -> dict[str, Any] | None:
    return client.get(client.kind("coordination.k8s.io/v1", "Lease"), name, LEASES)


def _renewed_lease(client: Client, name: str) -> dict[str, Any]:
    lease = _get_lease(client, name)
    if lease is None or not lease["spec"].get("renewTime"):
        raise InputError(f"node {name} has no renewed lease in namespace {LEASES}, so it can't be lost")
    return lease


def _node_path(client: Client, name: str) -> str:
    return client.kind("v1", "Node").path(name=name)


def _get_node(client: Client, name: str) -> dict[str, Any]:
    node = client.get(client.kind("v1", "Node"), name)
    if node is None:
        raise InputError(f"node {name} does not exist any more")
    return node


@contextmanager
def _unless_deleted() -> Iterator[None]:
    """Leave the block without an error if the object was deleted in between."""
    try:
        yield
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise


def _patch(client: Client, path: str, change: dict[str, Any]) -> None:
    client.request("PATCH", path, change, content_type=MERGE_PATCH)
