# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create, change or remove a DataScienceCluster and the DSCInitialization that it requires."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    InputError,
    OwnershipError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    expect_object_form,
    field_at_path,
    format_object_title,
    get_label,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.server_side_apply import ObjectDiff
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import WatchCache

from ..olm import installation_diagnosis
from ..olm.deletable_operators import CRD
from ..olm.delete_and_await import DeletionResult, delete_objects_and_wait
from ..olm.operator_objects import V1ALPHA1, available_pods, contains_all_fields, is_created_by_run
from . import component_states

DSC_NAME = "datascienceclusters.datasciencecluster.opendatahub.io"
DSCI_NAME = "dscinitializations.dscinitialization.opendatahub.io"
PACKAGES = ("rhods-operator", "opendatahub-operator")

#: The label that the operator puts on the Deployments of a component.
PART_OF = "platform.opendatahub.io/part-of"

#: The label that the operator puts on namespaces that it creates.
GENERATED = "opendatahub.io/generated-namespace"

#: Seconds between two polls, and between two progress lines.
_POLL, _REPORT = 2.0, 10.0


@dataclass(frozen=True)
class DataScienceSpec:
    """The requested DataScienceCluster.

    api_version: of what is written, such as v2; the stored one if empty. components: entries ``name`` or
    ``name=State``. timeout: seconds.
    """

    run_id: str
    name: str = "default-dsc"
    api_version: str = ""
    components: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    initialisation_settings: Mapping[str, Any] = field(default_factory=dict)
    adopt: bool = False
    applications_namespace: str = "redhat-ods-applications"
    monitoring_namespace: str = "redhat-ods-monitoring"
    monitoring: bool = False
    timeout: float = 900


