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
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    field_at_path,
    format_object_title,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import WatchCache

from . import operator_objects
from .catalog_offer import CatalogOffer, choose_offer, is_csv_of_major_version
from .operator_specs import OperatorSpec

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


def watch_olm_kinds(cache: WatchCache) -> None:
    """Watch OLM's kinds. Raises InputError if the cluster has no OLM."""
    try:
        for kind in ("Subscription", "InstallPlan", "CatalogSource"):
            cache.follow(operator_objects.V1ALPHA1, kind)
        cache.follow(operator_objects.V1ALPHA1, "ClusterServiceVersion", selector=f"!{COPIED}")
        cache.follow(operator_objects.V1, "OperatorGroup")
        cache.follow("v1", "Namespace")
    except InputError as error:
        raise InputError(
            f"{cache.client.access.server} has no Operator Lifecycle Manager (operators.coreos.com): {error}."
            " On a rehearsal cluster, add 'olm' to rehearsal_components"
        ) from error


def list_package_manifests(client: Client, operator: OperatorSpec) -> list[dict[str, Any]]:
    """Return the PackageManifests of an operator's package, only of its catalog if one is set."""
    kind = client.kind(PACKAGES, "PackageManifest")
    items, _version = client.list(kind, operator.catalog_namespace, field_selector=f"metadata.name={operator.package}")
    return [
        item
        for item in items
        if item["metadata"]["name"] == operator.package
        and field_at_path(item, "status.catalogSource") == (operator.catalog or _catalog_source_name(item))
    ]


def _catalog_source_name(item: dict[str, Any]) -> Any:
    return field_at_path(item, "status.catalogSource")


def existing_subscription(cache: WatchCache, operator: OperatorSpec, run_id: str) -> ExistingSubscription | None:
    """Return the existing Subscription of a package, preferably that in the requested namespace.

    Raises OwnershipError if several exist in other namespaces.
    """
    subscriptions = [each for each in cache.all("Subscription") if field_at_path(each, "spec.name") == operator.package]
    here = [each for each in subscriptions if each["metadata"]["namespace"] == operator.namespace]
    if not here and len(subscriptions) > 1:
        places = ", ".join(each["metadata"]["namespace"] for each in subscriptions)
        raise OwnershipError(f"{operator.package} is already installed in {places}: set its namespace to one of these")
    chosen = next(iter(here or subscriptions), None)
    return ExistingSubscription(chosen, operator_objects.is_created_by_run(chosen, run_id)) if chosen else None


def check_existing_operators(
    operator: OperatorSpec, existing: ExistingSubscription, offer: CatalogOffer | None
) -> None:
    """Raise OwnershipError if an existing operator does not match and would have to be changed."""
    if existing.ours:
        if existing.namespace != operator.namespace:
            raise OwnershipError(
                f"{operator.package}: this run installed it in {existing.namespace}, not in"
                f" {operator.namespace}. Remove it first"
            )
        _check_direction(operator, existing, offer)
        return
    subscription = existing.subscription
    whose = f"{format_object_title(subscription)}, which this run did not create,"
    channel = field_at_path(subscription, "spec.channel", "")
    if operator.channel and operator.channel != channel and not operator.any_channel:
        raise OwnershipError(
            f"{operator.package}: {whose} follows channel '{channel}', not '{operator.channel}': left unchanged"
        )
    installed = str(field_at_path(subscription, "status.installedCSV", ""))
    if not is_csv_of_major_version(installed, operator.major):
        raise OwnershipError(
            f"{operator.package}: {whose} has installed {installed}, not version {operator.major}: left unchanged"
        )
    if operator.version and installed and offer is not None and offer.csv != installed:
        raise OwnershipError(f"{operator.package}: {whose} has installed {installed}, not {offer.csv}: left unchanged")
    if operator.brings_catalog and field_at_path(subscription, "spec.source") != operator.catalog:
        raise OwnershipError(
            f"{operator.package}: {whose} takes it from catalog '{field_at_path(subscription, 'spec.source')}',"
            f" not '{operator.catalog}':"
            " left unchanged"
        )


def _check_direction(operator: OperatorSpec, existing: ExistingSubscription, offer: CatalogOffer | None) -> None:
    """Raise InputError if OLM would have to downgrade, which it never does."""
    has = str(field_at_path(existing.subscription, "status.installedCSV", ""))
    asked = operator.version or (
        operator.channel and operator.channel != field_at_path(existing.subscription, "spec.channel", "")
    )
    if asked and offer is not None and has and is_older_version(offer.csv, has):
        raise InputError(
            f"operators: {operator.package}: {has} is installed, and OLM does not downgrade to {offer.csv}."
            " Remove it first"
            " (state=absent), then install the older one"
        )


def is_older_version(csv: str, other: str) -> bool:
    """Return whether a ClusterServiceVersion is older than another, by the versions in their names (nfd.v4.17.0)."""
    version, than = _version_sort_key(csv), _version_sort_key(other)
    return version is not None and than is not None and version < than


def _version_sort_key(csv: str) -> tuple[Any, ...] | None:
    """Return the sort key of a semantic version without its build metadata, None if the name has no version."""
    match = re.search(r"\.v?(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+.*)?\Z", csv)
    if match is None:
        return None
    numbers = tuple(int(part) for part in match.groups()[:3])
    # A pre-release comes before its release; numbers in it count as numbers and before words.
    before = tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part) for part in (match[4] or "").split(".") if part
    )
    return (*numbers, not before, before)


