# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a removal of operators may delete: the Subscriptions of a run, what came with them, and who else uses it.

Operators use each other: that of JobSet asks cert-manager for certificates. What an object of the run owns, directly or
through others, is therefore the run's too, as long as the owner's operator is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import deletion_order
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    field_at_path,
    format_object_title,
    format_object_titles,
    get_label,
    is_condition_true,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import WatchCache

from .operator_objects import is_created_by_run, names_of_owned_definitions, objects_created_by_operator
from .operator_specs import CreatedObjects

CRD = "apiextensions.k8s.io/v1"
CRD_KIND = "CustomResourceDefinition"
#: Most objects, owners and owners of owners, that are examined for one object; with more it counts as that of others.
MOST_OWNERS = 1000


@dataclass(frozen=True)
class RemovalSpec:
    """What to remove. Without ``packages``, every operator of the run. timeout: seconds.

    hand_over: operators that stay for others lose the run's label, with what came with them.
    """

    run_id: str
    packages: Sequence[str] = ()
    operands: Sequence[dict[str, str]] = ()  # kind and name of resources that the operators created themselves
    namespaces: Sequence[str] = ()  # that the operators created themselves
    crds: bool = False
    force_finalizers: bool = False
    timeout: float = 600
    hand_over: bool = False


@dataclass
class OwnedSubscription:
    """One Subscription of this run with the resources that came with it."""

    subscription: dict[str, Any]
    csvs: list[dict[str, Any]] = field(default_factory=list)
    operands: list[dict[str, Any]] = field(default_factory=list)
    brought: list[dict[str, Any]] = field(default_factory=list)  # objects of kinds that an operand brought
    crds: list[dict[str, Any]] = field(default_factory=list)
    older: list[dict[str, Any]] = field(default_factory=list)  # definitions that existed before
    creates: CreatedObjects = field(default_factory=CreatedObjects)

    @property
    def package(self) -> str:
        """Its package."""
        return str(field_at_path(self.subscription, "spec.name", ""))

    @property
    def resources(self) -> list[dict[str, Any]]:
        """The objects of all kinds that came with it."""
        return [*self.operands, *self.brought]

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return str(self.subscription["metadata"]["namespace"])