class DataScience:
    """One DataScienceCluster on one cluster."""

    def __init__(
        self, client: Client, cache: WatchCache, wanted: DataScienceSpec, asked: Mapping[str, str], say: Say
    ) -> None:
        """Read the product's definitions. asked: states of components. Raises InputError if it is not installed."""
        self.client, self.cache, self.wanted, self.asked, self.say = client, cache, wanted, asked, say
        self.changes: list[str] = []
        self.diff = ObjectDiff()
        self.deadline = time.monotonic() + wanted.timeout
        self.definitions = {name: self._definition(name) for name in (DSC_NAME, DSCI_NAME)}
        for name, crd in self.definitions.items():
            cache.follow(self._api_version(name), field_at_path(crd, "spec.names.kind"))
        cache.follow(V1ALPHA1, "Subscription")

    def _api_version(self, name: str) -> str:
        """Return group and version of a definition that objects are read and written with.

        With another version than the one that its operator uses, fields are lost without an error.
        Raises OwnershipError.
        """
        crd = self.definitions[name]
        with expect_object_form(crd):
            stored = str(component_states.stored_version(crd)["name"])
        if self.wanted.api_version not in ("", stored):
            raise OwnershipError(
                f"{name} is stored as {stored}, not as the requested {self.wanted.api_version}: another version of"
                f" the operator is installed. {stored} is that of rhoai_version={'2' if stored == 'v1' else '3'}"
            )
        return f"{field_at_path(crd, 'spec.group')}/{stored}"

    def _definition(self, name: str) -> dict[str, Any]:
        crd = self.client.get(self.client.kind(CRD, "CustomResourceDefinition"), name)
        if crd is None:
            raise InputError(
                f"{self.client.access.server} has no {name}: OpenShift AI or Open Data Hub is not installed"
            )
        return crd

    def _mine(self, item: dict[str, Any]) -> bool:
        """Return whether an object belongs to this run: labelled, or created by the operator of this run."""
        if is_created_by_run(item, self.wanted.run_id):
            return True
        return not get_label(item, run_labels.RUN) and any(
            is_created_by_run(subscription, self.wanted.run_id)
            and field_at_path(subscription, "spec.name") in PACKAGES
            and item["metadata"]["creationTimestamp"] >= subscription["metadata"]["creationTimestamp"]
            for subscription in self.cache.all("Subscription")
        )

    def _one(self, kind: str) -> dict[str, Any] | None:
        """Return the object of a kind that has at most one."""
        return next(iter(self.cache.all(kind)), None)

    # Present

    def present(self, check: bool) -> None:
        """Create or change the objects that do not match. Raises InputError, OwnershipError."""
        wanted = self.wanted
        known = component_states.components_in_definition(component_states.stored_version(self.definitions[DSC_NAME]))
        component_states.check_components_exist(self.asked, known)
        self._initialisation(check)
        existing = self._one("DataScienceCluster")
        if existing is not None and not self._mine(existing):
            lacking = component_states.components_in_other_state(existing, self.asked)
            component_states.check_foreign_cluster_may_change(
                existing, lacking, self.asked, wanted.settings, wanted.adopt
            )
            if lacking:
                before = component_states.recorded_additions(existing, wanted.run_id)
                patch = component_states.patch_adding_components(lacking, before, wanted.run_id, self.asked)
                self._patch(existing, patch, f"added {', '.join(sorted(lacking))} to", check)
            return
        spec = component_states.spec_with_values_by_path(
            {"components": component_states.components_section_of_exactly(self.asked, known)}, wanted.settings
        )
        if existing is None:
            self._create("DataScienceCluster", wanted.name, spec, check)
        elif not contains_all_fields(existing.get("spec"), spec) or not is_created_by_run(existing, wanted.run_id):
            patch = {"metadata": {"labels": {run_labels.RUN: wanted.run_id}}, "spec": spec}
            self._patch(existing, patch, "changed", check)

    def _initialisation(self, check: bool) -> None:
        """Ensure that a DSCInitialization exists. The operator creates one itself unless one exists."""
        wanted = self.wanted
        monitoring = {
            "managementState": component_states.MANAGED if wanted.monitoring else component_states.REMOVED,
            "namespace": wanted.monitoring_namespace,
        }
        more = component_states.spec_with_values_by_path({}, wanted.initialisation_settings)
        asked = {"monitoring": monitoring, **more}
        existing = self._one("DSCInitialization")
        if existing is None:
            spec = {"applicationsNamespace": wanted.applications_namespace, **asked}
            self._create("DSCInitialization", "default-dsci", spec, check)
        elif self._mine(existing):
            if not contains_all_fields(existing.get("spec"), asked):
                self._patch(existing, {"spec": asked}, "changed", check)
        elif not contains_all_fields(existing.get("spec"), more):
            raise OwnershipError(
                f"{format_object_title(existing)}, which this run did not create, does not have the requested"
                f" {', '.join(sorted(wanted.initialisation_settings))}: left unchanged"
            )

    def wait(self, step: StepDirectory) -> dict[str, Any]:
        """Wait until the DataScienceCluster and its components are ready. Raises WaitTimeout with the cause."""
        self.cache.follow("apps/v1", "Deployment")
        reported = time.monotonic()
        while True:
            generation = self.cache.generation
            resource = self._one("DataScienceCluster")
            bad = self._trouble(resource)
            if resource is not None and not bad:
                return resource
            now = time.monotonic()
            if now >= self.deadline:
                raise WaitTimeout(self._why(bad, step))
            if now - reported >= _REPORT:
                reported = now
                self.say(f"waiting for DataScienceCluster: {bad[0]}")
            self.cache.wait(generation, min(_POLL, self.deadline - now))

    def _trouble(self, resource: dict[str, Any] | None) -> list[str]:
        if resource is None:
            return ["it does not exist"]
        bad = component_states.why_not_ready(resource, self._used())
        for deployment in self._deployments():
            has, wants = available_pods(deployment)
            if has < wants:
                bad.append(f"{format_object_title(deployment)} has {has} of {wants} pods")
        return bad

    def _used(self) -> list[str]:
        """Return the requested components, without those that are requested as Removed."""
        return [name for name, state in self.asked.items() if state != component_states.REMOVED]

    def _deployments(self) -> list[dict[str, Any]]:
        return [
            deployment for deployment in self.cache.all("Deployment") if get_label(deployment, PART_OF) in self._used()
        ]

    def _applications(self) -> str:
        initialisation = self._one("DSCInitialization")
        return str(field_at_path(initialisation, "spec.applicationsNamespace", self.wanted.applications_namespace))

    def _why(self, bad: Sequence[str], step: StepDirectory) -> str:
        namespace = self._applications()
        pods, _version = self.client.list(self.client.kind("v1", "Pod"), namespace)
        causes = installation_diagnosis.causes_in_deployments_and_pods([], pods)
        installation_diagnosis.save_namespace_diagnostics(self.client, namespace, pods, step)
        kept = f" (objects, events and pod logs: {step.path}/artifacts)" if step.path is not None else ""
        return f"DataScienceCluster: not ready after {self.wanted.timeout:g} s: {'; '.join([*bad, *causes])}{kept}"

    # Absent

    def remove_own_and_list_kept(self, check: bool) -> list[str]:
        """Remove the objects of this run and its additions to those of others. Return what is kept, with the reason."""
        kept, going = [], []
        self._claim_namespaces(check)
        for kind in ("DataScienceCluster", "DSCInitialization"):
            for existing in self.cache.all(kind):
                if self._mine(existing):
                    going.append(existing)
                    continue
                added = component_states.recorded_additions(existing, self.wanted.run_id)
                if added:
                    patch = component_states.patch_removing_components(added, self.wanted.run_id)
                    self._patch(existing, patch, f"removed {', '.join(sorted(added))} from", check)
                kept.append(f"{format_object_title(existing)}: this run did not create it")
        for resource in going:
            self.changes.append(f"removed {format_object_title(resource)}")
            self.diff.deleted(resource)
            if not check:
                delete_objects_and_wait(self.client, [resource], self.deadline, DeletionResult(), self.say)
        return kept

    def _claim_namespaces(self, check: bool) -> None:
        """Label the namespaces that the operator created for this run, so that they are removed with the operator."""
        self.cache.follow("v1", "Namespace")
        for namespace in self.cache.all("Namespace"):
            if (
                get_label(namespace, GENERATED) == "true"
                and not get_label(namespace, run_labels.RUN)
                and self._mine(namespace)
            ):
                labels = {run_labels.RUN: self.wanted.run_id, run_labels.PART: "operators"}
                self._patch(namespace, {"metadata": {"labels": labels}}, "claimed", check)

    # Writing

    def _create(self, kind: str, name: str, spec: dict[str, Any], check: bool) -> None:
        manifest = {
            "apiVersion": self._api_version(DSC_NAME if kind == "DataScienceCluster" else DSCI_NAME),
            "kind": kind,
            "metadata": {"name": name, "labels": {run_labels.RUN: self.wanted.run_id}},
            "spec": spec,
        }
        if not check:
            # Apply instead of create: the operator may create its own one at the same moment.
            try:
                self.cache.note(kind, self.client.apply(manifest))
            except ApiError as error:
                # Its webhook allows only one, and refuses this if it was a moment earlier.
                there = self.client.get(self.client.kind_of(manifest), name) if error.status == 403 else None
                if there is None or not self._mine(there):
                    raise
                labels = {run_labels.RUN: self.wanted.run_id}
                self._patch(there, {"metadata": {"labels": labels}, "spec": spec}, "changed", check)
                return
            self.say(f"created {kind} {name}")
        self.changes.append(f"created {kind} {name}")
        self.diff.created(manifest)

    def _patch(self, resource: dict[str, Any], patch: dict[str, Any], what: str, check: bool) -> None:
        self.changes.append(f"{what} {format_object_title(resource)}")
        self.diff.patched(resource, patch)
        if check:
            return
        path = self.client.kind_of(resource).path("", resource["metadata"]["name"])
        self.cache.note(resource["kind"], self.client.request("PATCH", path, patch, content_type=MERGE_PATCH))
        self.say(f"{what} {format_object_title(resource)}")


