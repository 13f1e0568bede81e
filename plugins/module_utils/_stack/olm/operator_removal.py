# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove operators of a run: operands, then Subscriptions, then what OLM created for them.

Only resources that this run created and nobody else uses are removed. Before the first deletion, all resources that
came with a Subscription of this run get the run's label. A removal that was killed can therefore be completed by
another one, or by role cleanup, which deletes by label.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import format_list
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import deletion_order
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.unlisted_kinds import list_objects_of_kinds
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    field_at_path,
    format_object_title,
    format_object_titles,
    get_label,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import WatchCache

from . import existing_olm_objects
from .deletable_operators import (
    CRD_KIND,
    OwnedSearch,
    OwnedSubscription,
    RemovalSpec,
    RunOwners,
    is_owned_by_another_object,
)
from .delete_and_await import DeletionResult, RecreatedObjects, delete_objects_and_wait, patch_labels
from .operator_objects import V1ALPHA1, is_created_by_run, names_of_owned_definitions

_RBAC = "rbac.authorization.k8s.io/v1"

#: OLM's labels on objects that it created for an operator.
OLM_LABELS = ("olm.managed", "olm.copiedFrom", "olm.owner")


class OperatorRemoval(OwnedSearch):
    """One removal of operators."""

    def __init__(self, client: Client, cache: WatchCache, spec: RemovalSpec, say: Say) -> None:
        super().__init__(client, cache, spec)
        self.say = say
        self.deadline = time.monotonic() + spec.timeout
        self.done = DeletionResult()
        self._handed_over: set[str] = set()  # uids of what lost the run's label

    def run(self, check: bool = False) -> dict[str, Any]:
        """Remove everything. Raises WaitTimeout naming what blocks a deletion."""
        parts = self.parts()
        if check:
            going = [*self.loose, *(part.subscription for part in parts)]
            handed_over = self.spec.hand_over and self.used
            return self._result(bool(going or handed_over), [format_object_title(resource) for resource in going])
        self._delete(self.loose)
        if self.spec.hand_over:
            self._hand_over_used()
        namespaces = self._label_all(parts)
        for part in parts:
            # First those whose finalizers the controller of another operand removes, such as the queues of Kueue.
            self._delete(part.brought)
            self._delete([operand for operand in part.operands if not is_owned_by_another_object(operand)])
        # The garbage collector deletes these too, after their owners, but their definitions must wait for it.
        self._delete([operand for part in parts for operand in part.operands if is_owned_by_another_object(operand)])
        plans = [
            each
            for each in self.cache.all("InstallPlan")
            for part in parts
            if any(
                owner["uid"] == part.subscription["metadata"]["uid"]
                for owner in field_at_path(each, "metadata.ownerReferences", [])
            )
        ]
        self._delete([part.subscription for part in parts])
        # Before the versions: OLM recreates what an InstallPlan in execution lists. The garbage collector deletes the
        # plans too; this waits for it.
        shared = [each for each in plans if len(field_at_path(each, "metadata.ownerReferences", [])) > 1]
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
        self._delete_extras(parts)
        # Once more: on a busy cluster OLM recreates something while namespaces are deleted.
        if recreated.delete_found():
            recreated.delete_until_none(self.deadline, self.say)
        return self._result(bool(self.done.deleted or self._handed_over), self.done.deleted)

    def _result(self, changed: bool, removed: list[str]) -> dict[str, Any]:
        for note in self.kept:
            self.say(f"left unchanged: {note}")
        diff: dict[str, Any] = {"before": {name: {} for name in removed}, "after": {}}
        finalizers = self.done.finalizers
        return {"changed": changed, "removed": removed, "kept": self.kept, "finalizers": finalizers, "diff": diff}

    def _delete(self, objects: Sequence[dict[str, Any]]) -> None:
        delete_objects_and_wait(self.client, objects, self.deadline, self.done, self.say, self.spec.force_finalizers)

    def _subscriptions(self) -> list[dict[str, Any]]:
        """Return the current Subscriptions of everybody."""
        return self.client.list(self.client.kind(V1ALPHA1, "Subscription"))[0]

    def _label_all(self, parts: Sequence[OwnedSubscription]) -> list[dict[str, Any]]:
        """Label all resources that came with our Subscriptions; return the namespaces that the operators created."""
        namespaces = []
        for part in parts:
            # Role cleanup keeps the definitions among the extras too, if there are objects of them.
            extras = [
                each for each in self.objects_created_by_operator(part) if self.spec.crds or each["kind"] != CRD_KIND
            ]
            for resource in [*part.csvs, *part.resources, *extras]:
                # A label on what others own would call the webhooks of their operators, and has no use.
                if not is_owned_by_another_object(resource):
                    self._label(resource)
            if self.spec.crds:
                mine = [crd for crd in part.crds if is_created_by_run(crd, self.spec.run_id) or self._since(crd, part)]
                part.older = [crd for crd in part.crds if crd not in mine]
                part.crds = mine
                for crd in mine:
                    self._label(crd)
            for name in [*self.spec.namespaces, *part.creates.namespaces]:
                namespace = self.cache.get("Namespace", "", name)
                if namespace is None or namespace in namespaces or self._is_handed_over(namespace):
                    continue
                if self._made_by_cluster(namespace, part):
                    self._label(namespace)
                    namespaces.append(namespace)
        return namespaces

    def _label(self, resource: dict[str, Any]) -> None:
        if not is_created_by_run(resource, self.spec.run_id):
            self._patch_run_label(resource, self.spec.run_id)

    def _patch_run_label(self, resource: dict[str, Any], value: str | None) -> None:
        try:
            patch_labels(self.client, resource, {run_labels.RUN: value})
        except ApiError as error:
            # Changing a role, even its labels, requires all permissions in it, which deleting it does not.
            if error.status != 403 or not str(resource.get("apiVersion", "")).startswith(_RBAC.partition("/")[0]):
                raise

    def _hand_over_used(self) -> None:
        """Remove the run's label from operators that stay for others, so that role cleanup does not delete them.

        _groups_and_catalogs does the same with their OperatorGroups and CatalogSources.
        """
        for part in self.used:
            spaces = [part.namespace, _catalog_of(part.subscription)[0], *part.creates.namespaces]
            found = [
                *part.csvs,
                *part.crds,
                *part.operands,
                *self.objects_created_by_operator(part),
                *(self.cache.get("Namespace", "", name) for name in dict.fromkeys(spaces)),
                # Last: without it, a further removal would not find what a killed one has left.
                part.subscription,
            ]
            self._hand_over([each for each in found if each is not None and is_created_by_run(each, self.spec.run_id)])

    def _hand_over(self, objects: Sequence[dict[str, Any]]) -> None:
        for each in objects:
            if not self._is_handed_over(each):
                self._patch_run_label(each, None)
                self._handed_over.add(each["metadata"]["uid"])

    def objects_created_by_operator(self, part: OwnedSubscription) -> list[dict[str, Any]]:
        """Return these objects of a part without those that stay for others, with another part that creates them."""
        return [each for each in super().objects_created_by_operator(part) if not self._is_handed_over(each)]

    def _is_handed_over(self, resource: dict[str, Any]) -> bool:
        return resource["metadata"]["uid"] in self._handed_over

    def _groups_and_catalogs(self) -> list[dict[str, Any]]:
        """Delete our OperatorGroups and CatalogSources that no Subscription uses any more; return the groups."""
        left = self._subscriptions()
        ours = [
            each
            for each in [*self.cache.all("OperatorGroup"), *self.cache.all("CatalogSource")]
            if is_created_by_run(each, self.spec.run_id)
        ]
        going = [each for each in ours if not _is_used(each, left)]
        if self.spec.hand_over:
            others = [each for each in left if not is_created_by_run(each, self.spec.run_id)]
            staying = [each for each in ours if _is_used(each, others)]
            places = dict.fromkeys(each["metadata"]["namespace"] for each in staying)
            spaces = [self.cache.get("Namespace", "", name) for name in places]
            found = [*staying, *self._pull_secrets(staying), *(each for each in spaces if each is not None)]
            self._hand_over([each for each in found if is_created_by_run(each, self.spec.run_id)])
        self._delete(going)
        self._delete(self._pull_secrets(going))
        return [each for each in going if each["kind"] == "OperatorGroup"]

    def _pull_secrets(self, catalogs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the run's Secrets that these CatalogSources name."""
        kind = self.client.kind("v1", "Secret")
        secrets = [
            self.client.get(kind, name, each["metadata"]["namespace"])
            for each in catalogs
            for name in field_at_path(each, "spec.secrets", [])
        ]
        return [each for each in secrets if each is not None and is_created_by_run(each, self.spec.run_id)]

    def _provided(self) -> set[str]:
        """Return the names of the definitions that the operators that are left provide."""
        kind = self.client.kind(V1ALPHA1, "ClusterServiceVersion")
        csvs = self.client.list(kind, label_selector=f"!{existing_olm_objects.COPIED}")[0]
        return {name for csv in csvs for name in names_of_owned_definitions(csv)}

    def _keep_provided(self, crd: dict[str, Any]) -> None:
        self.kept.append(f"{format_object_title(crd)}: another operator provides it")
        if self.spec.hand_over:
            self._hand_over([crd])

    def _definitions(self, parts: Sequence[OwnedSubscription]) -> list[dict[str, Any]]:
        """Delete unused definitions that came with our operators, and OLM's roles for older ones; return those left."""
        provided = self._provided()
        # An operator may have created these again until its version was deleted; they go with their definition.
        recreated = {(each["kind"], each["name"]) for part in parts for each in part.creates.operands}
        owners = RunOwners(self.client, self.spec.run_id)
        going = []
        for crd in {definition["metadata"]["name"]: definition for part in parts for definition in part.crds}.values():
            if crd["metadata"]["name"] in provided:
                self._keep_provided(crd)
            elif others := [
                resource
                for resource in self._objects_of(crd)
                if (resource["kind"], resource["metadata"]["name"]) not in recreated and not owners.own(resource)
            ]:
                self.kept.append(f"{format_object_title(crd)}: there are {format_object_titles(others)}")
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
        self._delete([role for role in roles if pattern.match(role["metadata"]["name"]) and self._since(role, part)])

    def _delete_extras(self, parts: Sequence[OwnedSubscription]) -> None:
        """Delete what operators left behind, after the namespaces, where programs create some of it again."""
        going, provided = [], self._provided()
        for resource in [resource for part in parts for resource in self.objects_created_by_operator(part)]:
            is_definition = resource["kind"] == CRD_KIND
            if is_definition and not self.spec.crds:
                continue
            others = self._objects_of(resource) if is_definition else []
            if is_definition and resource["metadata"]["name"] in provided:
                self._keep_provided(resource)
            elif others:
                self.kept.append(f"{format_object_title(resource)}: there are {format_object_titles(others)}")
            else:
                going.append(resource)
        self._delete(going)

    def _own_namespaces(self, parts: Sequence[OwnedSubscription]) -> list[dict[str, Any]]:
        """Return our namespaces of these operators; without packages, all that were created for operators."""
        names = {*self.spec.namespaces, *(part.namespace for part in parts)}
        names |= {name for part in parts for name in part.creates.namespaces}
        names |= {operand["metadata"].get("namespace", "") for part in parts for operand in part.operands}
        names |= {_catalog_of(part.subscription)[0] for part in parts}
        catalogs = {_catalog_of(each) for each in self._subscriptions()}
        used = {place for place, name in catalogs if self.cache.get("CatalogSource", place, name) is not None}
        return [
            namespace
            for namespace in self.cache.all("Namespace")
            if is_created_by_run(namespace, self.spec.run_id)
            and namespace["metadata"]["name"] not in used
            and not self._is_handed_over(namespace)  # the watch may be late
            and (
                namespace["metadata"]["name"] in names
                or (get_label(namespace, run_labels.PART) and not self.spec.packages)
            )
        ]

    def _delete_namespaces(self, namespaces: Sequence[dict[str, Any]]) -> None:
        """Delete namespaces that contain no objects of others, as far as can be seen of all kinds."""
        going: dict[str, dict[str, Any]] = {}
        for namespace in namespaces:
            name = namespace["metadata"]["name"]
            others, unknown = self._others_in(name)
            if others:
                self.kept.append(f"Namespace {name}: it contains {format_object_titles(others)}")
            elif unknown:
                why = f"these can't be listed: {format_list(unknown)}"
                self.kept.append(f"Namespace {name}: it may contain objects of others: {why}")
            else:
                going[name] = namespace
        self._delete(list(going.values()))

    def _others_in(self, namespace: str) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the objects of others in a namespace, and the kinds that can't be listed."""
        kinds = deletion_order.user_created_kinds(self.client.kinds())
        listed, unknown = list_objects_of_kinds(self.client, kinds, namespace)
        others = []
        for kind, item in listed:
            item["kind"] = kind.kind
            labels = item["metadata"].get("labels") or {}
            subscribed = kind.kind in ("Subscription", "ClusterServiceVersion") and not any(
                name in labels for name in OLM_LABELS[1:]
            )
            if subscribed or (
                deletion_order.belongs_to_others(kind.kind, item, self.spec.run_id)
                and not any(name in labels for name in OLM_LABELS)
            ):
                others.append(item)
        return others, unknown


def _catalog_of(subscription: dict[str, Any]) -> tuple[str, str]:
    """Return namespace and name of the CatalogSource of a Subscription."""
    spec = subscription.get("spec") or {}
    return str(spec.get("sourceNamespace") or ""), str(spec.get("source") or "")


def _is_used(resource: dict[str, Any], subscriptions: Sequence[dict[str, Any]]) -> bool:
    """Return whether one of the Subscriptions needs an OperatorGroup or CatalogSource."""
    place, name = resource["metadata"]["namespace"], resource["metadata"]["name"]
    if resource["kind"] == "OperatorGroup":
        return any(each["metadata"]["namespace"] == place for each in subscriptions)
    return any(_catalog_of(each) == (place, name) for each in subscriptions)


def remove_operators(client: Client, spec: RemovalSpec, say: Say, check: bool = False) -> dict[str, Any]:
    """Remove operators of a run; nothing on a cluster without OLM. Raises InputError, WaitTimeout, ApiError."""
    deletion_order.run_label_selector(spec.run_id)
    with WatchCache(client) as cache:
        try:
            existing_olm_objects.watch_olm_kinds(cache)
        except InputError:
            return {"changed": False, "removed": [], "kept": [], "finalizers": [], "diff": {"before": {}, "after": {}}}
        return OperatorRemoval(client, cache, spec, say).run(check)
