# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a health agent writes of a node with a lost GPU: a condition of the node, or a taint."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from http import HTTPStatus
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import (
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    Client,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import conditions_by_type

_NAME = r"(?:[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_CONDITION = re.compile(rf"(?P<type>{_NAME})=(?P<status>True|False|Unknown)")
_TAINT = re.compile(
    rf"(?P<key>{_NAME})(?:=(?P<value>[A-Za-z0-9_.-]{{0,63}}))?:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute)"
)
#: Conditions that the kubelet and the node controller write, and the beginning of their taints.
_KUBELET = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_CONTROLLER = "node.kubernetes.io/"
#: How often a change of the taints is tried while others change the node.
_ATTEMPTS = 5

Taints = list[dict[str, Any]]


def check_condition_and_taint(condition: str, taint: str, where: str) -> None:
    """Raise InputError if a condition or a taint has another form, or is one that Kubernetes itself writes."""
    if condition:
        parts = _CONDITION.fullmatch(condition)
        if parts is None:
            raise InputError(f"{where}: condition is '{condition}', it must be like GPUHealthy=False")
        if parts["type"] in _KUBELET:
            raise InputError(f"{where}: condition is '{condition}', and {parts['type']} is written by the kubelet")
    if taint:
        parts = _TAINT.fullmatch(taint)
        if parts is None:
            raise InputError(f"{where}: taint is '{taint}', it must be like example.com/gpu-lost=true:NoExecute")
        if parts["key"].startswith(_CONTROLLER):
            raise InputError(f"{where}: taint is '{taint}', and those of {_CONTROLLER} are the node controller's")


def check_node_has_no_such_mark(nodes: Iterable[Mapping[str, Any]], condition: str, taint: str) -> None:
    """Raise InputError if a node has such a condition or taint already: it is another's, and would be lost."""
    for node in nodes:
        name = node["metadata"]["name"]
        if condition and (kind := condition.partition("=")[0]) in conditions_by_type(node):
            raise InputError(f"failures: node {name} has a condition {kind} already; name another one for a gpu_lost")
        if taint and any(have_same_key_and_effect(other, taint) for other in _taints(node)):
            raise InputError(f"failures: node {name} has the taint {taint} already; name another one for a gpu_lost")


def does_taint_evict_pods(taint: str) -> bool:
    """Return whether a taint ends pods that don't tolerate it."""
    return taint.endswith(":NoExecute")


def does_pod_tolerate_taint(pod: Mapping[str, Any], taint: str) -> bool:
    """Return whether a pod tolerates a taint for ever."""
    wanted = _taint(taint)
    return any(
        toleration.get("tolerationSeconds") is None
        and toleration.get("effect") in (None, "", wanted["effect"])
        and toleration.get("key") in (None, "", wanted["key"])
        and (toleration.get("operator") == "Exists" or toleration.get("value", "") == wanted.get("value", ""))
        for toleration in pod["spec"].get("tolerations") or ()
    )


def mark_node_unhealthy(client: Client, name: str, condition: str, taint: str) -> None:
    """Write the condition and the taint. Raises ApiError."""
    if condition:
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        kind, _, status = condition.partition("=")
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        words = {"reason": "GPULost", "message": "simulated by a load with failures"}
        _patch_conditions(client, name, {"type": kind, "status": status, **words, **times})
    if taint:
        wanted = _taint(taint)
        _change_taints(client, name, lambda taints: [*_without(taints, taint), wanted])


def remove_node_health_marks(client: Client, name: str, condition: str, taint: str) -> None:
    """Remove the condition and the taint. Raises ApiError."""
    if condition:
        _patch_conditions(client, name, {"type": condition.partition("=")[0], "$patch": "delete"})
    if taint:
        _change_taints(client, name, lambda taints: _without(taints, taint))


def have_same_key_and_effect(taint: Mapping[str, Any], text: str) -> bool:
    """Return whether a node can't have both: they have the same key and effect."""
    return all(taint.get(part) == _taint(text)[part] for part in ("key", "effect"))


def _taint(text: str) -> dict[str, Any]:
    match = _TAINT.fullmatch(text)
    parts = match.groupdict() if match is not None else {"key": text, "effect": ""}
    return {name: part for name, part in parts.items() if part is not None}


def _taints(node: Mapping[str, Any]) -> Taints:
    return list((node.get("spec") or {}).get("taints") or ())


def _without(taints: Taints, text: str) -> Taints:
    return [taint for taint in taints if not have_same_key_and_effect(taint, text)]


def _patch_conditions(client: Client, name: str, condition: Mapping[str, Any]) -> None:
    path = f"{client.kind('v1', 'Node').path(name=name)}/status"
    change = {"status": {"conditions": [condition]}}
    client.request("PATCH", path, change, content_type=STRATEGIC_MERGE_PATCH)


def _change_taints(client: Client, name: str, change: Callable[[Taints], Taints]) -> None:
    """Write the taints of a node; a list of taints has no merging, so another's change in between is a conflict."""
    kind = client.kind("v1", "Node")
    for attempt in range(_ATTEMPTS):
        node = client.get(kind, name)
        if node is None:
            return
        body = {
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
            "spec": {"taints": change(_taints(node)) or None},
        }
        try:
            client.request("PATCH", kind.path(name=name), body, content_type=MERGE_PATCH)
            return
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT or attempt == _ATTEMPTS - 1:
                raise
