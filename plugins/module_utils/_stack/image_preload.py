# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pull an image on every node that a run will use, by a DaemonSet that is removed afterwards.

A kubelet pulls the image before it starts a container; whether the container can run does not matter. The duration is
from the event of the kubelet ("Successfully pulled image …"), else the time from the scheduling of the pod to the start
of the container, in whole seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, run_labels, waiting
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    conditions_by_type,
    field_at_path,
    get_label,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.objects_of_run import (
    delete_object_of_run,
    get_object_of_run,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.why_pod_waits_or_cannot_run import (
    node_allocatable_amount,
    why_pod_waits_or_ended,
)

PART = {run_labels.PART: "image-preload"}
#: Seconds between two looks, and how long the DaemonSet may take to be deleted.
_POLL_INTERVAL, _DELETION = 1.0, 120.0
#: What a kubelet says: with the duration of a pull, or that the image was there.
_PULLED = re.compile(
    r"Successfully pulled image (?:\"[^\"]{0,1000}\"|\S+) in (?P<duration>[\dhms.µu]+)"
    r"(?: \((?P<waited>[\dhms.µu]+) including waiting\))?"
    r"(?:.*Image size: (?P<bytes>[0-9]{1,18}) bytes)?"
)
_PRESENT = re.compile(r"already present on machine")
#: Why a container does not run although its image is there.
_NOT_THE_IMAGE = ("CrashLoopBackOff", "RunContainerError", "CreateContainerError")
#: Why an image can never be pulled.
_TERMINAL_REASONS = ("InvalidImageName", "ErrImageNeverPull")
#: Pods that are named in a message.
_SOME = 3


@dataclass(frozen=True)
class ImagePreloadSpec:
    """What is pulled, and where. timeout: of all pulls, in seconds. resources: that a node must have, such as GPUs."""

    namespace: str
    image: str
    run_id: str
    timeout: float
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    resources: Mapping[str, float] = field(default_factory=dict)
    service_account: str = ""

    @property
    def name(self) -> str:
        """Name of the DaemonSet."""
        return f"image-preload-{self.run_id}"

    @property
    def selector(self) -> str:
        """Label selector of its pods."""
        return f"{run_labels.RUN}={self.run_id},{run_labels.PART}={PART[run_labels.PART]}"

    def manifest(self, nodes: Iterable[str] = ()) -> dict[str, Any]:
        """Return the DaemonSet. nodes: names of those that it is for, of which there may be others with the labels."""
        labels = {run_labels.RUN: self.run_id, **PART}
        container = {
            "name": "pull",
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sleep", "86400"],
            "resources": {
                "requests": {"cpu": "10m", "memory": "32Mi"},
                "limits": {"cpu": "100m", "memory": "128Mi"},
            },
        }
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        pod = {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": dict(self.node_selector),
            "tolerations": [dict(toleration) for toleration in self.tolerations],
            "containers": [container],
            **({"affinity": {"nodeAffinity": required}} if terms else {}),
            **({"serviceAccountName": self.service_account} if self.service_account else {}),
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": labels},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels, "annotations": {"sidecar.istio.io/inject": "false"}},
                    "spec": pod,
                },
            },
        }


def preload_image_on_nodes(client: Client, wanted: ImagePreloadSpec, say: Say) -> list[dict[str, Any]]:
    """Pull the image on all nodes; return node, seconds and whether it was there, by node. Nothing is left.

    Raises InputError if no node matches, WaitTimeout naming the nodes that lack the image.
    """
    nodes = _list_matching_nodes(client, wanted)
    simulated = {node["metadata"]["name"] for node in nodes if get_label(node, run_labels.SIMULATED)}
    chosen = [node["metadata"]["name"] for node in nodes] if wanted.resources else []
    delete_daemon_set(client, wanted)  # of an interrupted session
    client.create(wanted.manifest(chosen))
    try:
        rows = _wait_for_image_pulls(client, wanted, say)
    finally:
        delete_daemon_set(client, wanted)
    return [{**row, "simulated": row["node"] in simulated} for row in rows]


def matching_node_names(client: Client, wanted: ImagePreloadSpec) -> list[str]:
    """Return the names of the nodes with these labels and resources. Raises InputError if there are none."""
    return [str(node["metadata"]["name"]) for node in _list_matching_nodes(client, wanted)]


def _list_matching_nodes(client: Client, wanted: ImagePreloadSpec) -> list[dict[str, Any]]:
    selector = ",".join(f"{name}={value}" for name, value in wanted.node_selector.items())
    labelled = client.list(client.kind("v1", "Node"), label_selector=selector)[0]

    def has(node: Mapping[str, Any]) -> bool:
        return all(node_allocatable_amount(node, name) >= number for name, number in wanted.resources.items())

    nodes = [node for node in labelled if has(node)]
    if not nodes:
        needs = formats.format_list(f"{number:g} {name}" for name, number in wanted.resources.items())
        lacks = f", and none of {formats.format_count(len(labelled), 'node')} with them has {needs}" if labelled else ""
        raise InputError(f"image_preload: no node has the labels '{selector}'{lacks}: nothing would be pulled")
    return nodes


def delete_daemon_set(client: Client, wanted: ImagePreloadSpec) -> None:
    """Delete the DaemonSet if it has the run's label, and wait until its pods are gone. Raises WaitTimeout."""
    kind, pod = client.kind("apps/v1", "DaemonSet"), client.kind("v1", "Pod")
    delete_object_of_run(client, kind, wanted.name, wanted.namespace, wanted.run_id, propagationPolicy="Foreground")

    def left() -> list[str]:
        there = get_object_of_run(client, kind, wanted.name, wanted.namespace, wanted.run_id)
        pods = client.list(pod, wanted.namespace, wanted.selector, metadata_only=True)[0]
        names = [f"Pod {wanted.namespace}/{obj['metadata']['name']}" for obj in pods]
        return names + ([f"DaemonSet {wanted.namespace}/{wanted.name}"] if there else [])

    waiting.wait_until_gone(left, _DELETION)