def ensure_data_science_cluster_state(
    client: Client, wanted: DataScienceSpec, state: str, step: StepDirectory, say: Say, check: bool = False
) -> dict[str, Any]:
    """Ensure that a DataScienceCluster is present or absent. Raises InputError, OwnershipError, WaitTimeout."""
    asked = component_states.parse_components(wanted.components)
    with WatchCache(client) as cache:
        try:
            data_science = DataScience(client, cache, wanted, asked, say)
        except InputError:
            # The product is not installed (or, in check mode, not yet).
            if state == "absent":
                return {"changed": False, "changes": [], "kept": [], "diff": ObjectDiff().shown()}
            if check:
                change = f"DataScienceCluster {wanted.name}"
                diff = {"before": {}, "after": {change: {"components": list(wanted.components)}}}
                return {"changed": True, "changes": [f"created {change}"], "components": [], "diff": diff}
            raise
        if state == "absent":
            kept = data_science.remove_own_and_list_kept(check)
            for text in kept:
                say(f"left unchanged: {text}")
            return {
                "changed": bool(data_science.changes),
                "changes": data_science.changes,
                "kept": kept,
                "diff": data_science.diff.shown(),
            }
        data_science.present(check)
        resource = data_science.wait(step) if not check else {}
        managed = [
            name
            for name, value in field_at_path(resource, "spec.components", {}).items()
            if field_at_path(value, "managementState") == component_states.MANAGED
        ]
        result = {"changed": bool(data_science.changes), "changes": data_science.changes, "components": sorted(managed)}
        return {**result, "diff": data_science.diff.shown()}
