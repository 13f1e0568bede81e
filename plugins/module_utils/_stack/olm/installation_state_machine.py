# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One operator's installation as a state machine: the next action, and what it waits for.

Its last steps are the custom resource that the operator reconciles, and the objects that must exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    OwnershipError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    apply_json_merge_patch,
    conditions_by_type,
    field_at_path,
    format_object_title,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import WatchCache

from . import existing_olm_objects, operator_objects
from .catalog_offer import CatalogOffer, choose_offer, example_from_csv
from .existing_olm_objects import ExistingSubscription
from .operator_objects import (
    OperatorObjectWriter,
    Say,
    contains_all_fields,
    is_expected_object,
    is_object_ready,
    why_not_ready,
)
from .operator_specs import OperandSpec, OperatorSpec, append_to_lists


def ensure_operand_ready(
    writer: OperatorObjectWriter, asked: OperandSpec, csv: dict[str, Any], operators: str
) -> tuple[dict[str, Any] | None, str]:
    """Ensure that the resource exists; return it (None if it does not exist yet) and what it waits for ("" when ready).

    operators: namespace of the operator. Raises InputError, OwnershipError.
    """
    cache, run_id = writer.cache, writer.run_id
    wanted = operand_manifest(writer.operator, csv, operators, run_id)
    try:
        cache.follow(wanted["apiVersion"], wanted["kind"])
    except InputError:
        return None, f"{wanted['kind']} to be served by the API server"
    namespace = wanted["metadata"].get("namespace", "")
    if namespace and (wait := writer.ensure_namespace(namespace)):
        return None, wait
    operand = cache.get(wanted["kind"], namespace, wanted["metadata"]["name"])
    if asked.single:
        others = [other for other in cache.all(wanted["kind"]) if not operator_objects.is_created_by_run(other, run_id)]
        operand = operand or next(iter(others), None)
    if operand is not None and field_at_path(operand, "metadata.deletionTimestamp"):
        return None, f"{format_object_title(operand)} to be deleted completely"
    if operand is not None and not operator_objects.is_created_by_run(operand, run_id):
        _check_theirs(writer.operator, operand, asked)
    else:
        for need in asked.needs:
            writer.ensure(need, operators)
        if operand is None:
            operand = writer.create(wanted)
        elif not contains_all_fields(operand.get("spec"), wanted.get("spec")):
            writer.patch(operand, {"spec": wanted.get("spec")}, "spec of")
            operand = cache.get(wanted["kind"], namespace, wanted["metadata"]["name"]) or operand
    if asked.ready is None or is_object_ready(operand, asked.ready):
        return operand, ""
    return operand, f"{format_object_title(operand)} to be ready{why_not_ready(operand, asked.ready)}"


def _check_theirs(operator: OperatorSpec, operand: dict[str, Any], asked: OperandSpec) -> None:
    """Raise OwnershipError if a resource that this run did not create would have to be changed."""
    wanted = append_to_lists(apply_json_merge_patch(operand, asked.patch), asked.append)
    if not contains_all_fields(operand.get("spec"), wanted.get("spec")):
        raise OwnershipError(
            f"{operator.package}: {format_object_title(operand)}, which this run did not create, does not"
            " match the requested one:"
            " left unchanged. Request what it has, or change it manually"
        )


def first_object_not_ready(cache: WatchCache, operator: OperatorSpec) -> str:
    """Return the first expected object that is missing or not ready, "" if all are ready."""
    for each in operator.expect:
        cache.follow(each.api_version, each.kind)
        matching = [item for item in cache.all(each.kind) if is_expected_object(item, each)]
        missing = sorted(set(each.names) - {item["metadata"]["name"] for item in matching})
        if missing:
            return f"{each.kind} {', '.join(missing)} to exist"
        if each.ready.metrics:
            for item in matching:
                if lack := operator_objects.metrics_missing_in_pod(cache.client, item, each.ready):
                    return f"{format_object_title(item)} to serve metrics{lack}"
        bad = [item for item in matching if not is_object_ready(item, each.ready)]
        if bad:
            return f"{format_object_title(bad[0])} to be ready{why_not_ready(bad[0], each.ready)}" + (
                f" and {len(bad) - 1} more" if len(bad) > 1 else ""
            )
        if len(matching) < each.at_least:
            labels = ",".join(f"{name}={value}" for name, value in each.labels.items())
            return f"{each.at_least} {each.kind} with {labels}; there are {len(matching)}"
    return ""


def operand_manifest(operator: OperatorSpec, csv: dict[str, Any], namespace: str, run_id: str) -> dict[str, Any]:
    """Return the custom resource to create. A namespaced example gets the operator's namespace. Raises InputError."""
    asked = operator.operand
    if asked is None:
        raise AssertionError("no operand was requested")
    base = append_to_lists(
        apply_json_merge_patch(asked.manifest or example_from_csv(csv, asked.kind), asked.patch), asked.append
    )
    meta = dict(base.get("metadata") or {})
    if asked.name:
        meta["name"] = asked.name
    if meta.get("namespace") and not asked.manifest:
        meta["namespace"] = namespace
    if asked.namespace:
        meta["namespace"] = asked.namespace
    meta["labels"] = {**(meta.get("labels") or {}), run_labels.RUN: run_id}
    return {**base, "metadata": meta}


