# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OLM objects that exist on the cluster, their owners, and conflicts with the requested operators. Read-only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    OwnershipError,
    nearest,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import field_at, title
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import WatchCache

from . import objects
from .specs import Offer, Operator, choose_offer

#: Copies of a ClusterServiceVersion, in the namespaces that its operator watches, carry this label.
COPIED = "olm.copiedFrom"

PACKAGES = "packages.operators.coreos.com/v1"


@dataclass(frozen=True)
class ExistingSubscription:
    """An existing Subscription of the operator."""

    subscription: dict[str, Any]
    ours: bool

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return str(self.subscription["metadata"]["namespace"])


def follow_olm(cache: WatchCache) -> None:
    """Watch OLM's kinds. Raises InputError if the cluster has no OLM."""
    try:
        for kind in ("Subscription", "InstallPlan", "CatalogSource"):
            cache.follow(objects.V1ALPHA1, kind)
        cache.follow(objects.V1ALPHA1, "ClusterServiceVersion", selector=f"!{COPIED}")
        cache.follow(objects.V1, "OperatorGroup")
        cache.follow("v1", "Namespace")
    except InputError as error:
        raise InputError(
            f"{cache.client.access.server} has no Operator Lifecycle Manager (operators.coreos.com): {error}."
            " On a rehearsal cluster, add 'olm' to rehearsal_components"
        ) from error


def offered(client: Client, one: Operator) -> list[dict[str, Any]]:
    """Return the PackageManifests of an operator's package, only of its catalog if one is set."""
    kind = client.kind(PACKAGES, "PackageManifest")
    items, _version = client.list(kind, one.catalog_namespace, field_selector=f"metadata.name={one.package}")
    return [
        item
        for item in items
        if item["metadata"]["name"] == one.package
        and field_at(item, "status.catalogSource") == (one.catalog or _source(item))
    ]


def _source(item: dict[str, Any]) -> Any:
    return field_at(item, "status.catalogSource")


def existing_subscription(cache: WatchCache, one: Operator, run_id: str) -> ExistingSubscription | None:
    """Return the existing Subscription of a package, preferably that in the requested namespace.

    Raises OwnershipError if several exist in other namespaces.
    """
    found = [each for each in cache.all("Subscription") if field_at(each, "spec.name") == one.package]
    here = [each for each in found if each["metadata"]["namespace"] == one.namespace]
    if not here and len(found) > 1:
        places = ", ".join(each["metadata"]["namespace"] for each in found)
        raise OwnershipError(f"{one.package} is already installed in {places}: set its namespace to one of these")
    chosen = next(iter(here or found), None)
    return ExistingSubscription(chosen, objects.is_ours(chosen, run_id)) if chosen else None


def check_existing(one: Operator, existing: ExistingSubscription, offer: Offer | None) -> None:
    """Raise OwnershipError if an existing operator does not match and would have to be changed."""
    if existing.ours:
        if existing.namespace != one.namespace:
            raise OwnershipError(
                f"{one.package}: this run installed it in {existing.namespace}, not in {one.namespace}. Remove it first"
            )
        _check_direction(one, existing, offer)
        return
    found = existing.subscription
    whose = f"{title(found)}, which this run did not create,"
    channel = field_at(found, "spec.channel", "")
    if one.channel and one.channel != channel:
        raise OwnershipError(f"{one.package}: {whose} follows channel '{channel}', not '{one.channel}': left unchanged")
    installed = field_at(found, "status.installedCSV", "")
    if one.version and installed and offer is not None and offer.csv != installed:
        raise OwnershipError(f"{one.package}: {whose} has installed {installed}, not {offer.csv}: left unchanged")
    if one.brings_catalog and field_at(found, "spec.source") != one.catalog:
        raise OwnershipError(
            f"{one.package}: {whose} takes it from catalog '{field_at(found, 'spec.source')}', not '{one.catalog}':"
            " left unchanged"
        )


def _check_direction(one: Operator, existing: ExistingSubscription, offer: Offer | None) -> None:
    """Raise InputError if OLM would have to downgrade, which it never does."""
    has = str(field_at(existing.subscription, "status.installedCSV", ""))
    asked = one.version or (one.channel and one.channel != field_at(existing.subscription, "spec.channel", ""))
    if asked and offer is not None and has and older(offer.csv, has):
        raise InputError(
            f"operators: {one.package}: {has} is installed, and OLM does not downgrade to {offer.csv}. Remove it first"
            " (state=absent), then install the older one"
        )


def older(one: str, other: str) -> bool:
    """Return whether a ClusterServiceVersion is older than another, by the versions in their names (nfd.v4.17.0)."""
    version, than = _version(one), _version(other)
    return version is not None and than is not None and version < than


