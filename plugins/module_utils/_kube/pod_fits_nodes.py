# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a pod could be scheduled at all, on the nodes as they would be without any other pod.

Only what can't change while a run waits counts: what nodes can allocate, and their labels. Taints and affinity don't,
since those of a node that starts or is drained come and go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_fields import at
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube_quantity import amount

#: Kinds that add nodes when pods wait, where there is an object of them.
_AUTOSCALERS = (("autoscaling.openshift.io/v1beta1", "MachineAutoscaler"), ("karpenter.sh/v1", "NodePool"))
#: Where the cluster autoscaler says how it is.
_AUTOSCALER_STATUS = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"


def requests(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return what the scheduler looks for, for a pod with this spec: the sum of its containers, by resource.

    An init container that asks for more than all others together counts instead of them.
    """
    found = _sum(spec.get("containers") or ())
    for one in spec.get("initContainers") or ():
        for name, number in _sum([one]).items():
            found[name] = max(found.get(name, 0.0), number)
    for name, text in (spec.get("overhead") or {}).items():
        found[name] = found.get(name, 0.0) + amount(text)
    return {name: f"{number:f}" for name, number in found.items()}


def _sum(containers: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in containers:
        resources = one.get("resources") or {}
        for name, text in ((resources.get("limits") or {}) | (resources.get("requests") or {})).items():
            found[name] = found.get(name, 0.0) + amount(text)
    return found


def never(wanted: Mapping[str, Any], selector: Mapping[str, str], nodes: Sequence[Mapping[str, Any]]) -> str:
    """Return why no node can ever take a pod, an empty string when one can.

    wanted: resource -> quantity that the pod requests. selector: its nodeSelector.
    """
    if not nodes:
        return "the cluster has no node"
    fitting = [one for one in nodes if selector.items() <= (one["metadata"].get("labels") or {}).items()]
    if not fitting:
        return f"no node has the labels {', '.join(f'{key}={value}' for key, value in selector.items())}"
    asked = {name: text for name, text in wanted.items() if amount(text) > 0}
    for name, text in asked.items():
        most = max(fitting, key=lambda node: allocatable(node, name))
        if allocatable(most, name) <= 0:
            return f"it asks for {_short(text)} {name}, and no node has any"
        if amount(text) > allocatable(most, name):
            has = at(most, "status.allocatable", {})[name]
            return f"it asks for {_short(text)} {name}, and the largest node has {has}"
    if not any(all(amount(text) <= allocatable(node, name) for name, text in asked.items()) for node in fitting):
        return f"no node has {', '.join(f'{_short(text)} {name}' for name, text in asked.items())} together"
    return ""


def allocatable(node: Mapping[str, Any], resource: str) -> float:
    """Return how much of a resource a node has for pods, as a number."""
    return amount((at(dict(node), "status.allocatable") or {}).get(resource, "0"))


def _short(text: Any) -> str:
    """Return a quantity without the zeros behind its point."""
    text = str(text)
    return text.rstrip("0").rstrip(".") if "." in text else text


def autoscaler(client: Client) -> str:
    """Return what adds nodes to the cluster when pods wait, an empty string when nothing that is known does."""
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