def _wait_for_image_pulls(client: Client, wanted: ImagePreloadSpec, say: Say) -> list[dict[str, Any]]:
    kind = client.kind("apps/v1", "DaemonSet")

    def look() -> tuple[list[dict[str, Any]] | None, str]:
        daemon_set = client.get(kind, wanted.name, wanted.namespace) or {}
        if field_at_path(daemon_set, "status.observedGeneration", 0) < field_at_path(
            daemon_set, "metadata.generation", 1
        ):
            return None, "waits for the DaemonSet controller"
        number = field_at_path(daemon_set, "status.desiredNumberScheduled", 0)
        if not number:
            raise InputError(
                "image_preload: each node with these labels has a taint that image_preload_tolerations lacks"
            )
        pods = _list_daemon_set_pods(client, wanted)
        done = [pod for pod in pods if _has_image(pod)]
        if len(done) >= number:
            return _image_pull_results(client, wanted, done), ""
        for pod in pods:
            if (reason := _container_waiting_reason(pod)) in _TERMINAL_REASONS:
                raise InputError(f"image_preload: {wanted.image}: {why_pod_waits_or_ended(pod) or reason}")
        lacking = [
            f"{field_at_path(pod, 'spec.nodeName', '?')} ({why_pod_waits_or_ended(pod)})"
            for pod in pods
            if pod not in done
        ]
        return None, f"{wanted.image}: on {len(done)} of {number} nodes; {formats.format_list(lacking, _SOME)}"

    def late(text: str) -> str:
        return f"image_preload: not everywhere after {wanted.timeout:g} s: {text}"

    return waiting.wait_until(look, wanted.timeout, say, late, _POLL_INTERVAL)


def _list_daemon_set_pods(client: Client, wanted: ImagePreloadSpec) -> list[dict[str, Any]]:
    return client.list(client.kind("v1", "Pod"), wanted.namespace, wanted.selector)[0]


def _has_image(pod: Mapping[str, Any]) -> bool:
    state = field_at_path(_first_container_status(pod), "state", {})
    return "running" in state or "terminated" in state or _container_waiting_reason(pod) in _NOT_THE_IMAGE


def _container_waiting_reason(pod: Mapping[str, Any]) -> str:
    return str(field_at_path(_first_container_status(pod), "state.waiting.reason", ""))


def _first_container_status(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    statuses: list[dict[str, Any]] = field_at_path(pod, "status.containerStatuses", [])
    return statuses[0] if statuses else {}


def _image_pull_results(client: Client, wanted: ImagePreloadSpec, pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    events: dict[str, list[str]] = {}
    try:
        said = client.list(client.kind("v1", "Event"), wanted.namespace, field_selector="reason=Pulled")[0]
    except ApiError:  # without permission, the states of the containers have to do
        said = []
    for event in said:
        events.setdefault(field_at_path(event, "involvedObject.uid", ""), []).append(str(event.get("message") or ""))
    rows = [_image_pull_result(pod, events.get(pod["metadata"]["uid"], [])) for pod in pods]
    return sorted(rows, key=lambda row: str(row["node"]))


def _image_pull_result(pod: Mapping[str, Any], messages: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "node": field_at_path(pod, "spec.nodeName", ""),
        "there": False,
        "seconds": None,
        "waited": None,
        "bytes": None,
    }
    pulled = next((match for text in messages if (match := _PULLED.search(text))), None)
    if pulled:
        row["seconds"] = formats.parse_go_duration(pulled["duration"])
        row["waited"] = formats.parse_go_duration(pulled["waited"]) if pulled["waited"] else row["seconds"]
        row["bytes"] = int(pulled["bytes"]) if pulled["bytes"] else None
    elif any(_PRESENT.search(text) for text in messages):
        row |= {"there": True, "seconds": 0.0, "waited": 0.0}
    else:
        row["seconds"] = row["waited"] = _pull_seconds_from_states(pod)
    return row


def _pull_seconds_from_states(pod: Mapping[str, Any]) -> float | None:
    begun = conditions_by_type(pod).get("PodScheduled", {}).get("lastTransitionTime")
    state = field_at_path(_first_container_status(pod), "state", {})
    started = (state.get("terminated") or state.get("running") or {}).get("startedAt")
    if not begun or not started:
        return None
    first, last = (datetime.fromisoformat(stamp.replace("Z", "+00:00")) for stamp in (begun, started))
    return max((last - first).total_seconds(), 0.0)


def format_pulls(image: str, rows: list[dict[str, Any]]) -> str:
    """Return the pulls in one sentence."""
    measured = [row for row in rows if not row["simulated"]]
    pulled = sorted(row["seconds"] for row in measured if not row["there"] and row["seconds"] is not None)
    there = sum(1 for row in measured if row["there"])
    parts = []
    if pulled:
        parts.append(
            f"pulled on {formats.format_count(len(pulled), 'node')} in {pulled[0]:.1f} to {pulled[-1]:.1f} s"
            f" (median {pulled[len(pulled) // 2]:.1f} s)"
        )
    if there:
        parts.append(f"there on {formats.format_count(there, 'node')}")
    simulated = sum(1 for row in rows if row["simulated"])
    if simulated:
        parts.append(f"{formats.format_count(simulated, 'simulated node')} pulled nothing")
    return f"{image}: {', '.join(parts) or f'on {len(rows)} nodes'}"
