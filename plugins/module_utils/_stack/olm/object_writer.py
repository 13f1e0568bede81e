# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create, update or adopt the objects of one operator, logging and recording each change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.apply import ObjectDiff
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import field_at, merged, title
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import WatchCache

from . import manifests
from .operator_specs import Operator
from .readiness import covers


@dataclass
class Writer:
    """Writes the objects of one operator; ``created`` and ``changes`` list what was done.

    pull_secret: the dockerconfigjson for its catalog's image. check: whether to record changes without making them.
    """

    client: Client
    cache: WatchCache
    operator: Operator
    run_id: str
    say: Say
    pull_secret: str = field(default="", repr=False)
    check: bool = False
    diff: ObjectDiff = field(default_factory=ObjectDiff)
    created: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)

    def ensure_namespace(self, name: str) -> str:
        """Ensure that a namespace exists; return what to wait for if it is being deleted, else ""."""
        found = self.cache.get("Namespace", "", name)
        if found is not None and field_at(found, "metadata.deletionTimestamp"):
            return f"namespace {name} to be deleted completely"
        monitoring = self.operator.monitoring and name == self.operator.namespace
        if found is None:
            self.create(manifests.namespace(name, self.run_id, monitoring))
        elif (
            monitoring
            and manifests.ours(found, self.run_id)
            and not field_at(found, "metadata.labels").get(manifests.MONITORING)
        ):
            self.patch(found, {"metadata": {"labels": {manifests.MONITORING: "true"}}}, "monitoring of")
        return ""

    def ensure_pull_secret(self) -> None:
        """Ensure that the catalog's pull secret exists. Secrets are not watched, since most belong to others.

        Raises OwnershipError for a different Secret of that name that this run did not create.
        """
        wanted = manifests.pull_secret(self.operator, self.pull_secret, self.run_id)
        meta = wanted["metadata"]
        found = self.client.get(self.client.kind("v1", "Secret"), meta["name"], meta["namespace"])
        if found is None:
            self.create(wanted)
        elif found.get("data") != wanted["data"]:
            if not manifests.ours(found, self.run_id):
                raise OwnershipError(
                    f"{self.operator.package}: {title(found)} was not created by this run and has different content"
                )
            self.patch(found, {"data": wanted["data"]}, "content of")

    def ensure(self, manifest: dict[str, Any], namespace: str) -> None:
        """Ensure that an object exists that the operator or its operand refers to, by default in ``namespace``.

        Raises OwnershipError for a different object of that name that this run did not create.
        """
        meta = {"namespace": namespace, **manifest["metadata"]}
        meta["labels"] = {**(meta.get("labels") or {}), run_labels.RUN: self.run_id}
        wanted = {**manifest, "metadata": meta}
        self.cache.follow(wanted["apiVersion"], wanted["kind"])
        found = self.cache.get(wanted["kind"], meta["namespace"], meta["name"])
        content = {name: value for name, value in wanted.items() if name not in ("apiVersion", "kind", "metadata")}
        if found is None:
            self.create(wanted)
        elif not covers(found, content):
            if not manifests.ours(found, self.run_id):
                raise OwnershipError(
                    f"{self.operator.package}: {title(found)} was not created by this run and has different content"
                )
            self.patch(found, content, "content of")

    def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create an object and return it, or the existing one if this run created it meanwhile.

        Raises OwnershipError if somebody else created it meanwhile.
        """
        try:
            made = manifest if self.check else self.client.create(manifest)
        except ApiError as error:
            if error.status != 409:
                raise
            kind = self.client.kind_of(manifest)
            meta = manifest["metadata"]
            made = self.client.get(kind, meta["name"], meta.get("namespace", "")) or manifest
            if not manifests.ours(made, self.run_id):
                raise OwnershipError(
                    f"{title(made)} was just created by somebody else. Check it and try again"
                ) from error
        else:
            self.created.append(title(made))
            self.diff.created(manifest)
            self._changed(f"created {title(made)}")
        self.cache.note(made["kind"], made)
        return made

    def patch(self, found: dict[str, Any], patch: dict[str, Any], what: str) -> None:
        """Apply a merge patch. what: the changed part for messages, such as "spec of", or "approved"."""
        kind = self.client.kind_of(found)
        meta = found["metadata"]
        path = kind.path(meta.get("namespace", ""), meta["name"])
        self.diff.patched(found, patch)
        if self.check:
            made = merged(found, patch)
        else:
            made = self.client.request("PATCH", path, patch, content_type=MERGE_PATCH)
        self.cache.note(kind.kind, made)
        self._changed(f"{what if what == 'approved' else f'changed {what}'} {title(made)}")

    def _changed(self, what: str) -> None:
        self.changes.append(what)
        if not self.check:
            self.say(f"{self.operator.package}: {what}")
