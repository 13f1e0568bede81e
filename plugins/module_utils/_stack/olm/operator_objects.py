# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects by which OLM installs an operator: their manifests, a writer that records each change, and their state.

The state of an object: whether it matches its specification and is ready, and what it lacks if it is not.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    DataError,
    OwnershipError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    apply_json_merge_patch,
    conditions_by_type,
    expect_object_form,
    field_at_path,
    format_object_title,
    get_label,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.server_side_apply import ObjectDiff
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import WatchCache

from .catalog_offer import CatalogOffer
from .operator_specs import CreatedObjects, ExpectedObjects, OperatorSpec, ReadyCondition


def contains_all_fields(actual: Any, wanted: Any) -> bool:
    """Return whether ``actual`` contains everything in ``wanted``; it may contain more, since servers add defaults."""
    if isinstance(wanted, dict):
        have = {} if actual is None else actual
        return isinstance(have, dict) and all(
            contains_all_fields(have.get(name), value) for name, value in wanted.items()
        )
    return actual == wanted


def is_expected_object(item: dict[str, Any], expected: ExpectedObjects) -> bool:
    """Return whether an object is one of the expected ones."""
    meta = item["metadata"]
    if expected.namespace and meta.get("namespace") != expected.namespace:
        return False
    if expected.names and meta["name"] not in expected.names:
        return False
    return all(get_label(item, name) == value for name, value in expected.labels.items())


def is_object_ready(item: dict[str, Any], ready: ReadyCondition) -> bool:
    """Return whether an object is ready; for metrics always True, see served_metrics.py."""
    if ready.metrics:
        return True
    if ready.condition:
        return conditions_by_type(item).get(ready.condition, {}).get("status") == "True"
    if ready.available:
        has, wants = available_pods(item)
        with expect_object_form(item):
            seen = field_at_path(item, "status.observedGeneration", 0)
            return bool(seen >= field_at_path(item, "metadata.generation", 0) and has >= wants)
    value = str(field_at_path(item, ready.field, ""))
    return value == ready.equals if ready.equals else value not in ("", "0")


def available_pods(item: dict[str, Any]) -> tuple[int, int]:
    """Return how many pods of a Deployment, StatefulSet or DaemonSet are available, and how many there should be.

    Raises DataError for an object of another form.
    """
    has, wants = "status.availableReplicas", "spec.replicas"
    if item.get("kind") == "DaemonSet":
        # The second field is missing until the controller has seen the object.
        has, wants = "status.numberAvailable", "status.desiredNumberScheduled"
    with expect_object_form(item):
        return int(field_at_path(item, has, 0)), int(field_at_path(item, wants, 1))


def why_not_ready(item: dict[str, Any], ready: ReadyCondition) -> str:
    """Return the state of an object that is not ready, in parentheses."""
    if ready.condition:
        condition = conditions_by_type(item).get(ready.condition, {})
        message = f"{condition.get('reason', '')}: {condition.get('message', '')}".strip(": ")
        return f" ({ready.condition}={condition.get('status', 'unknown')}{': ' + message if message else ''})"
    if ready.available:
        has, wants = available_pods(item)
        return f" ({has} of {wants} pods are available)"
    wanted = f", not {ready.equals}" if ready.equals else ""
    return f" ({ready.field} is {field_at_path(item, ready.field, 'not set')}{wanted})"


