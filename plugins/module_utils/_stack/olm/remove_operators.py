# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove operators of a run: operands, then Subscriptions, then what OLM created for them.

Before the first deletion, all resources that came with a Subscription of this run get the run's label. A removal that
was killed can therefore be completed by another one, or by role cleanup, which deletes by label.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    InputError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ThreadPool
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.cleanup import deletion_order
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import Kind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import field_at, label, title, titles
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import WatchCache

from . import existing_olm_objects
from .delete_and_wait import Deletion, delete_all
from .manifests import V1ALPHA1, ours
from .recreated_objects import RecreatedObjects, patch_labels
from .removable_resources import OwnedSearch, OwnedSubscription, RemovalSpec

_RBAC = "rbac.authorization.k8s.io/v1"
#: List requests in flight.
_PARALLEL = 16

#: OLM's labels on objects that it created for an operator.
_OLMS = ("olm.managed", "olm.copiedFrom", "olm.owner")


class Removal(OwnedSearch):
    """One removal of operators."""

    def __init__(self, client: Client, cache: WatchCache, spec: RemovalSpec, say: Say) -> None:
        super().__init__(client, cache, spec)
        self.say = say
        self.deadline = time.monotonic() + spec.timeout
        self.done = Deletion()

    def run(self, check: bool = False) -> dict[str, Any]:
        """Remove everything. Raises WaitTimeout naming what blocks a deletion."""
        parts = self.parts()
        if check:
            going = [*self.loose, *(one.subscription for one in parts)]
            return self._result(bool(going), [title(one) for one in going])
        self._delete(self.loose)
        namespaces = self._label_all(parts)
        for part in parts:
            self._delete([one for one in part.operands if not field_at(one, "metadata.ownerReferences")])
        plans = [
            each
            for each in self.cache.all("InstallPlan")
            for part in parts
            if any(
                owner["uid"] == part.subscription["metadata"]["uid"]
                for owner in field_at(each, "metadata.ownerReferences", [])
            )
        ]
        self._delete([part.subscription for part in parts])
        # Before the versions: OLM recreates what an InstallPlan in execution lists. The garbage collector deletes the
        # plans too; this waits for it.
        shared = [each for each in plans if len(field_at(each, "metadata.ownerReferences", [])) > 1]
        self._delete([each for each in plans if each not in shared])
        versions = [csv for part in parts for csv in part.csvs]
        self._delete(versions)
        groups = self._groups_and_catalogs()
        recreated = RecreatedObjects(self.client, self._delete, [*groups, *versions])
        recreated.delete_versions()
        if self.spec.crds:
            recreated.staying = [*self._definitions(parts), *shared]
            recreated.components = [f"{part.package}.{part.namespace}" for part in parts]
        recreated.delete_until_none(self.deadline, self.say)
        self._delete_namespaces([*namespaces, *self._own_namespaces(parts)])
        return self._result(bool(self.done.deleted), self.done.deleted)

    def _result(self, changed: bool, removed: list[str]) -> dict[str, Any]:
        for one in self.kept:
            self.say(f"left unchanged: {one}")
        diff: dict[str, Any] = {"before": {one: {} for one in removed}, "after": {}}
        finalizers = self.done.finalizers
        return {"changed": changed, "removed": removed, "kept": self.kept, "finalizers": finalizers, "diff": diff}

    def _delete(self, objects: Sequence[dict[str, Any]]) -> None:
        delete_all(self.client, objects, self.deadline, self.done, self.say, self.spec.force_finalizers)

    def _subscriptions(self) -> list[dict[str, Any]]:
        """Return the current Subscriptions of everybody."""
        return self.client.list(self.client.kind(V1ALPHA1, "Subscription"))[0]

    def _label_all(self, parts: Sequence[OwnedSubscription]) -> list[dict[str, Any]]:
        """Label all resources that came with our Subscriptions; return the namespaces that the operators created."""
        namespaces = []
        for part in parts:
            for one in [*part.csvs, *part.operands]:
                self._label(one)
            if self.spec.crds:
                mine = [one for one in part.crds if ours(one, self.spec.run_id) or self._since(one, part)]
                part.older = [one for one in part.crds if one not in mine]
                part.crds = mine
                for one in mine:
                    self._label(one)
            for name in self.spec.namespaces:
                found = self.cache.get("Namespace", "", name)
                if found is not None and found not in namespaces and self._since(found, part):
                    self._label(found)
                    namespaces.append(found)
        return namespaces

    def _label(self, one: dict[str, Any]) -> None:
        if not ours(one, self.spec.run_id):
            patch_labels(self.client, one, {run_labels.RUN: self.spec.run_id})

    def _groups_and_catalogs(self) -> list[dict[str, Any]]:
        """Delete our OperatorGroups and CatalogSources that no Subscription uses any more; return the groups."""
        left = self._subscriptions()
        used = {each["metadata"]["namespace"] for each in left}
        sources = {(field_at(each, "spec.sourceNamespace"), field_at(each, "spec.source")) for each in left}
        going = [each for each in self.cache.all("OperatorGroup") if each["metadata"]["namespace"] not in used]
        going += [
            each
            for each in self.cache.all("CatalogSource")
            if (each["metadata"]["namespace"], each["metadata"]["name"]) not in sources
        ]
        going = [each for each in going if ours(each, self.spec.run_id)]
        self._delete(going)
        kind = self.client.kind("v1", "Secret")
        secrets = [
            self.client.get(kind, name, each["metadata"]["namespace"])
            for each in going
            for name in field_at(each, "spec.secrets", [])
        ]
        self._delete([each for each in secrets if each is not None and ours(each, self.spec.run_id)])
        return [each for each in going if each["kind"] == "OperatorGroup"]

    def _definitions(self, parts: Sequence[OwnedSubscription]) -> list[dict[str, Any]]:
        """Delete unused definitions that came with our operators, and OLM's roles for older ones; return those left."""
        provided = {
            one["name"]
            for csv in self.client.list(
                self.client.kind(V1ALPHA1, "ClusterServiceVersion"),
                label_selector=f"!{existing_olm_objects.COPIED}",
            )[0]
            for one in field_at(csv, "spec.customresourcedefinitions.owned", [])
        }
        going = []
        for crd in {one["metadata"]["name"]: one for part in parts for one in part.crds}.values():
            if crd["metadata"]["name"] in provided:
                self.kept.append(f"{title(crd)}: another operator provides it")
            elif others := self._objects_of(crd):
                self.kept.append(f"{title(crd)}: there are {titles(others)}")
            else:
                going.append(crd)
        self._delete(going)
        for part in parts:
            for crd in part.older:
                if crd["metadata"]["name"] not in provided:
                    self._delete_roles_for(crd, part)
        deleted = {crd["metadata"]["name"] for crd in going}
        return [crd for part in parts for crd in [*part.crds, *part.older] if crd["metadata"]["name"] not in deleted]

    def _delete_roles_for(self, crd: dict[str, Any], part: OwnedSubscription) -> None:
        """Delete the roles that OLM created for a definition that existed before our operator."""
        roles, _version = self.client.list(self.client.kind(_RBAC, "ClusterRole"))
        name = crd["metadata"]["name"]
        pattern = re.compile(rf"{re.escape(name)}-v\w+-(admin|edit|view|crdview)\Z")
        self._delete([one for one in roles if pattern.match(one["metadata"]["name"]) and self._since(one, part)])

    def _own_namespaces(self, parts: Sequence[OwnedSubscription]) -> list[dict[str, Any]]:
        """Return our namespaces of these operators; without packages, all that were created for operators."""
        names = {*self.spec.namespaces, *(part.namespace for part in parts)}
        names |= {one["metadata"].get("namespace", "") for part in parts for one in part.operands}
        names |= {field_at(part.subscription, "spec.sourceNamespace", "") for part in parts}
        return [
            found
            for found in self.cache.all("Namespace")
            if ours(found, self.spec.run_id)
            and (found["metadata"]["name"] in names or (label(found, run_labels.PART) and not self.spec.packages))
        ]

    def _delete_namespaces(self, namespaces: Sequence[dict[str, Any]]) -> None:
        """Delete namespaces that contain no objects of others."""
        going: dict[str, dict[str, Any]] = {}
        for one in namespaces:
            name = one["metadata"]["name"]
            others = self._others_in(name)
            if others:
                self.kept.append(f"Namespace {name}: it contains {titles(others)}")
            else:
                going[name] = one
        self._delete(list(going.values()))

    def _others_in(self, namespace: str) -> list[dict[str, Any]]:
        kinds = [one for one in deletion_order.deletable(self.client.kinds()) if one.namespaced]
        with ThreadPool(_PARALLEL) as pool:
            lists = list(pool.map(lambda kind: self._list(kind, namespace), kinds))
        found = []
        for kind, items in zip(kinds, lists, strict=True):
            for item in items:
                item["kind"] = kind.kind
                labels = item["metadata"].get("labels") or {}
                subscribed = kind.kind in ("Subscription", "ClusterServiceVersion") and not any(
                    name in labels for name in _OLMS[1:]
                )
                if subscribed or (
                    deletion_order.foreign(kind.kind, item, self.spec.run_id)
                    and not any(one in labels for one in _OLMS)
                ):
                    found.append(item)
        return found

    def _list(self, kind: Kind, namespace: str) -> list[dict[str, Any]]:
        try:
            return self.client.list(kind, namespace, metadata_only=True)[0]
        except ApiError as error:
            if error.status in (403, 404, 405):
                return []
            raise SeatrialError(f"can't list {kind.kind} in namespace {namespace}: {error}") from error


def remove(client: Client, spec: RemovalSpec, say: Say, check: bool = False) -> dict[str, Any]:
    """Remove operators of a run; nothing on a cluster without OLM. Raises InputError, WaitTimeout, ApiError."""
    deletion_order.selector(spec.run_id)
    with WatchCache(client) as cache:
        try:
            existing_olm_objects.follow(cache)
        except InputError:
            return {"changed": False, "removed": [], "kept": [], "finalizers": [], "diff": {"before": {}, "after": {}}}
        return Removal(client, cache, spec, say).run(check)