def _version(csv: str) -> tuple[Any, ...] | None:
    """Return the sort key of a semantic version without its build metadata, None if the name has no version."""
    found = re.search(r"\.v?(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+.*)?\Z", csv)
    if found is None:
        return None
    numbers = tuple(int(part) for part in found.groups()[:3])
    # A pre-release comes before its release; numbers in it count as numbers and before words.
    before = tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part) for part in (found[4] or "").split(".") if part
    )
    return (*numbers, not before, before)


def check_namespace(cache: WatchCache, one: Operator, offer: Offer | None, run_id: str) -> dict[str, Any] | None:
    """Return the OperatorGroup to use, None if one must be created. Raises OwnershipError for a conflicting one."""
    groups = [each for each in cache.all("OperatorGroup") if each["metadata"]["namespace"] == one.namespace]
    if len(groups) > 1:
        names = ", ".join(each["metadata"]["name"] for each in groups)
        raise OwnershipError(
            f"{one.package}: namespace {one.namespace} has {len(groups)} OperatorGroups ({names}): OLM requires"
            " exactly one. Remove the others, or choose another namespace"
        )
    if groups and offer is not None and not objects.group_fits(groups[0], one, offer):
        targets = field_at(groups[0], "spec.targetNamespaces") or ["all namespaces"]
        wanted = one.namespace if offer.watches == "own" else "all namespaces"
        raise OwnershipError(
            f"{one.package}: {title(groups[0])}"
            f"{'' if objects.is_ours(groups[0], run_id) else ', not created by this run,'} is for"
            f" {', '.join(targets)},"
            f" but the operator requires one for {wanted}. Choose another namespace, or remove it"
        )
    return groups[0] if groups else None


def check_other_providers(cache: WatchCache, one: Operator, offer: Offer) -> None:
    """Raise OwnershipError if another operator provides the same kinds: both would reconcile the same objects."""
    for csv in cache.all("ClusterServiceVersion"):
        package = package_of(cache, csv)
        if package == one.package:
            continue
        owned = {each["name"] for each in field_at(csv, "spec.customresourcedefinitions.owned", [])}
        both = sorted(owned & set(offer.kinds))
        if both:
            raise OwnershipError(
                f"{one.package}: {title(csv)} already provides {both[0]}, and two operators of one kind would"
                " reconcile the same objects. Use that one, or remove it first"
            )


def package_of(cache: WatchCache, csv: dict[str, Any]) -> str:
    """Return the package that a ClusterServiceVersion was installed from, "" if no Subscription names it."""
    name, namespace = csv["metadata"]["name"], csv["metadata"]["namespace"]
    for each in cache.all("Subscription"):
        if each["metadata"]["namespace"] == namespace and name in (
            field_at(each, "status.installedCSV"),
            field_at(each, "status.currentCSV"),
        ):
            return str(field_at(each, "spec.name", ""))
    return ""


def check_catalog(cache: WatchCache, one: Operator, run_id: str) -> dict[str, Any] | None:
    """Return the CatalogSource that the operator names, None if it must be created.

    Raises InputError if it does not exist, OwnershipError for a different one of that name.
    """
    found = cache.get("CatalogSource", one.catalog_namespace, one.catalog)
    if not one.brings_catalog:
        if one.catalog and found is None:
            names = [
                each["metadata"]["name"]
                for each in cache.all("CatalogSource")
                if each["metadata"]["namespace"] == one.catalog_namespace
            ]
            raise InputError(
                f"operators: {one.package}: there is no catalog '{one.catalog}' in {one.catalog_namespace}"
                f"{nearest(one.catalog, names)}; there are {', '.join(names) or 'none'}"
            )
        return found
    if found is not None and not objects.is_ours(found, run_id):
        other = objects.differences(found, objects.catalog_source(one, run_id))
        if other:
            raise OwnershipError(
                f"{one.package}: {title(found)}, which this run did not create, has a different {' and '.join(other)}:"
                " left unchanged. Choose another name for the catalog"
            )
    return found


def offer_of(client: Client, cache: WatchCache, one: Operator) -> Offer | None:
    """Return the offer of an existing catalog, None if no catalog is ready yet.

    Raises InputError if all catalogs in the namespace are ready and none has the package.
    """
    items = offered(client, one)
    if items:
        return choose_offer(one, items)
    if one.brings_catalog:
        return None
    sources: Sequence[dict[str, Any]] = [
        each
        for each in cache.all("CatalogSource")
        if each["metadata"]["namespace"] == one.catalog_namespace
        and (not one.catalog or each["metadata"]["name"] == one.catalog)
    ]
    if sources and all(field_at(each, "status.connectionState.lastObservedState") == "READY" for each in sources):
        kind = client.kind(PACKAGES, "PackageManifest")
        known = [each["metadata"]["name"] for each in client.list(kind, one.catalog_namespace, metadata_only=True)[0]]
        raise InputError(
            f"operators: no catalog in {one.catalog_namespace} has a package '{one.package}'"
            f"{nearest(one.package, known)}"
        )
    return None
