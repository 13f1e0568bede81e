# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Delete objects and wait until they are gone; name the finalizer that blocks a deletion.

OLM recreates objects of removed operators, because its controllers read caches that are not up to date yet. These are
deleted until several polls in succession find none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, InputError, WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say, wait_until
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    field_at_path,
    format_object_title,
    get_label,
)

from .operator_objects import V1, V1ALPHA1

_SHORTEST_PAUSE = 0.1
_LONGEST_PAUSE = 1.0
_REPORT_INTERVAL = 10.0

#: Share of the timeout after which finalizers are removed, where that was requested.
_FINALIZER_PATIENCE = 0.5


@dataclass
class DeletionResult:
    """Titles of deleted objects and of objects whose finalizers were removed."""

    deleted: list[str] = field(default_factory=list)
    finalizers: list[str] = field(default_factory=list)


def delete_objects_and_wait(
    client: Client,
    objects: Sequence[dict[str, Any]],
    deadline: float,
    done: DeletionResult,
    say: Say,
    force_finalizers: bool = False,
) -> None:
    """Delete objects and wait until all are deleted, until ``deadline`` (time.monotonic()).

    Raises WaitTimeout naming the objects that still exist and what blocks their deletion.
    """
    if not objects:
        return
    say(
        "deleting"
        f" {', '.join(format_object_title(resource) for resource in objects[:5])}"
        f"{' and more' if len(objects) > 5 else ''}"
    )
    for resource in objects:
        client.delete_seen(client.kind_of(resource), resource["metadata"])
    began = reported = time.monotonic()
    patience = began + (deadline - began) * _FINALIZER_PATIENCE
    pause = _SHORTEST_PAUSE
    left = list(objects)
    while True:
        left = [latest for resource in left if (latest := _if_still_there(client, resource)) is not None]
        if not left:
            break
        now = time.monotonic()
        if force_finalizers and now >= patience:
            patience = deadline
            done.finalizers += [
                _remove_finalizers(client, resource, say)
                for resource in left
                if field_at_path(resource, "metadata.finalizers")
            ]
            continue
        if now >= deadline:
            raise WaitTimeout(
                f"after {now - began:.0f} s not deleted:"
                f" {'; '.join(describe_blocked_deletion(resource) for resource in left[:5])}"
                f"{f' and {len(left) - 5} more' if len(left) > 5 else ''}"
            )
        if now - reported >= _REPORT_INTERVAL:
            reported = now
            say(f"waiting for the deletion of {describe_blocked_deletion(left[0])}")
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
    done.deleted += [format_object_title(resource) for resource in objects]


def _if_still_there(client: Client, resource: dict[str, Any]) -> dict[str, Any] | None:
    """Return the current state of the object, None if it is deleted."""
    meta = resource["metadata"]
    latest = client.get(client.kind_of(resource), meta["name"], meta.get("namespace", ""))
    return latest if latest is not None and latest["metadata"]["uid"] == meta["uid"] else None


def _remove_finalizers(client: Client, resource: dict[str, Any], say: Say) -> str:
    meta = resource["metadata"]
    text = f"{format_object_title(resource)}: {', '.join(meta['finalizers'])}"
    say(f"removing the finalizers of {text}")
    path = client.kind_of(resource).path(meta.get("namespace", ""), meta["name"])
    try:
        patch = {"metadata": {"uid": meta["uid"], "finalizers": None}}
        client.request("PATCH", path, patch, content_type=MERGE_PATCH)
    except ApiError:
        if _if_still_there(client, resource) is not None:
            raise
    return text


def describe_blocked_deletion(resource: dict[str, Any]) -> str:
    """Return an object's title and what blocks its deletion."""
    finalizers = field_at_path(resource, "metadata.finalizers", [])
    if finalizers:
        return (
            f"{format_object_title(resource)} (held by finalizer {', '.join(finalizers)}, which its"
            " controller has not removed)"
        )
    remaining = [
        condition.get("message", "")
        for condition in field_at_path(resource, "status.conditions", [])
        if condition.get("status") == "True" and "Remaining" in str(condition.get("type"))
    ]
    return f"{format_object_title(resource)}{f' ({remaining[0]})' if remaining else ''}"


#: Seconds between two polls, and consecutive polls that must find nothing.
_RECREATION_POLL = 0.5
QUIET_POLLS = 6
#: Seconds to wait for OLM's Operator objects that list components.
_COMPONENTS_TIMEOUT = 60.0
_RBAC = "rbac.authorization.k8s.io/v1"
#: OLM's labels that name the OperatorGroup or version to which a cluster role belongs.
_OWNER = ("olm.owner", "olm.owner.namespace", "olm.owner.kind")


#: Where a Subscription names its version: its status may lack both until OLM has resolved it.
_VERSIONS_OF_SUBSCRIPTION = ("status.installedCSV", "status.currentCSV", "spec.startingCSV")


