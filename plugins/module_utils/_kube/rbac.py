# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The permissions that a run needs: read from the roles, checked on the API server, written as minimal RBAC.

An entry: {phases: [test], group: batch, resources: [jobs], verbs: [create], scope: namespace | cluster}. Rights within
namespaces are checked in each existing namespace; for one that the run will create they must hold in the whole cluster,
because nothing can be granted in a namespace that does not exist. ``own: true``: namespaces besides those of the run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ThreadPool
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import expect_documented_form

from .client import Client

REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
KEYS = frozenset(("phases", "group", "resources", "verbs", "scope", "namespace", "own", "when"))
CLUSTER, NAMESPACE = "cluster", "namespace"


@dataclass(frozen=True, order=True)
class RbacPermission:
    """One verb on one resource; ``namespace`` is empty for the whole cluster. ``phase``: the first that needs it."""

    group: str
    resource: str
    verb: str
    namespace: str
    phase: str

    def what(self) -> str:
        """Return resource and scope, for people."""
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{what} {f'in namespace {self.namespace}' if self.namespace else 'in the whole cluster'}"


def rights_needed_in_phases(
    entries: Iterable[Mapping[str, Any]], phases: Sequence[str], namespaces: Mapping[str, bool]
) -> list[RbacPermission]:
    """Return the permissions of the chosen phases, each once.

    namespaces: name -> whether it exists. An existing one is neither created nor deleted. Raises InputError for an
    invalid entry.
    """
    right_by_key: dict[tuple[str, str, str, str], RbacPermission] = {}
    places = [name if there else "" for name, there in namespaces.items()] or [""]
    for entry in entries:
        unknown = next((key for key in entry if key not in KEYS), None)
        if unknown or not all(entry.get(key) for key in ("phases", "resources", "verbs")):
            raise InputError(
                f"permission {dict(entry)}: requires phases, resources and verbs; known keys: {sorted(KEYS)}"
            )
        phase = next((name for name in phases if name in entry["phases"]), None)
        if phase is None:
            continue
        for resource in entry["resources"]:
            # Existing namespaces are only read.
            there = resource == "namespaces" and "" not in places and not entry.get("own")
            scopes = [""] if entry.get("scope", NAMESPACE) == CLUSTER and not there else places
            for verb in entry["verbs"] if not there else [verb for verb in entry["verbs"] if verb == "get"]:
                for place in [str(entry["namespace"])] if entry.get("namespace") else scopes:
                    key = (str(entry.get("group", "")), str(resource), str(verb), place)
                    right_by_key.setdefault(key, RbacPermission(*key, phase))
    # A permission in the whole cluster includes each namespace.
    everywhere = {key[:3] for key in right_by_key if not key[3]}
    return sorted(right for key, right in right_by_key.items() if not key[3] or key[:3] not in everywhere)


def rights_refused_by_server(client: Client, rights: Iterable[RbacPermission]) -> list[RbacPermission]:
    """Return the permissions that we lack according to the API server. Raises AccessError, ApiError."""
    asked = list(rights)
    with ThreadPool(8) as pool:
        allowed = list(pool.map(lambda right: _is_right_granted(client, right), asked))
    return [right for right, granted in zip(asked, allowed, strict=True) if not granted]


def format_rights(rights: Iterable[RbacPermission]) -> list[str]:
    """Return permissions for people: one text for all verbs on one resource."""
    by: dict[str, list[RbacPermission]] = {}
    for right in rights:
        by.setdefault(right.what(), []).append(right)
    lines = []
    for what, some in by.items():
        phases = list(dict.fromkeys(right.phase for right in some))
        verbs = ", ".join(sorted(right.verb for right in some))
        lines.append(f"{verbs} {what} (phase{'s' if len(phases) > 1 else ''} {', '.join(phases)})")
    return lines


def _is_right_granted(client: Client, right: RbacPermission) -> bool:
    resource, _slash, sub = right.resource.partition("/")
    asked: dict[str, Any] = {"verb": right.verb, "group": right.group, "resource": resource}
    if sub:
        asked["subresource"] = sub
    if right.namespace:
        asked["namespace"] = right.namespace
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = client.request("POST", REVIEW, review)
    with expect_documented_form(f"POST {REVIEW} at {client.access.server}", answer):
        return bool(answer["status"].get("allowed"))


#: How the name of a role ends if a checksum of the user's name is added.
_CHECKSUM = re.compile(r":[0-9a-f]{8}\Z")


def rbac_object_name_for_user(subject: str) -> str:
    """Return the name of the roles and bindings of one user: those of two users must not replace each other."""
    name = re.sub("[/%]", "-", subject)  # neither may be in the name of a role
    # A user may also be named as another one's name with its checksum.
    unchanged = name == subject and not _CHECKSUM.search(subject)
    checksum = "" if unchanged else f":{hashlib.sha256(subject.encode()).hexdigest()[:8]}"
    return f"seatrial-run:{name}{checksum}" if subject else "seatrial-run"


def rbac_manifests(rights: Sequence[RbacPermission], name: str, subject: str = "") -> list[dict[str, Any]]:
    """Return minimal RBAC: a ClusterRole and a Role per namespace, with bindings to the user ``subject``."""
    manifests: list[dict[str, Any]] = []
    for place in sorted({right.namespace for right in rights}):
        kind = "Role" if place else "ClusterRole"
        metadata = {"name": name, "namespace": place} if place else {"name": name}
        base = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata}
        rules = _combine_rights_into_rules(right for right in rights if right.namespace == place)
        manifests.append({**base, "kind": kind, "rules": rules})
        manifests.append(
            {
                **base,
                "kind": f"{kind}Binding",
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
                "subjects": [
                    {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": subject or "WHO-RUNS-THE-TEST"}
                ],
            }
        )
    return manifests


def _combine_rights_into_rules(rights: Iterable[RbacPermission]) -> list[dict[str, Any]]:
    """Return rules that combine resources of one group with the same verbs."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.resource), set()).add(right.verb)
    together: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), allowed in sorted(verbs.items()):
        together.setdefault((group, tuple(sorted(allowed))), []).append(resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(allowed)}
        for (group, allowed), resources in together.items()
    ]
