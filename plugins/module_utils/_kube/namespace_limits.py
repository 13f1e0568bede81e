# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why the ResourceQuotas and LimitRanges of a namespace never let a pod be created, whatever else the namespace holds.

Computed from the objects, as the API server's admission plugins do: the text of a refusal does not tell whether it is
final. What a quota has left does not count, because it changes. A quota with scopes does not count either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import parse_kube_quantity

from .pod_scheduling import pod_requests, strip_trailing_zeros

#: Resources that each container has to state where a quota limits them.
_STATED = ("requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
#: Resources that a quota may name without "requests.".
_SHORT = ("cpu", "memory", "ephemeral-storage")


def pod_templates(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the spec of each pod template in an object, wherever its kind has them: workerTemplate, podTemplate."""
    if isinstance(value, list):
        for element in value:
            yield from pod_templates(element)
    elif isinstance(value, dict):
        for key, inner in value.items():
            named = key.lower().endswith("template") and isinstance(inner, dict)
            spec = inner.get("spec") if named else None
            if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
                yield spec
            else:
                yield from pod_templates(inner)


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