class RecreatedObjects:
    """Versions, permissions, labels and Operator objects of removed operators.

    delete: deletes objects and waits until they are deleted.
    owners: the deleted OperatorGroups and versions (ClusterServiceVersions).
    staying: objects that stay, but that OLM has labelled as components of the operators.
    components: names of the operators in these labels, ``<package>.<namespace>``.
    """

    def __init__(
        self, client: Client, delete: Callable[[Sequence[dict[str, Any]]], None], owners: Sequence[dict[str, Any]]
    ) -> None:
        self.client = client
        self.delete = delete
        self.owners = owners
        self.staying: Sequence[dict[str, Any]] = ()
        self.components: Sequence[str] = ()
        self._operators_deadline = time.monotonic() + _COMPONENTS_TIMEOUT

    def delete_until_none(self, deadline: float, say: Say) -> None:
        """Delete all of them until several polls in succession found none.

        deadline: on time.monotonic(). Raises WaitTimeout.
        """
        began = time.monotonic()
        calm = 0

        def look() -> tuple[bool | None, str]:
            nonlocal calm
            calm = 0 if self.delete_found() else calm + 1
            return calm >= QUIET_POLLS or None, "waiting until OLM recreates nothing of the removed operators"

        if self.owners or self.components:
            wait_until(look, max(deadline - began, 0), say, "still {}".format, _RECREATION_POLL)

    def delete_found(self) -> bool:
        """Delete all that exist now; return whether there were any, without Operators that list components too long."""
        return any(
            [
                self.delete_versions(),
                self._delete_permissions(),
                self._remove_labels(),
                self._delete_operators() and time.monotonic() < self._operators_deadline,
            ]
        )

    def delete_versions(self) -> bool:
        """Delete versions that OLM recreated because it was executing their InstallPlan; return whether any exist.

        One that a Subscription installs or may install is kept: ours are deleted, so somebody else has created it.
        """
        kind = self.client.kind(V1ALPHA1, "ClusterServiceVersion")
        versions = [owner["metadata"] for owner in self.owners if owner["kind"] == kind.kind]
        places = sorted({(version["namespace"], version["name"]) for version in versions})
        found = [self.client.get(kind, name, namespace) for namespace, name in places]
        # Read after the versions: a Subscription that is there before its version is seen.
        subscriptions = self.client.list(self.client.kind(V1ALPHA1, "Subscription"))[0]
        return self._delete_existing([each for each in found if each and not _may_be_installed(each, subscriptions)])

    def _delete_permissions(self) -> bool:
        """Delete cluster roles and bindings that OLM created for deleted owners; return whether any exist.

        OLM deletes them itself, except those that it was creating meanwhile. The garbage collector deletes the roles in
        namespaces.
        """
        gone = {_owner_label_values(owner) for owner in self.owners if get_current_object(self.client, owner) is None}
        if not gone:
            return False
        kinds = [self.client.kind(_RBAC, name) for name in ("ClusterRoleBinding", "ClusterRole")]
        # All that have an owner, because a selector can't contain every name of a version.
        permissions = [
            permission for kind in kinds for permission in self.client.list(kind, label_selector=_OWNER[0])[0]
        ]
        return self._delete_existing(
            [permission for permission in permissions if tuple(get_label(permission, name) for name in _OWNER) in gone]
        )

    def _remove_labels(self) -> bool:
        """Remove OLM's labels of removed operators from objects that stay; return whether there were any.

        OLM adds such a label again while it does not know that the version is deleted. While an object has the label,
        OLM recreates the Operator object.
        """
        names = {f"operators.coreos.com/{component}" for component in self.components}
        labelled = False
        for resource in self.staying:
            latest = get_current_object(self.client, resource)
            if latest is not None and (wrong := names.intersection(field_at_path(latest, "metadata.labels") or {})):
                patch_labels(self.client, latest, dict.fromkeys(wrong))
                labelled = True
        return labelled

    def _delete_operators(self) -> bool:
        """Delete OLM's Operator objects that list no component any more; return whether there are any."""
        try:
            kind = self.client.kind(V1, "Operator")
        except InputError:
            return False
        operators = [
            operator for operator in (self.client.get(kind, name) for name in self.components) if operator is not None
        ]
        for operator in operators:
            if not field_at_path(operator, "status.components.refs"):
                self.client.delete_seen(kind, operator["metadata"])
        return bool(operators)

    def _delete_existing(self, candidates: Sequence[dict[str, Any] | None]) -> bool:
        """Delete those that exist; return whether any does."""
        existing = [candidate for candidate in candidates if candidate is not None]
        self.delete(existing)
        return bool(existing)


def get_current_object(client: Client, resource: dict[str, Any]) -> dict[str, Any] | None:
    """Return the object of this kind and name as it is now, None if there is none. Raises ApiError."""
    meta = resource["metadata"]
    return client.get(client.kind_of(resource), meta["name"], meta.get("namespace", ""))


def patch_labels(client: Client, resource: dict[str, Any], labels: dict[str, str | None]) -> None:
    """Set labels; None removes one. An object that was deleted meanwhile is ignored. Raises ApiError."""
    meta = resource["metadata"]
    path = client.kind_of(resource).path(meta.get("namespace", ""), meta["name"])
    try:
        client.request("PATCH", path, {"metadata": {"labels": labels}}, content_type=MERGE_PATCH)
    except ApiError as error:
        if error.status != 404:
            raise


def _may_be_installed(version: dict[str, Any], subscriptions: Sequence[dict[str, Any]]) -> bool:
    """Return whether a Subscription of the namespace names this version, or does not say yet which it installs."""
    meta = version["metadata"]
    for each in subscriptions:
        named = [field_at_path(each, path) for path in _VERSIONS_OF_SUBSCRIPTION]
        if each["metadata"]["namespace"] == meta["namespace"] and (meta["name"] in named or not any(named[:2])):
            return True
    return False


def _owner_label_values(owner: dict[str, Any]) -> tuple[str, str, str]:
    """Return the values that the labels of _OWNER have on what OLM created for a group or version."""
    return owner["metadata"]["name"], owner["metadata"]["namespace"], owner["kind"]
