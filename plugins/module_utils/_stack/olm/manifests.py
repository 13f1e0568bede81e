# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests of the objects by which OLM installs an operator. Pure functions."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import field_at, label

from .operator_specs import Offer, Operator

MONITORING = "openshift.io/cluster-monitoring"


V1ALPHA1 = "operators.coreos.com/v1alpha1"
V1 = "operators.coreos.com/v1"


def ours(item: Mapping[str, Any], run_id: str) -> bool:
    """Return whether this run created an object."""
    return bool(run_id) and label(dict(item), run_labels.RUN) == run_id


def _metadata(name: str, namespace: str, run_id: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "labels": {**(labels or {}), run_labels.RUN: run_id}}
    return {**meta, "namespace": namespace} if namespace else meta


def namespace(name: str, run_id: str, monitoring: bool = False) -> dict[str, Any]:
    """Return the manifest of a namespace of this run."""
    labels = {run_labels.PART: "operators", **({MONITORING: "true"} if monitoring else {})}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": _metadata(name, "", run_id, labels)}


def operator_group(one: Operator, offer: Offer, run_id: str) -> dict[str, Any]:
    """Return the OperatorGroup, which defines the namespaces that operators in a namespace watch."""
    targets = {"targetNamespaces": [one.namespace]} if offer.watches == "own" else {}
    return {
        "apiVersion": V1,
        "kind": "OperatorGroup",
        "metadata": _metadata(f"{one.package}-operator-group", one.namespace, run_id),
        "spec": targets,
    }


def fits(group: Mapping[str, Any], one: Operator, offer: Offer) -> bool:
    """Return whether an OperatorGroup selects the namespaces that the operator must watch."""
    spec = group.get("spec") or {}
    if spec.get("selector"):
        return False
    targets = [each for each in spec.get("targetNamespaces") or [] if each]
    return targets == [one.namespace] if offer.watches == "own" else not targets


def catalog_source(one: Operator, run_id: str) -> dict[str, Any]:
    """Return the CatalogSource of an operator with a catalog_image or catalog_address."""
    source: dict[str, Any] = {"sourceType": "grpc", "displayName": one.catalog, "publisher": "perfscale.seatrial"}
    if one.catalog_address:
        source["address"] = one.catalog_address
    else:
        source["image"] = one.catalog_image
        source["grpcPodConfig"] = {"securityContextConfig": "restricted"}
        if one.catalog_pull_secret:
            source["secrets"] = [secret_name(one)]
    return {
        "apiVersion": V1ALPHA1,
        "kind": "CatalogSource",
        "metadata": _metadata(one.catalog, one.catalog_namespace, run_id),
        "spec": source,
    }


def secret_name(one: Operator) -> str:
    """Return the name of the pull secret for a catalog's image."""
    return one.catalog_pull_secret.replace("_", "-").lower()


def pull_secret(one: Operator, content: str, run_id: str) -> dict[str, Any]:
    """Return the pull secret for a catalog's image. content: a dockerconfigjson."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": _metadata(secret_name(one), one.catalog_namespace, run_id),
        "data": {".dockerconfigjson": base64.b64encode(content.encode()).decode()},
    }


def subscription(one: Operator, offer: Offer, run_id: str) -> dict[str, Any]:
    """Return the Subscription of an operator."""
    spec: dict[str, Any] = {
        "name": one.package,
        "source": offer.catalog,
        "sourceNamespace": offer.catalog_namespace,
        "channel": offer.channel,
        "startingCSV": offer.csv,
        "installPlanApproval": "Manual" if one.manual else "Automatic",
    }
    if one.environment:
        spec["config"] = {"env": [{"name": name, "value": value} for name, value in sorted(one.environment.items())]}
    return {
        "apiVersion": V1ALPHA1,
        "kind": "Subscription",
        "metadata": _metadata(one.package, one.namespace, run_id),
        "spec": spec,
    }


def differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return the fields in the spec of a Subscription or CatalogSource that differ from ``wanted``.

    ``startingCSV`` is not compared, since it has no effect on an existing Subscription.
    """
    have, want = found.get("spec") or {}, wanted["spec"]
    names = sorted(set(want) - {"startingCSV", "displayName", "publisher", "grpcPodConfig"})
    return [name for name in names if have.get(name) != want[name]] + (
        ["config"] if "config" not in want and field_at(dict(found), "spec.config.env") else []
    )