#: Reasons for which a ClusterServiceVersion fails permanently.
TERMINAL_REASONS = frozenset(
    {
        "InvalidInstallModes",
        "UnsupportedOperatorGroup",
        "TooManyOperatorGroups",
        "NoOperatorGroup",
        "InterOperatorGroupOwnerConflict",
        "OwnerConflict",
        "InvalidStrategy",
        "CannotModifyStaticOperatorGroupProvidedAPIs",
    }
)


@dataclass
class OperatorInstallation:
    """One operator's installation. ``step`` does what is possible now and returns what it waits for, "" when done."""

    client: Client
    cache: WatchCache
    operator: OperatorSpec
    run_id: str
    say: Say
    mine: set[str]  # packages that this call installs
    existing: ExistingSubscription | None = None
    offer: CatalogOffer | None = None
    waits: str = ""
    operand: dict[str, Any] | None = None
    writer: OperatorObjectWriter = field(init=False)

    def __post_init__(self) -> None:
        self.writer = OperatorObjectWriter(self.client, self.cache, self.operator, self.run_id, self.say)

    @property
    def foreign(self) -> bool:
        """Whether another run or a person installed it."""
        return self.existing is not None and not self.existing.ours

    @property
    def namespace(self) -> str:
        """Namespace that it is or will be installed in."""
        return self.existing.namespace if self.existing is not None else self.operator.namespace

    def step(self) -> str:
        """Advance as far as possible. Raises SeatrialError if the installation can't succeed."""
        for part in (
            self._catalog,
            self._choice,
            self._place,
            self._subscribed,
            self._plan,
            self._csv,
            self._operand,
            self._expected,
        ):
            self.waits = part()
            if self.waits:
                return self.waits
        return ""

    def predict(self) -> bool:
        """Let a writer in check mode record what is known to change; return whether anything would.

        What an operator that is not installed yet would get later is known only from its catalog and its CSV.
        """
        for part in (self._catalog, self._choice, self._place, self._subscribed):
            part()
        installed = field_at_path(self.csv(), "status.phase") == "Succeeded"
        if installed:
            self._operand()
        return bool(self.writer.changes) or not (installed or self.foreign)

    # Parts

    def _catalog(self) -> str:
        if not self.operator.brings_catalog or self.foreign:
            return ""
        wanted = operator_objects.catalog_source_manifest(self.operator, self.run_id)
        wait = self.writer.ensure_namespace(self.operator.catalog_namespace)
        if wait:
            return wait
        source = existing_olm_objects.existing_catalog_source(self.cache, self.operator, self.run_id)
        if self.operator.catalog_pull_secret:
            self.writer.ensure_pull_secret()
        if source is None:
            self.writer.create(wanted)
        elif other := operator_objects.differing_spec_fields(source, wanted):
            self.writer.patch(source, {"spec": wanted["spec"]}, f"{' and '.join(other)} of")
        source = self.cache.get("CatalogSource", self.operator.catalog_namespace, self.operator.catalog)
        state = field_at_path(source, "status.connectionState.lastObservedState", "not checked yet")
        if state == "READY":
            return ""
        return f"catalog {self.operator.catalog} ({state}) to be READY"

    def _choice(self) -> str:
        if self.offer is not None or self.foreign:
            return ""
        items = existing_olm_objects.list_package_manifests(self.client, self.operator)
        if not items:
            return f"a catalog in {self.operator.catalog_namespace} to provide package {self.operator.package}"
        self.offer = choose_offer(self.operator, items)
        existing_olm_objects.refuse_kinds_of_other_operators(self.cache, self.operator, self.offer)
        return ""

    def _place(self) -> str:
        if self.foreign or self.offer is None:
            return ""
        wait = self.writer.ensure_namespace(self.operator.namespace)
        if wait:
            return wait
        if existing_olm_objects.existing_operator_group(self.cache, self.operator, self.offer, self.run_id) is None:
            self.writer.create(operator_objects.operator_group_manifest(self.operator, self.offer, self.run_id))
        for manifest in self.operator.objects:
            wait = self.writer.ensure_namespace(manifest["metadata"].get("namespace") or self.operator.namespace)
            if wait:
                return wait
            self.writer.ensure(manifest, self.namespace)
        return ""

    def _subscribed(self) -> str:
        if self.foreign or self.offer is None:
            return ""
        wanted = operator_objects.subscription_manifest(self.operator, self.offer, self.run_id)
        if self.existing is None:
            made = self.writer.create(wanted)
            if not self.writer.check:
                self.existing = ExistingSubscription(made, True)
        elif other := operator_objects.differing_spec_fields(self.existing.subscription, wanted):
            spec = dict(wanted["spec"])
            spec.setdefault("config", None)
            self.writer.patch(self.existing.subscription, {"spec": spec}, f"{' and '.join(other)} of")
        return ""

    def _subscription(self) -> dict[str, Any]:
        if self.existing is None:
            raise AssertionError("no Subscription yet")
        meta = self.existing.subscription["metadata"]
        subscription = self.cache.get("Subscription", meta["namespace"], meta["name"])
        if subscription is None:
            raise SeatrialError(
                f"{format_object_title(self.existing.subscription)} was deleted during the installation"
            )
        return subscription

    def _target(self, subscription: dict[str, Any]) -> str:
        """Return the name of the CSV to wait for: the requested one, or the Subscription's current one.

        A Subscription of somebody else may stay at the version that is installed.
        """
        if self.foreign and field_at_path(subscription, "status.installedCSV"):
            return str(field_at_path(subscription, "status.installedCSV"))
        if self.operator.version and self.offer is not None:
            return self.offer.csv
        return str(field_at_path(subscription, "status.currentCSV") or (self.offer.csv if self.offer else ""))

    def _plan(self) -> str:
        subscription = self._subscription()
        target = self._target(subscription)
        if field_at_path(subscription, "status.installedCSV") == target and target:
            return ""
        wanted = field_at_path(subscription, "status.currentCSV")
        if not wanted:
            return f"OLM to resolve {format_object_title(subscription)}{self._trouble(subscription)}"
        name = field_at_path(subscription, "status.installPlanRef.name") or field_at_path(
            subscription, "status.installplan.name"
        )
        plan = self.cache.get("InstallPlan", self.namespace, name or "")
        if plan is None:
            return f"an InstallPlan for {target}"
        if field_at_path(plan, "status.phase") == "Failed":
            message = "; ".join(
                condition.get("message", "")
                for condition in conditions_by_type(plan).values()
                if condition.get("message")
            )
            raise SeatrialError(
                f"{self.operator.package}: {format_object_title(plan)} failed: {message or 'OLM gives no reason'}"
            )
        if not field_at_path(plan, "spec.approved", False):
            return self._approve(plan, target)
        return f"{format_object_title(plan)} ({field_at_path(plan, 'status.phase', 'not begun')}) to install {target}"

    def _trouble(self, subscription: dict[str, Any]) -> str:
        """Return the error that OLM reports for a Subscription, in parentheses, "" if there is none."""
        for name in ("ResolutionFailed", "CatalogSourcesUnhealthy", "BundleUnpackFailed"):
            condition = conditions_by_type(subscription).get(name, {})
            if condition.get("status") == "True":
                return f" ({name}: {condition.get('message') or condition.get('reason')})"
        return ""

    def _approve(self, plan: dict[str, Any], target: str) -> str:
        """Approve the InstallPlan of the requested version, unless it would upgrade an operator of somebody else."""
        brings = field_at_path(plan, "spec.clusterServiceVersionNames", [])
        if target not in brings:
            return (
                f"an InstallPlan for {target}; {format_object_title(plan)} is for {', '.join(brings)}"
                " and is not approved"
            )
        if self.foreign:
            return f"the owner of {self.operator.package} to approve {format_object_title(plan)} for {target}"
        for each in self.cache.all("Subscription"):
            if each["metadata"]["namespace"] != self.namespace or field_at_path(each, "spec.name") in self.mine:
                continue
            if field_at_path(each, "status.currentCSV") in brings and field_at_path(each, "status.installedCSV"):
                raise OwnershipError(
                    f"{self.operator.package}: {format_object_title(plan)} would also upgrade"
                    f" {format_object_title(each)}, which this run did not"
                    f" create, from {field_at_path(each, 'status.installedCSV')} to"
                    f" {field_at_path(each, 'status.currentCSV')}."
                    " It was not approved. Install into another namespace"
                )
        self.writer.patch(plan, {"spec": {"approved": True}}, "approved")
        return f"{format_object_title(plan)} to install {target}"

    def csv(self) -> dict[str, Any] | None:
        """Return the ClusterServiceVersion of the Subscription, None if there is none yet."""
        if self.existing is None:
            return None
        subscription = self._subscription()
        name = (
            field_at_path(subscription, "status.installedCSV") or field_at_path(subscription, "status.currentCSV") or ""
        )
        return self.cache.get("ClusterServiceVersion", self.namespace, name)

    def _csv(self) -> str:
        csv = self.csv()
        if csv is None:
            return f"ClusterServiceVersion {self._target(self._subscription())}"
        phase, reason = field_at_path(csv, "status.phase", "not started"), field_at_path(csv, "status.reason", "")
        if phase == "Succeeded":
            return ""
        if phase == "Failed" and reason in TERMINAL_REASONS:
            raise SeatrialError(
                f"{self.operator.package}: {format_object_title(csv)} failed: {reason}:"
                f" {field_at_path(csv, 'status.message', '')}"
            )
        return f"{format_object_title(csv)} ({phase}: {field_at_path(csv, 'status.message', reason)}) to succeed"

    def _operand(self) -> str:
        asked, csv = self.operator.operand, self.csv()
        if asked is None:
            return ""
        if csv is None:
            raise AssertionError("an operand is created after its operator")
        operand, waits = ensure_operand_ready(self.writer, asked, csv, self.namespace)
        self.operand = operand or self.operand
        return waits

    def _expected(self) -> str:
        return first_object_not_ready(self.cache, self.operator)
