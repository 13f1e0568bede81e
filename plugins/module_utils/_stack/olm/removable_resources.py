# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resources that came with the operators of a run, and which of them may be removed.

Only resources that this run created and nobody else uses are removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import field_at, label, title, titles
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import WatchCache

from .manifests import ours

CRD = "apiextensions.k8s.io/v1"


@dataclass(frozen=True)
class RemovalSpec:
    """What to remove. Without ``packages``, every operator of the run. timeout: seconds."""

    run_id: str
    packages: Sequence[str] = ()
    operands: Sequence[dict[str, str]] = ()  # kind and name of resources that the operators created themselves
    namespaces: Sequence[str] = ()  # that the operators created themselves
    crds: bool = False
    force_finalizers: bool = False
    timeout: float = 600


@dataclass
class OwnedSubscription:
    """One Subscription of this run with the resources that came with it."""

    subscription: dict[str, Any]
    csvs: list[dict[str, Any]] = field(default_factory=list)
    operands: list[dict[str, Any]] = field(default_factory=list)
    crds: list[dict[str, Any]] = field(default_factory=list)
    older: list[dict[str, Any]] = field(default_factory=list)  # definitions that existed before

    @property
    def package(self) -> str:
        """Its package."""
        return str(field_at(self.subscription, "spec.name", ""))

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

    def parts(self) -> list[OwnedSubscription]:
        """Return the Subscriptions to remove; those of others are added to ``kept``."""
        found = []
        for each in self.cache.all("Subscription"):
            name = field_at(each, "spec.name", "")
            if self.spec.packages and name not in self.spec.packages:
                continue
            if ours(each, self.spec.run_id):
                found.append(self._part(each))
            else:
                # Operands of this run, although somebody else installed the operator.
                self.loose += [one for one in self._part(each).operands if ours(one, self.spec.run_id)]
            if self.spec.packages and not ours(each, self.spec.run_id):
                self.kept.append(f"{title(each)}: this run did not create it")
        return [one for one in found if self._removable(one)]

    def _part(self, subscription: dict[str, Any]) -> OwnedSubscription:
        part = OwnedSubscription(subscription)
        names = {field_at(subscription, "status.installedCSV"), field_at(subscription, "status.currentCSV")}
        part.csvs = [
            each
            for each in self.cache.all("ClusterServiceVersion")
            if each["metadata"]["namespace"] == part.namespace and each["metadata"]["name"] in names
        ]
        part.crds = self._crds(part)
        for crd in part.crds:
            part.operands += self._objects_of(crd)
        return part

    def _crds(self, part: OwnedSubscription) -> list[dict[str, Any]]:
        """Return the CustomResourceDefinitions that its ClusterServiceVersions own."""
        names = {one["name"] for csv in part.csvs for one in field_at(csv, "spec.customresourcedefinitions.owned", [])}
        kind = self.client.kind(CRD, "CustomResourceDefinition")
        return [found for name in sorted(names) if (found := self.client.get(kind, name)) is not None]

    def _objects_of(self, crd: dict[str, Any]) -> list[dict[str, Any]]:
        version = next(one["name"] for one in field_at(crd, "spec.versions", []) if one.get("storage"))
        try:
            kind = self.client.kind(f"{field_at(crd, 'spec.group')}/{version}", field_at(crd, "spec.names.kind"))
        except InputError:
            return []
        return self.client.list(kind)[0]

    def _mine(self, one: dict[str, Any], part: OwnedSubscription) -> bool:
        """Return whether a custom resource belongs to this run: labelled, or created later by its operator."""
        if ours(one, self.spec.run_id):
            return True
        named = any(
            one["kind"] == each["kind"] and one["metadata"]["name"] == each["name"] for each in self.spec.operands
        )
        return named and self._since(one, part)

    def _since(self, one: dict[str, Any], part: OwnedSubscription) -> bool:
        """Return whether an unlabelled object is not older than the Subscription (API server time, whole seconds)."""
        return (
            not label(one, run_labels.RUN)
            and one["metadata"]["creationTimestamp"] >= part.subscription["metadata"]["creationTimestamp"]
        )

    def _removable(self, part: OwnedSubscription) -> bool:
        """Return whether nobody else uses the operator's kinds: no operator would manage their objects any more."""
        others = [one for one in part.operands if not self._mine(one, part)]
        if others:
            self.kept.append(f"{title(part.subscription)}: {titles(others)} would be left without an operator")
        return not others
