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
from collections.abc import Mapping
from datetime import datetime, timezone
from math import ceil
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import label_value

from .failure_schedule import (
    CONTAINER_OOM,
    GPU_LOST,
    LONGEST,
    NODE_DRAINED,
    NODE_LOST,
    OF_NODES,
    SIMULATED_ONLY,
    PlannedFailure,
)

#: Namespace of the leases of nodes.
LEASES = "kube-node-lease"
#: Annotation of a node, or of a pod on a lost node, with the mark of the failure; that of a pod that KWOK has stopped.
MARK, HELD = "perfscale.seatrial/failure", "perfscale.seatrial/held"
GPU = "nvidia.com/gpu"
_STRATEGIC = "application/strategic-merge-patch+json"
#: Pause before an eviction that a disruption budget refused is repeated, seconds.
_PAUSE = 1.0
#: How long KWOK may take to stop pods, seconds.
_HELD_WITHIN = 10.0


def check_nodes(client: Client, failures: list[PlannedFailure]) -> None:
    """Raise InputError for a failure that no node of the cluster can have."""
    listed: dict[str, list[dict[str, Any]]] = {}
    for failure in failures:
        of_nodes = failure.selector if failure.kind in OF_NODES else ""
        if of_nodes not in listed:
            listed[of_nodes] = client.list(client.kind("v1", "Node"), label_selector=of_nodes)[0]
        nodes = listed[of_nodes]
        if not nodes:
            raise InputError(f"failures: no node has the labels '{of_nodes}' of a {failure.kind}")
        if failure.kind in SIMULATED_ONLY and not any(label_value(node, run_labels.SIMULATED) for node in nodes):
            raise InputError(
                f"failures: {failure.kind} is possible only on simulated nodes, and {client.access.server} has none of"
                " them; use node_drained or pod_killed, or a rehearsal cluster"
            )


def read_state(client: Client, kind: str, name: str) -> dict[str, Any]:
    """Return what has to be known to undo a failure of this target; it is recorded before the failure is injected."""
    if kind == NODE_LOST:
        lease = _get_lease(client, name)
        if lease is None:
            raise InputError(f"node {name} has no lease in namespace {LEASES}, so it can't be lost")
        return {"holder": lease["spec"].get("holderIdentity") or ""}
    if kind == NODE_DRAINED:
        return {"unschedulable": bool(_get_node(client, name)["spec"].get("unschedulable"))}
    if kind == GPU_LOST:
        status = _get_node(client, name)["status"]
        return {part: status.get(part, {}).get(GPU, "0") for part in ("capacity", "allocatable")}
    return {}


def inject(client: Client, failure: Mapping[str, Any], pods: list[tuple[str, str]]) -> None:
    """Do to the target what the row ``inject`` says. pods: (namespace, name) of the load's pods that it concerns.

    Raises ApiError, AccessError.
    """
    name = failure["target"]
    if failure["kind"] == NODE_LOST:
        _hold(client, pods, failure["mark"])
        lease = _get_lease(client, name) or {"spec": {}}
        last = datetime.fromisoformat(lease["spec"]["renewTime"])
        # The lease counts from its last renewal, which stays, because a new one would be a sign of life.
        held = (datetime.now(timezone.utc) - last).total_seconds() + (failure["duration"] or LONGEST)
        spec = {"holderIdentity": failure["mark"], "leaseDurationSeconds": max(1, ceil(held))}
        _patch(client, _lease_path(client, name), {"spec": spec})
    elif failure["kind"] == NODE_DRAINED:
        marks = {"annotations": {MARK: failure["mark"]}}
        _patch(client, _node_path(client, name), {"metadata": marks, "spec": {"unschedulable": True}})
        _evict(client, pods, failure["duration"] or LONGEST)
    elif failure["kind"] == GPU_LOST:
        _patch(client, _node_path(client, name), {"metadata": {"annotations": {MARK: failure["mark"]}}})
        less = {part: {GPU: str(max(0, int(count) - 1))} for part, count in failure["before"].items()}
        _patch(client, f"{_node_path(client, name)}/status", {"status": less})
    elif failure["kind"] == CONTAINER_OOM:
        for namespace, pod in pods:
            _end_containers(client, namespace, pod)
    else:
        for namespace, pod in pods:
            client.delete(client.kind("v1", "Pod"), pod, namespace, {"gracePeriodSeconds": 0})