class OwnedSearch:
    """Search for removable resources. ``kept``: what is not removed, with the reason."""

    def __init__(self, client: Client, cache: WatchCache, spec: RemovalSpec) -> None:
        self.client, self.cache, self.spec = client, cache, spec
        self.kept: list[str] = []
        #: Operands of this run whose operator belongs to somebody else.
        self.loose: list[dict[str, Any]] = []
        #: Subscriptions of this run that stay, because others use their kinds.
        self.used: list[OwnedSubscription] = []

    def parts(self) -> list[OwnedSubscription]:
        """Return the Subscriptions to remove; those of others are added to ``kept``."""
        owned = []
        for each in self.cache.all("Subscription"):
            name = field_at_path(each, "spec.name", "")
            if self.spec.packages and name not in self.spec.packages:
                continue
            if is_created_by_run(each, self.spec.run_id):
                owned.append(self._part(each))
            else:
                # Operands of this run, although somebody else installed the operator.
                self.loose += [
                    operand for operand in self._part(each).resources if is_created_by_run(operand, self.spec.run_id)
                ]
            if self.spec.packages and not is_created_by_run(each, self.spec.run_id):
                self.kept.append(f"{format_object_title(each)}: this run did not create it")
        return self._unused(owned)

    def _part(self, subscription: dict[str, Any]) -> OwnedSubscription:
        part = OwnedSubscription(subscription, creates=self._recorded_creations(subscription))
        names = {field_at_path(subscription, "status.installedCSV"), field_at_path(subscription, "status.currentCSV")}
        part.csvs = [
            each
            for each in self.cache.all("ClusterServiceVersion")
            if each["metadata"]["namespace"] == part.namespace and each["metadata"]["name"] in names
        ]
        part.crds = self._crds(part)
        for crd in part.crds:
            brought = crd["metadata"]["name"] in part.creates.definitions
            (part.brought if brought else part.operands).extend(self._objects_of(crd))
        return part

    def _recorded_creations(self, subscription: dict[str, Any]) -> CreatedObjects:
        """Return what its operator creates itself; nothing for a Subscription of others with a damaged record."""
        try:
            return objects_created_by_operator(subscription)
        except DataError:
            if is_created_by_run(subscription, self.spec.run_id):
                raise
            return CreatedObjects()

    def _crds(self, part: OwnedSubscription) -> list[dict[str, Any]]:
        """Return the CustomResourceDefinitions that its ClusterServiceVersions own, or that the operator creates."""
        names = {name for csv in part.csvs for name in names_of_owned_definitions(csv)} | {*part.creates.definitions}
        kind = self.client.kind(CRD, CRD_KIND)
        return [crd for name in sorted(names) if (crd := self.client.get(kind, name)) is not None]

    def _objects_of(self, crd: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the objects of a definition. Raises ApiError if they can't be listed."""
        version = next(entry["name"] for entry in field_at_path(crd, "spec.versions", []) if entry.get("storage"))
        try:
            kind = self.client.kind(
                f"{field_at_path(crd, 'spec.group')}/{version}", field_at_path(crd, "spec.names.kind")
            )
        except InputError as error:
            if is_condition_true(crd, "Established"):
                raise ApiError(f"the objects of {format_object_title(crd)} can't be listed: {error}") from error
            return []
        return self.client.list(kind)[0]

    def _mine(self, resource: dict[str, Any], part: OwnedSubscription) -> bool:
        """Return whether a custom resource belongs to this run: labelled, or created later by its operator."""
        if is_created_by_run(resource, self.spec.run_id):
            return True
        named = any(
            resource["kind"] == each["kind"] and resource["metadata"]["name"] == each["name"]
            for each in [*self.spec.operands, *part.creates.operands]
        )
        return named and self._since(resource, part)

    def _since(self, resource: dict[str, Any], part: OwnedSubscription) -> bool:
        """Return whether an unlabelled object is not older than the Subscription (API server time, whole seconds)."""
        return (
            not get_label(resource, run_labels.RUN)
            and resource["metadata"]["creationTimestamp"] >= part.subscription["metadata"]["creationTimestamp"]
        )

    def objects_created_by_operator(self, part: OwnedSubscription) -> list[dict[str, Any]]:
        """Return the objects outside of its namespaces that its operator created and does not remove.

        Others may use a label of the operator, too: without a name and the run's label, only what components of the
        cluster wrote counts as its own.
        """
        found = []
        for each in part.creates.objects:
            try:
                kind = self.client.kind(each["api_version"], each["kind"])
            except InputError:
                continue
            labels = sorted((each.get("labels") or {}).items())
            selector = ",".join(f"{name}={value}" if value else name for name, value in labels)
            names = each.get("names") or ()
            found += [
                item
                for item in self.client.list(kind, each.get("namespace") or "", selector)[0]
                if (not names or item["metadata"]["name"] in names)
                and (
                    is_created_by_run(item, self.spec.run_id)
                    or (self._since(item, part) if names else self._made_by_cluster(item, part))
                )
            ]
        return found

    def _made_by_cluster(self, resource: dict[str, Any], part: OwnedSubscription) -> bool:
        """Return whether components of the cluster made an unlabelled object since the Subscription."""
        if not self._since(resource, part):
            return False
        if deletion_order.is_written_by_cluster(resource):
            return True
        note = f"{format_object_title(resource)}: others than components of the cluster have written it"
        if note not in self.kept:
            self.kept.append(note)
        return False

    def _unused(self, parts: Sequence[OwnedSubscription]) -> list[OwnedSubscription]:
        """Return the parts whose kinds nobody else uses: no operator would manage their objects any more.

        An operator that stays keeps those whose kinds it uses.
        """
        going = list(parts)
        while True:
            owners = RunOwners(self.client, self.spec.run_id, parts, going, self._mine)
            unused = []
            for part in going:
                others = [operand for operand in part.resources if not owners.own(operand)]
                if others:
                    self.kept.append(
                        f"{format_object_title(part.subscription)}: {format_object_titles(others)} would be left"
                        " without an operator"
                    )
                    self.used.append(part)
                else:
                    unused.append(part)
            if len(unused) == len(going):
                return going
            going = unused


class RunOwners:
    """Which custom resources are the run's, themselves or through those that own them.

    parts: all Subscriptions of the run. going: those that are removed. mine: whether an operand itself is the run's.
    """

    def __init__(
        self,
        client: Client,
        run_id: str,
        parts: Sequence[OwnedSubscription] = (),
        going: Sequence[OwnedSubscription] = (),
        mine: Callable[[dict[str, Any], OwnedSubscription], bool] = lambda _operand, _part: False,
    ) -> None:
        self.client, self.run_id = client, run_id
        self._known: dict[str, bool] = {}
        self._operands = {operand["metadata"]["uid"]: operand for part in parts for operand in part.resources}
        for part in parts:
            goes = any(part is other for other in going)
            for each in [*part.csvs, *(operand for operand in part.resources if mine(operand, part))]:
                self._known[each["metadata"]["uid"]] = goes

    def own(self, resource: dict[str, Any]) -> bool:
        """Return whether an object is deleted with the operators of the run.

        Objects that own each other in a circle are not, nor is one whose owners are more than MOST_OWNERS.
        """
        undecided: dict[str, list[str]] = {}  # uid -> uids of the owners that decide
        pending = [resource]
        while pending:
            current = pending.pop()
            uid = current["metadata"]["uid"]
            if uid in self._known or uid in undecided:
                continue
            owners = self._undecided_owners(current) if len(undecided) < MOST_OWNERS else None
            if owners is None:
                self._known[uid] = False
            else:
                undecided[uid] = [owner["metadata"]["uid"] for owner in owners]
                pending += owners
        self._decide(undecided)
        return self._known[resource["metadata"]["uid"]]

    def _decide(self, undecided: dict[str, list[str]]) -> None:
        """Note of each object whether all of its owners are the run's."""
        while ready := [uid for uid, owners in undecided.items() if all(self._known.get(owner) for owner in owners)]:
            for uid in ready:
                self._known[uid] = True
                del undecided[uid]
        self._known |= dict.fromkeys(undecided, False)

    def _undecided_owners(self, resource: dict[str, Any]) -> list[dict[str, Any]] | None:
        """Return the owners of an object that are to be examined; None if it is not the run's in any case."""
        references = field_at_path(resource, "metadata.ownerReferences", [])
        owners = []
        for reference in references:
            owner = self._owner(reference, resource["metadata"].get("namespace", ""))
            if owner is False:
                return None
            if not isinstance(owner, bool):
                owners.append(owner)
        return owners if references else None

    def _owner(self, reference: dict[str, Any], namespace: str) -> dict[str, Any] | bool:
        """Return an owner, or whether it is the run's, or is gone: the garbage collector then deletes what it owned.

        An owner that can't be looked up is not the run's.
        """
        if reference["uid"] in self._known:
            return self._known[reference["uid"]]
        owner = self._operands.get(reference["uid"])
        if owner is None:
            try:
                kind = self.client.kind(reference["apiVersion"], reference["kind"])
                if kind.namespaced and not namespace:
                    return False  # a wrong reference
                owner = self._fetched(kind, reference, namespace)
            except (ApiError, InputError):
                # Nobody knows whether the owner exists. The garbage collector keeps what it owns, too.
                return False
            if owner is None:
                return True
        return is_created_by_run(owner, self.run_id) or owner

    def _fetched(self, kind: ServedKind, reference: dict[str, Any], namespace: str) -> dict[str, Any] | None:
        """Return an owner, None if it is gone."""
        owner = self.client.get(kind, reference["name"], namespace if kind.namespaced else "")
        return owner if owner is not None and owner["metadata"]["uid"] == reference["uid"] else None


def is_owned_by_another_object(resource: dict[str, Any]) -> bool:
    """Return whether another object owns this one, so that it is deleted after it."""
    return bool(field_at_path(resource, "metadata.ownerReferences"))
