# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a pod waits or how it ended, and whether a pod can ever be created in its namespace and scheduled on a node.

Of a node, only properties that do not change while a run waits count: allocatable resources and labels. Taints and
affinity do not count, because those of a node that starts or is drained change.

Whether a ResourceQuota or a LimitRange never lets a pod be created is computed from the objects, as the API server's
admission plugins do: the text of a refusal does not tell whether it is final. What a quota has left does not count,
because it changes. A quota with scopes does not count either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import (
    parse_kube_count,
    parse_kube_quantity,
)

from .client import Client
from .object_accessors import field_at_path


def why_pod_waits_or_ended(pod: Mapping[str, Any]) -> str:
    """Return why a pod waits, or how it ended: the message of its container, else of the scheduler.

    An init container that waits or has failed comes first: its pod's containers only say that it is not done.
    """
    status = pod.get("status") or {}
    for container in status.get("initContainerStatuses") or []:
        state = container.get("state") or {}
        ended = state.get("terminated") or {}
        if (state.get("waiting") or {}).get("reason") not in (None, "PodInitializing"):
            return f"init container {container.get('name')}: {_why_container_is_waiting(state['waiting'])}"
        if ended.get("exitCode"):
            return (
                f"init container {container.get('name')}: exit code {ended['exitCode']}, {_reason_and_message(ended)}"
            )
    for container in status.get("containerStatuses") or []:
        state = container.get("state") or {}
        if state.get("waiting"):
            return _why_container_is_waiting(state["waiting"])
        if state.get("terminated"):
            ended = state["terminated"]
            return f"exit code {ended.get('exitCode')}, {_reason_and_message(ended)}"
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _reason_and_message(condition)
    return _reason_and_message(status) or str(status.get("phase") or "Pending")


def _why_container_is_waiting(state: Mapping[str, Any]) -> str:
    """Return why a container waits: the same text for an image between two pulls as after a pull that failed."""
    words = _reason_and_message(state)
    between, pull, why = words.partition("ErrImagePull: ")
    return pull + why if pull and between.startswith("ImagePullBackOff") else words


def _reason_and_message(status: Mapping[str, Any]) -> str:
    return ": ".join(str(status[name]).strip() for name in ("reason", "message") if status.get(name))


#: Kinds whose objects add nodes when pods wait.
_AUTOSCALERS = (("autoscaling.openshift.io/v1beta1", "MachineAutoscaler"), ("karpenter.sh/v1", "NodePool"))
#: Status of the cluster autoscaler.
_AUTOSCALER_STATUS = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"


