# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""API discovery: the kinds of an API server and their paths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

#: One request for all groups (Kubernetes 1.27 and later); older servers return a plain APIGroupList.
AGGREGATED = ",".join(
    [
        *(f"application/json;g=apidiscovery.k8s.io;v={v};as=APIGroupDiscoveryList" for v in ("v2", "v2beta1")),
        "application/json",
    ]
)


@dataclass(frozen=True)
class ServedKind:
    """A kind as one API server serves it."""

    api_version: str
    kind: str
    resource: str  # plural, as in paths
    namespaced: bool
    verbs: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) for text in (self.api_version, self.kind, self.resource, *self.verbs)):
            raise TypeError("names of kinds and of verbs are texts")

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of a collection (no ``name``), of all namespaces (no ``namespace``), or of one object."""
        parts = [quote(f"/api/{self.api_version}" if "/" not in self.api_version else f"/apis/{self.api_version}")]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{quote(namespace, safe='')}")
        parts.append(quote(self.resource, safe=""))
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def path_of(self, manifest: dict[str, Any], default_namespace: str = "default") -> str:
        """Return the path of the collection that ``manifest`` belongs to."""
        return self.path((manifest.get("metadata") or {}).get("namespace") or default_namespace)


def kinds_in_resource_list(api_version: str, resources: Iterable[dict[str, Any]]) -> list[ServedKind]:
    """Return the kinds of an APIResourceList, without subresources."""
    return [
        ServedKind(
            api_version,
            resource["kind"],
            resource["name"],
            bool(resource.get("namespaced")),
            frozenset(resource.get("verbs") or ()),
        )
        for resource in resources
        if "/" not in resource["name"]
    ]


def versions_in_group_list(document: dict[str, Any]) -> list[str]:
    """Return the versions in a plain document of /api or /apis, the preferred one of each group before its others."""
    versions = [str(version) for version in document.get("versions") or []]
    for group in document.get("groups") or []:
        preferred = [group["preferredVersion"]] if "preferredVersion" in group else []
        versions += [str(each["groupVersion"]) for each in [*preferred, *(group.get("versions") or [])]]
    return list(dict.fromkeys(versions))


def first_of_each_resource(kinds: Iterable[ServedKind]) -> list[ServedKind]:
    """Return the kinds without those of further versions of a group."""
    first: dict[tuple[str, str], ServedKind] = {}
    for kind in kinds:
        first.setdefault((kind.group, kind.resource), kind)
    return list(first.values())


def kinds_in_preferred_versions(document: dict[str, Any]) -> list[ServedKind]:
    """Return the kinds of an APIGroupDiscoveryList, each in its group's preferred version that has it."""
    return first_of_each_resource(
        ServedKind(
            f"{name}/{version['version']}" if name else version["version"],
            (resource.get("responseKind") or {}).get("kind") or "",
            resource["resource"],
            resource.get("scope") == "Namespaced",
            frozenset(resource.get("verbs") or ()),
        )
        for group in document.get("items") or []
        for name in [(group.get("metadata") or {}).get("name") or ""]
        for version in group.get("versions") or []
        for resource in version.get("resources") or []
    )


def groups_without_answer(document: dict[str, Any]) -> list[str]:
    """Return the versions of an APIGroupDiscoveryList whose kinds are unknown, as their server has not answered yet.

    Aggregated API servers, such as those of OpenShift, serve them. If they answered before, their kinds are known.
    """
    return [
        f"{(group.get('metadata') or {}).get('name')}/{version['version']}"
        for group in document.get("items") or []
        for version in group.get("versions") or []
        if version.get("freshness") == "Stale" and not version.get("resources")
    ]


def group_of_unknown_kinds(entry: str) -> str:
    """Return the API group of an entry of Client.unknown_groups."""
    group, slash, _version = entry.partition("/")
    return group if slash else entry.partition(".")[2]


def format_unknown_kinds(entry: str) -> str:
    """Return an entry of Client.unknown_groups for people."""
    return f"all kinds of {entry}" if "/" in entry else entry
