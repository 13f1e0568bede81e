# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Delete what OLM recreates for removed operators, because its controllers read caches that are not up to date yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say, wait_until
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import field_at, label

from .manifests import V1, V1ALPHA1

#: Seconds between two polls, and consecutive polls that must find nothing.
_POLL = 0.5
_CALM = 6
#: Seconds to wait for OLM's Operator objects that list components.
_LISTED = 60.0
_RBAC = "rbac.authorization.k8s.io/v1"
#: OLM's labels that name the OperatorGroup or version to which a cluster role belongs.
_OWNER = ("olm.owner", "olm.owner.namespace", "olm.owner.kind")


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

    def delete_until_none(self, deadline: float, say: Say) -> None:
        """Delete all of them until several polls in succession found none.

        deadline: on time.monotonic(). Raises WaitTimeout.
        """
        began = time.monotonic()
        calm = 0

        def look() -> tuple[bool | None, str]:
            nonlocal calm
            found = [
                self.delete_versions(),
                self._delete_permissions(),
                self._remove_labels(),
                self._delete_operators() and time.monotonic() - began < _LISTED,
            ]
            calm = 0 if any(found) else calm + 1
            return calm >= _CALM or None, "waiting until OLM recreates nothing of the removed operators"

        if self.owners or self.components:
            wait_until(look, max(deadline - began, 0), say, "still {}".format, _POLL)

    def delete_versions(self) -> bool:
        """Delete versions that OLM recreated because it was executing their InstallPlan; return whether any exist."""
        kind = self.client.kind(V1ALPHA1, "ClusterServiceVersion")
        subscriptions = self.client.list(self.client.kind(V1ALPHA1, "Subscription"))[0]
        used = {(each["metadata"]["namespace"], field_at(each, "status.installedCSV")) for each in subscriptions}
        versions = [one["metadata"] for one in self.owners if one["kind"] == kind.kind]
        places = {(one["namespace"], one["name"]) for one in versions} - used
        return self._delete_found([self.client.get(kind, name, namespace) for namespace, name in sorted(places)])

    def _delete_permissions(self) -> bool:
        """Delete cluster roles and bindings that OLM created for deleted owners; return whether any exist.

        OLM deletes them itself, except those that it was creating meanwhile. The garbage collector deletes the roles in
        namespaces.
        """
        gone = {_owner(one) for one in self.owners if current(self.client, one) is None}
        if not gone:
            return False
        kinds = [self.client.kind(_RBAC, name) for name in ("ClusterRoleBinding", "ClusterRole")]
        # All that have an owner, because a selector can't contain every name of a version.
        found = [one for kind in kinds for one in self.client.list(kind, label_selector=_OWNER[0])[0]]
        return self._delete_found([one for one in found if tuple(label(one, name) for name in _OWNER) in gone])

    def _remove_labels(self) -> bool:
        """Remove OLM's labels of removed operators from objects that stay; return whether there were any.

        OLM adds such a label again while it does not know that the version is deleted. While an object has the label,
        OLM recreates the Operator object.
        """
        names = {f"operators.coreos.com/{one}" for one in self.components}
        labelled = False
        for one in self.staying:
            found = current(self.client, one)
            if found is not None and (wrong := names.intersection(field_at(found, "metadata.labels") or {})):
                patch_labels(self.client, found, dict.fromkeys(wrong))
                labelled = True
        return labelled

    def _delete_operators(self) -> bool:
        """Delete OLM's Operator objects that list no component any more; return whether there are any."""
        try:
            kind = self.client.kind(V1, "Operator")
        except InputError:
            return False
        found = [one for one in (self.client.get(kind, name) for name in self.components) if one is not None]
        for one in found:
            if not field_at(one, "status.components.refs"):
                self.client.delete(kind, one["metadata"]["name"])
        return bool(found)

    def _delete_found(self, found: Sequence[dict[str, Any] | None]) -> bool:
        """Delete those that exist; return whether any does."""
        existing = [one for one in found if one is not None]
        self.delete(existing)
        return bool(existing)


def current(client: Client, one: dict[str, Any]) -> dict[str, Any] | None:
    """Return the object of this kind and name as it is now, None if there is none. Raises ApiError."""
    meta = one["metadata"]
    return client.get(client.kind_of(one), meta["name"], meta.get("namespace", ""))


def patch_labels(client: Client, one: dict[str, Any], labels: dict[str, str | None]) -> None:
    """Set labels; None removes one. An object that was deleted meanwhile is ignored. Raises ApiError."""
    meta = one["metadata"]
    path = client.kind_of(one).path(meta.get("namespace", ""), meta["name"])
    try:
        client.request("PATCH", path, {"metadata": {"labels": labels}}, content_type=MERGE_PATCH)
    except ApiError as error:
        if error.status != 404:
            raise


def _owner(one: dict[str, Any]) -> tuple[str, str, str]:
    """Return the values that the labels of _OWNER have on what OLM created for a group or version."""
    return one["metadata"]["name"], one["metadata"]["namespace"], one["kind"]