def pod_requests(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the requests of a pod with this spec, by resource: the sum of its containers.

    An init container that requests more than all others together counts instead.
    """
    totals = _sum_container_resource_requests(spec.get("containers") or ())
    for container in spec.get("initContainers") or ():
        for name, number in _sum_container_resource_requests([container]).items():
            totals[name] = max(totals.get(name, 0.0), number)
    for name, text in (spec.get("overhead") or {}).items():
        totals[name] = totals.get(name, 0.0) + parse_kube_quantity(text)
    return {name: f"{number:f}" for name, number in totals.items()}


def _sum_container_resource_requests(containers: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for container in containers:
        resources = container.get("resources") or {}
        for name, text in ((resources.get("limits") or {}) | (resources.get("requests") or {})).items():
            totals[name] = totals.get(name, 0.0) + parse_kube_quantity(text)
    return totals


def why_pod_is_unschedulable(
    wanted: Mapping[str, Any], selector: Mapping[str, str], nodes: Sequence[Mapping[str, Any]]
) -> str:
    """Return why no node can ever run a pod, "" if one can.

    wanted: resource -> quantity that the pod requests. selector: its nodeSelector.
    """
    if not nodes:
        return "the cluster has no node"
    fitting = [node for node in nodes if selector.items() <= (node["metadata"].get("labels") or {}).items()]
    if not fitting:
        return f"no node has the labels {', '.join(f'{key}={value}' for key, value in selector.items())}"
    asked = {name: text for name, text in wanted.items() if parse_kube_quantity(text) > 0}
    for name, text in asked.items():
        most = max(fitting, key=lambda node: node_allocatable_amount(node, name))
        if node_allocatable_amount(most, name) <= 0:
            return f"it asks for {strip_trailing_zeros(text)} {name}, and no node has any"
        if parse_kube_quantity(text) > node_allocatable_amount(most, name):
            has = field_at_path(most, "status.allocatable", {})[name]
            return f"it asks for {strip_trailing_zeros(text)} {name}, and the largest node has {has}"
    if not any(
        all(parse_kube_quantity(text) <= node_allocatable_amount(node, name) for name, text in asked.items())
        for node in fitting
    ):
        return (
            f"no node has {', '.join(f'{strip_trailing_zeros(text)} {name}' for name, text in asked.items())} together"
        )
    return ""


def node_allocatable_amount(node: Mapping[str, Any], resource: str) -> float:
    """Return the allocatable amount of a resource of a node, as a number."""
    return parse_kube_quantity((field_at_path(dict(node), "status.allocatable") or {}).get(resource, "0"))


def node_allocatable_count(node: Mapping[str, Any], resource: str) -> int:
    """Return the allocatable amount of a resource of a node as a whole number, 0 if it counts nothing."""
    return parse_kube_count((field_at_path(node, "status.allocatable") or {}).get(resource, "0"))


def strip_trailing_zeros(text: Any) -> str:
    """Return a quantity without trailing zeros after its point."""
    text = str(text)
    return text.rstrip("0").rstrip(".") if "." in text else text


def find_node_autoscaler(client: Client) -> str:
    """Return the autoscaler that adds nodes when pods wait, "" if no known one does."""
    for version, kind in _AUTOSCALERS:
        try:
            if client.list(client.kind(version, kind), metadata_only=True)[0]:
                return kind
        except (ApiError, InputError):
            continue
    try:
        client.request("GET", _AUTOSCALER_STATUS)
    except ApiError:
        return ""
    return "the cluster autoscaler"


#: Resources that each container has to state where a quota limits them.
_STATED = ("requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
#: Resources that a quota may name without "requests.".
_SHORT = ("cpu", "memory", "ephemeral-storage")


def pod_templates_in_object(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the spec of each pod template in an object, wherever its kind has them: workerTemplate, podTemplate."""
    if isinstance(value, list):
        for element in value:
            yield from pod_templates_in_object(element)
    elif isinstance(value, dict):
        for key, inner in value.items():
            named = key.lower().endswith("template") and isinstance(inner, dict)
            spec = inner.get("spec") if named else None
            if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
                yield spec
            else:
                yield from pod_templates_in_object(inner)


def why_never_created(
    spec: Mapping[str, Any], quotas: Iterable[Mapping[str, Any]], ranges: Iterable[Mapping[str, Any]]
) -> str:
    """Return why no pod of this spec can ever be created in a namespace with these objects, "" if one can."""
    if spec.get("resources"):
        return ""  # resources of the whole pod: counted in another way
    items = [(limits["metadata"]["name"], item) for limits in ranges for item in limits["spec"].get("limits") or ()]
    whole = _with_defaults(spec, [item for _name, item in items if item.get("type") == "Container"])
    for name, item in items:
        if why := _beyond_range(whole, item):
            return f"LimitRange {name}: {why}"
    for quota in quotas:
        inner = quota["spec"]
        if inner.get("scopes") or inner.get("scopeSelector"):
            continue
        if why := _beyond_quota(whole, inner.get("hard") or {}):
            return f"ResourceQuota {quota['metadata']['name']}: {why}"
    return ""


def _with_defaults(spec: Mapping[str, Any], items: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the spec with the defaults of LimitRanges in its containers, and requests where only limits are given."""
    items = list(items)

    def complete(container: Mapping[str, Any]) -> dict[str, Any]:
        resources = container.get("resources") or {}
        limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
        requests = {**limits, **requests}  # before LimitRanges, as the API server sets its own defaults
        for item in items:
            limits = {**(item.get("default") or {}), **limits}
            requests = {**(item.get("defaultRequest") or {}), **requests}
        return {**container, "resources": {"limits": limits, "requests": requests}}

    names = ("containers", "initContainers")
    return {**spec, **{name: [complete(container) for container in spec.get(name) or ()] for name in names}}


def _part(spec: Mapping[str, Any], part: str) -> dict[str, str]:
    """Return the requests or the limits of a pod with complete containers, by resource."""
    names = ("containers", "initContainers")
    only = {
        name: [{"resources": {"requests": container["resources"][part]}} for container in spec[name]] for name in names
    }
    return pod_requests({**only, "overhead": spec.get("overhead")})


def _beyond_range(spec: Mapping[str, Any], item: Mapping[str, Any]) -> str:
    """Return what of a pod an item of a LimitRange refuses."""
    if item.get("type") == "Pod":
        holders = [("a pod", {part: _part(spec, part) for part in ("requests", "limits")})]
    elif item.get("type") == "Container":
        containers = [*spec["containers"], *spec["initContainers"]]
        holders = [(f"container {container.get('name')}", container["resources"]) for container in containers]
    else:
        return ""
    for who, resources in holders:
        for part in ("requests", "limits"):
            for resource, text in resources[part].items():
                said = f"{who} has {strip_trailing_zeros(text)} {resource} as {part}"
                most, least = ((item.get(bound) or {}).get(resource) for bound in ("max", "min"))
                if most is not None and parse_kube_quantity(text) > parse_kube_quantity(most):
                    return f"{said}, the maximum is {most}"
                if least is not None and parse_kube_quantity(text) < parse_kube_quantity(least):
                    return f"{said}, the minimum is {least}"
    return ""


def _beyond_quota(spec: Mapping[str, Any], hard: Mapping[str, Any]) -> str:
    """Return what of a single pod exceeds a whole quota, or is not stated."""
    used = {"pods": "1", "count/pods": "1"}
    for part in ("requests", "limits"):
        used |= {f"{part}.{resource}": text for resource, text in _part(spec, part).items()}
    for resource, text in hard.items():
        name = f"requests.{resource}" if resource in _SHORT else resource
        if name in used and parse_kube_quantity(used[name]) > parse_kube_quantity(text):
            return f"one pod needs {strip_trailing_zeros(used[name])} {resource}, it allows {text} in all"
        if name in _STATED:
            part, _dot, of = name.partition(".")
            without = (
                container
                for container in (*spec["containers"], *spec["initContainers"])
                if of not in container["resources"][part]
            )
            if first := next(without, None):
                return f"it limits {resource}, and container {first.get('name')} states no {name}"
    return ""