def existing_operator_group(
    cache: WatchCache, operator: OperatorSpec, offer: CatalogOffer | None, run_id: str
) -> dict[str, Any] | None:
    """Return the OperatorGroup to use, None if one must be created. Raises OwnershipError for a conflicting one."""
    groups = [each for each in cache.all("OperatorGroup") if each["metadata"]["namespace"] == operator.namespace]
    if len(groups) > 1:
        names = ", ".join(each["metadata"]["name"] for each in groups)
        raise OwnershipError(
            f"{operator.package}: namespace {operator.namespace} has {len(groups)} OperatorGroups"
            f" ({names}): OLM requires"
            " exactly one. Remove the others, or choose another namespace"
        )
    if (
        groups
        and offer is not None
        and not operator_objects.group_selects_watched_namespaces(groups[0], operator, offer)
    ):
        targets = field_at_path(groups[0], "spec.targetNamespaces") or ["all namespaces"]
        wanted = operator.namespace if offer.watches == "own" else "all namespaces"
        raise OwnershipError(
            f"{operator.package}: {format_object_title(groups[0])}"
            f"{'' if operator_objects.is_created_by_run(groups[0], run_id) else ', not created by this run,'} is for"
            f" {', '.join(targets)},"
            f" but the operator requires one for {wanted}. Choose another namespace, or remove it"
        )
    return groups[0] if groups else None


def refuse_kinds_of_other_operators(cache: WatchCache, operator: OperatorSpec, offer: CatalogOffer) -> None:
    """Raise OwnershipError if another operator provides the same kinds: both would reconcile the same objects."""
    for csv in cache.all("ClusterServiceVersion"):
        package = package_of_csv(cache, csv)
        if package == operator.package:
            continue
        owned = {*operator_objects.names_of_owned_definitions(csv)}
        both = sorted(owned & set(offer.kinds))
        if both:
            raise OwnershipError(
                f"{operator.package}: {format_object_title(csv)} already provides {both[0]}, and two"
                " operators of one kind would"
                " reconcile the same objects. Use that one, or remove it first"
            )


def package_of_csv(cache: WatchCache, csv: dict[str, Any]) -> str:
    """Return the package that a ClusterServiceVersion was installed from, "" if no Subscription names it."""
    name, namespace = csv["metadata"]["name"], csv["metadata"]["namespace"]
    for each in cache.all("Subscription"):
        if each["metadata"]["namespace"] == namespace and name in (
            field_at_path(each, "status.installedCSV"),
            field_at_path(each, "status.currentCSV"),
        ):
            return str(field_at_path(each, "spec.name", ""))
    return ""


def existing_catalog_source(cache: WatchCache, operator: OperatorSpec, run_id: str) -> dict[str, Any] | None:
    """Return the CatalogSource that the operator names, None if it must be created.

    Raises InputError if it does not exist, OwnershipError for a different one of that name.
    """
    source = cache.get("CatalogSource", operator.catalog_namespace, operator.catalog)
    if not operator.brings_catalog:
        if operator.catalog and source is None:
            names = [
                each["metadata"]["name"]
                for each in cache.all("CatalogSource")
                if each["metadata"]["namespace"] == operator.catalog_namespace
            ]
            raise InputError(
                f"operators: {operator.package}: there is no catalog '{operator.catalog}' in"
                f" {operator.catalog_namespace}"
                f"{suggest_similar_name(operator.catalog, names)}; there are {', '.join(names) or 'none'}"
            )
        return source
    if source is not None and not operator_objects.is_created_by_run(source, run_id):
        other = operator_objects.differing_spec_fields(
            source, operator_objects.catalog_source_manifest(operator, run_id)
        )
        if other:
            raise OwnershipError(
                f"{operator.package}: {format_object_title(source)}, which this run did not create, has a different"
                f" {' and '.join(other)}:"
                " left unchanged. Choose another name for the catalog"
            )
    return source


def find_offer_in_catalog(client: Client, cache: WatchCache, operator: OperatorSpec) -> CatalogOffer | None:
    """Return the offer of an existing catalog, None if no catalog is ready yet.

    Raises InputError if all catalogs in the namespace are ready and none has the package.
    """
    items = list_package_manifests(client, operator)
    if items:
        return choose_offer(operator, items)
    if operator.brings_catalog:
        return None
    sources: Sequence[dict[str, Any]] = [
        each
        for each in cache.all("CatalogSource")
        if each["metadata"]["namespace"] == operator.catalog_namespace
        and (not operator.catalog or each["metadata"]["name"] == operator.catalog)
    ]
    if sources and all(field_at_path(each, "status.connectionState.lastObservedState") == "READY" for each in sources):
        kind = client.kind(PACKAGES, "PackageManifest")
        known = [
            each["metadata"]["name"] for each in client.list(kind, operator.catalog_namespace, metadata_only=True)[0]
        ]
        raise InputError(
            f"operators: no catalog in {operator.catalog_namespace} has a package '{operator.package}'"
            f"{suggest_similar_name(operator.package, known)}"
        )
    return None