def undo(client: Client, failure: Mapping[str, Any]) -> bool:
    """Undo what the row ``inject`` says; return False if there was nothing to undo. Raises ApiError, AccessError."""
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
    if node is None or (node["metadata"].get("annotations") or {}).get(MARK) != failure["mark"]:
        return False
    before = failure["before"]
    if failure["kind"] == GPU_LOST:
        status = {part: {GPU: count} for part, count in before.items()}
        _patch(client, f"{_node_path(client, name)}/status", {"status": status})
        spec: dict[str, Any] = {}
    else:
        spec = {"unschedulable": True if before["unschedulable"] else None}
    _patch(client, _node_path(client, name), {"metadata": {"annotations": {MARK: None}}, "spec": spec})
    return True


def _hold(client: Client, pods: list[tuple[str, str]], mark: str) -> None:
    """Have KWOK stop the containers of pods that run on a node, as long as it still serves the node."""
    for namespace, pod in pods:
        _annotate_pod(client, namespace, pod, {MARK: mark})
    deadline = time.monotonic() + _HELD_WITHIN
    left = list(pods)
    while left and time.monotonic() < deadline:
        left = [place for place in left if not _is_held(client, *place)]
        if left:
            time.sleep(0.05)


def _is_held(client: Client, namespace: str, name: str) -> bool:
    pod = client.get(client.kind("v1", "Pod"), name, namespace)
    if pod is None or pod["status"].get("phase") != "Running":
        return True
    return HELD in (pod["metadata"].get("annotations") or {})


def _release(client: Client, failure: Mapping[str, Any]) -> None:
    """Have KWOK run those of the pods again that are still there."""
    for place in failure["pods"]:
        pod = client.get(client.kind("v1", "Pod"), place["name"], place["namespace"], metadata_only=True)
        if pod is not None and (pod["metadata"].get("annotations") or {}).get(MARK) == failure["mark"]:
            _annotate_pod(client, place["namespace"], place["name"], {MARK: None, HELD: None})


def _annotate_pod(client: Client, namespace: str, name: str, annotations: dict[str, str | None]) -> None:
    try:
        _patch(client, client.kind("v1", "Pod").path(namespace, name), {"metadata": {"annotations": annotations}})
    except ApiError as error:
        if error.status != 404:  # it has just gone
            raise


def _evict(client: Client, pods: list[tuple[str, str]], patience: float) -> None:
    """Evict pods; one whose disruption budget refuses is asked again until ``patience`` seconds have passed."""
    deadline = time.monotonic() + min(patience, 10.0)
    left = list(pods)
    while left:
        refused = []
        for namespace, pod in left:
            path = f"{client.kind('v1', 'Pod').path(namespace, pod)}/eviction"
            meta = {"name": pod, "namespace": namespace}
            try:
                client.request("POST", path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta})
            except ApiError as error:
                if error.status == 429 and time.monotonic() < deadline:
                    refused.append((namespace, pod))
                elif error.status not in (404, 429):
                    raise
        left = refused
        if left:
            time.sleep(_PAUSE)


def _end_containers(client: Client, namespace: str, name: str) -> None:
    """Write what a kubelet writes when the kernel has killed the containers of a pod that is not restarted."""
    kind = client.kind("v1", "Pod")
    pod = client.get(kind, name, namespace)
    if pod is None or pod["status"].get("phase") != "Running":
        return
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    killed = {"exitCode": 137, "reason": "OOMKilled", "message": "simulated", "finishedAt": now}
    containers = [
        {**status, "ready": False, "started": False, "state": {"terminated": killed}}
        for status in pod["status"].get("containerStatuses") or ()
    ]
    conditions = [
        {"type": name, "status": "False", "reason": "PodFailed", "lastTransitionTime": now}
        for name in ("Ready", "ContainersReady")
    ]
    status = {"phase": "Failed", "containerStatuses": containers, "conditions": conditions}
    client.request("PATCH", f"{kind.path(namespace, name)}/status", {"status": status}, content_type=_STRATEGIC)


def _lease_path(client: Client, name: str) -> str:
    return client.kind("coordination.k8s.io/v1", "Lease").path(LEASES, name)


def _get_lease(client: Client, name: str) -> dict[str, Any] | None:
    return client.get(client.kind("coordination.k8s.io/v1", "Lease"), name, LEASES)


def _node_path(client: Client, name: str) -> str:
    return client.kind("v1", "Node").path(name=name)


def _get_node(client: Client, name: str) -> dict[str, Any]:
    node = client.get(client.kind("v1", "Node"), name)
    if node is None:
        raise InputError(f"node {name} does not exist any more")
    return node


def _patch(client: Client, path: str, change: dict[str, Any]) -> None:
    client.request("PATCH", path, change, content_type=MERGE_PATCH)