def metrics_missing_in_pod(client: Client, pod: dict[str, Any], ready: ReadyCondition) -> str:
    """Return what a pod lacks, "" if it serves all metrics. A simulated pod is not queried and lacks nothing."""
    if get_label(pod, run_labels.SIMULATED):
        return ""
    if conditions_by_type(pod).get("Ready", {}).get("status") != "True":
        return " (it is not Ready)"
    meta = pod["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}:{ready.port}/proxy/metrics"
    try:
        missing = sorted(set(ready.metrics) - names_of_exposed_metrics(client.text(path)))
    except ApiError as error:
        return f" ({error})"
    return f" (not yet {', '.join(missing)})" if missing else ""


def names_of_exposed_metrics(exposition: str) -> set[str]:
    """Return the names of the metrics that have a sample. exposition: Prometheus' text format."""
    lines = (line.strip() for line in exposition.splitlines())
    return {line.partition("{")[0].split()[0] for line in lines if line and not line.startswith("#")}


MONITORING = "openshift.io/cluster-monitoring"
V1ALPHA1 = "operators.coreos.com/v1alpha1"
V1 = "operators.coreos.com/v1"


def is_created_by_run(item: Mapping[str, Any], run_id: str) -> bool:
    """Return whether this run created an object."""
    return bool(run_id) and get_label(dict(item), run_labels.RUN) == run_id


def _object_metadata(name: str, namespace: str, run_id: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "labels": {**(labels or {}), run_labels.RUN: run_id}}
    return {**meta, "namespace": namespace} if namespace else meta


def namespace_manifest(name: str, run_id: str, monitoring: bool = False) -> dict[str, Any]:
    """Return the manifest of a namespace of this run."""
    labels = {run_labels.PART: "operators", **({MONITORING: "true"} if monitoring else {})}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": _object_metadata(name, "", run_id, labels)}


def operator_group_manifest(operator: OperatorSpec, offer: CatalogOffer, run_id: str) -> dict[str, Any]:
    """Return the OperatorGroup, which defines the namespaces that operators in a namespace watch."""
    targets = {"targetNamespaces": [operator.namespace]} if offer.watches == "own" else {}
    return {
        "apiVersion": V1,
        "kind": "OperatorGroup",
        "metadata": _object_metadata(f"{operator.package}-operator-group", operator.namespace, run_id),
        "spec": targets,
    }


def group_selects_watched_namespaces(group: Mapping[str, Any], operator: OperatorSpec, offer: CatalogOffer) -> bool:
    """Return whether an OperatorGroup selects the namespaces that the operator must watch."""
    spec = group.get("spec") or {}
    if spec.get("selector"):
        return False
    targets = [each for each in spec.get("targetNamespaces") or [] if each]
    return targets == [operator.namespace] if offer.watches == "own" else not targets


def catalog_source_manifest(operator: OperatorSpec, run_id: str) -> dict[str, Any]:
    """Return the CatalogSource of an operator with a catalog_image or catalog_address."""
    source: dict[str, Any] = {"sourceType": "grpc", "displayName": operator.catalog, "publisher": "perfscale.seatrial"}
    if operator.catalog_address:
        source["address"] = operator.catalog_address
    else:
        source["image"] = operator.catalog_image
        source["grpcPodConfig"] = {"securityContextConfig": "restricted"}
        if operator.catalog_pull_secret:
            source["secrets"] = [pull_secret_name(operator)]
    return {
        "apiVersion": V1ALPHA1,
        "kind": "CatalogSource",
        "metadata": _object_metadata(operator.catalog, operator.catalog_namespace, run_id),
        "spec": source,
    }


def pull_secret_name(operator: OperatorSpec) -> str:
    """Return the name of the pull secret for a catalog's image."""
    return operator.catalog_pull_secret.replace("_", "-").lower()


def pull_secret_manifest(operator: OperatorSpec, content: str, run_id: str) -> dict[str, Any]:
    """Return the pull secret for a catalog's image. content: a dockerconfigjson."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": _object_metadata(pull_secret_name(operator), operator.catalog_namespace, run_id),
        "data": {".dockerconfigjson": base64.b64encode(content.encode()).decode()},
    }


#: The annotation of a Subscription that lists what its operator creates itself, as JSON.
CREATES = "perfscale.seatrial/operator-creates"


def objects_created_by_operator(subscription: Mapping[str, Any]) -> CreatedObjects:
    """Return what the operator of a Subscription creates itself, as recorded when it was installed.

    Raises DataError naming the Subscription if the record is damaged.
    """
    text = field_at_path(dict(subscription), f'metadata.annotations["{CREATES}"]')
    try:
        return CreatedObjects.from_record(parse_json(text)) if text else CreatedObjects()
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise DataError(
            f"annotation {CREATES} of {format_object_title(subscription)} is damaged: correct or remove it"
        ) from error


def names_of_owned_definitions(csv: dict[str, Any]) -> list[str]:
    """Return the names of the definitions that a ClusterServiceVersion owns. Raises DataError for another form."""
    with expect_object_form(csv):
        return [str(each["name"]) for each in field_at_path(csv, "spec.customresourcedefinitions.owned", [])]


def subscription_manifest(operator: OperatorSpec, offer: CatalogOffer, run_id: str) -> dict[str, Any]:
    """Return the Subscription of an operator."""
    spec: dict[str, Any] = {
        "name": operator.package,
        "source": offer.catalog,
        "sourceNamespace": offer.catalog_namespace,
        "channel": offer.channel,
        "startingCSV": offer.csv,
        "installPlanApproval": "Manual" if operator.manual else "Automatic",
    }
    if operator.environment:
        spec["config"] = {
            "env": [{"name": name, "value": value} for name, value in sorted(operator.environment.items())]
        }
    metadata = _object_metadata(operator.package, operator.namespace, run_id)
    created = {name: list(values) for name, values in asdict(operator.creates).items() if values}
    if created:
        metadata["annotations"] = {CREATES: json.dumps(created, sort_keys=True)}
    return {"apiVersion": V1ALPHA1, "kind": "Subscription", "metadata": metadata, "spec": spec}


def differing_spec_fields(existing: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return the fields in the spec of a Subscription or CatalogSource that differ from ``wanted``.

    ``startingCSV`` is not compared, since it has no effect on an existing Subscription.
    """
    have, want = existing.get("spec") or {}, wanted["spec"]
    names = sorted(set(want) - {"startingCSV", "displayName", "publisher", "grpcPodConfig"})
    return [name for name in names if have.get(name) != want[name]] + (
        ["config"] if "config" not in want and field_at_path(dict(existing), "spec.config.env") else []
    )


@dataclass
class OperatorObjectWriter:
    """Writes the objects of one operator; ``created`` and ``changes`` list what was done.

    pull_secret: the dockerconfigjson for its catalog's image. check: whether to record changes without making them.
    """

    client: Client
    cache: WatchCache
    operator: OperatorSpec
    run_id: str
    say: Say
    pull_secret: str = field(default="", repr=False)
    check: bool = False
    diff: ObjectDiff = field(default_factory=ObjectDiff)
    created: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)

    def ensure_namespace(self, name: str) -> str:
        """Ensure that a namespace exists; return what to wait for if it is being deleted, else ""."""
        existing = self.cache.get("Namespace", "", name)
        if existing is not None and field_at_path(existing, "metadata.deletionTimestamp"):
            return f"namespace {name} to be deleted completely"
        monitoring = self.operator.monitoring and name == self.operator.namespace
        if existing is None:
            self.create(namespace_manifest(name, self.run_id, monitoring))
        elif (
            monitoring
            and is_created_by_run(existing, self.run_id)
            and not field_at_path(existing, "metadata.labels").get(MONITORING)
        ):
            self.patch(existing, {"metadata": {"labels": {MONITORING: "true"}}}, "monitoring of")
        return ""

    def ensure_pull_secret(self) -> None:
        """Ensure that the catalog's pull secret exists. Secrets are not watched, since most belong to others.

        Raises OwnershipError for a different Secret of that name that this run did not create.
        """
        wanted = pull_secret_manifest(self.operator, self.pull_secret, self.run_id)
        meta = wanted["metadata"]
        secret = self.client.get(self.client.kind("v1", "Secret"), meta["name"], meta["namespace"])
        if secret is None:
            self.create(wanted)
        elif secret.get("data") != wanted["data"]:
            if not is_created_by_run(secret, self.run_id):
                raise OwnershipError(
                    f"{self.operator.package}: {format_object_title(secret)} was not created by this run"
                    " and has different content"
                )
            self.patch(secret, {"data": wanted["data"]}, "content of")

    def ensure(self, manifest: dict[str, Any], namespace: str) -> None:
        """Ensure that an object exists that the operator or its operand refers to, by default in ``namespace``.

        Raises OwnershipError for a different object of that name that this run did not create.
        """
        meta = {"namespace": namespace, **manifest["metadata"]}
        meta["labels"] = {**(meta.get("labels") or {}), run_labels.RUN: self.run_id}
        wanted = {**manifest, "metadata": meta}
        self.cache.follow(wanted["apiVersion"], wanted["kind"])
        existing = self.cache.get(wanted["kind"], meta["namespace"], meta["name"])
        content = {name: value for name, value in wanted.items() if name not in ("apiVersion", "kind", "metadata")}
        if existing is None:
            self.create(wanted)
        elif not contains_all_fields(existing, content):
            if not is_created_by_run(existing, self.run_id):
                raise OwnershipError(
                    f"{self.operator.package}: {format_object_title(existing)} was not created by this run"
                    " and has different content"
                )
            self.patch(existing, content, "content of")

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
            if not is_created_by_run(made, self.run_id):
                raise OwnershipError(
                    f"{format_object_title(made)} was just created by somebody else. Check it and try again"
                ) from error
        else:
            self.created.append(format_object_title(made))
            self.diff.created(manifest)
            self._changed(f"created {format_object_title(made)}")
        self.cache.note(made["kind"], made)
        return made

    def patch(self, existing: dict[str, Any], patch: dict[str, Any], what: str) -> None:
        """Apply a merge patch. what: the changed part for messages, such as "spec of", or "approved"."""
        kind = self.client.kind_of(existing)
        meta = existing["metadata"]
        path = kind.path(meta.get("namespace", ""), meta["name"])
        self.diff.patched(existing, patch)
        if self.check:
            made = apply_json_merge_patch(existing, patch)
        else:
            made = self.client.request("PATCH", path, patch, content_type=MERGE_PATCH)
        self.cache.note(kind.kind, made)
        self._changed(f"{what if what == 'approved' else f'changed {what}'} {format_object_title(made)}")

    def _changed(self, what: str) -> None:
        self.changes.append(what)
        if not self.check:
            self.say(f"{self.operator.package}: {what}")
