# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim a cluster from a ClusterPool that Hive keeps on a hub cluster, wait for it, release it by deleting the claim.

API: hive.openshift.io/v1 ClusterClaim, ClusterPool and ClusterDeployment (openshift/hive, apis/hive/v1). A claim is in
the namespace of its pool. Hive writes the namespace of the cluster's ClusterDeployment, which has the same name, to
the claim's spec; condition ClusterRunning becomes true when the cluster is ready, Pending has the reason for the wait.
Claimed clusters never return to the pool: when the claim is deleted or its lifetime ends, the cluster is destroyed.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    DataError,
    InputError,
    OwnershipError,
    WaitTimeout,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import wait_until
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import kubeconfig_document
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    conditions_by_type,
    expect_object_form,
    field_at_path,
    is_condition_true,
)

VERSION = "hive.openshift.io/v1"

#: Annotations of a claim: its run, its owner, its purpose.
RUN, OWNER, PURPOSE = (f"perfscale.seatrial/made-{name}" for name in ("run", "owner", "purpose"))


@dataclass(frozen=True)
class ClaimSpec:
    """A claim. ``lifetime`` and ``timeout`` in seconds; a lifetime of 0 means that of the pool."""

    name: str
    namespace: str
    pool: str
    run: str
    owner: str = ""
    purpose: str = ""
    lifetime: float = 0.0
    timeout: float = 3600.0

    def manifest(self) -> dict[str, Any]:
        """Return the object."""
        spec: dict[str, Any] = {"clusterPoolName": self.pool}
        if self.lifetime:
            spec["lifetime"] = f"{round(self.lifetime)}s"
        annotations = {RUN: self.run, OWNER: self.owner, PURPOSE: self.purpose}
        return {
            "apiVersion": VERSION,
            "kind": "ClusterClaim",
            "metadata": {"name": self.name, "namespace": self.namespace, "annotations": annotations},
            "spec": spec,
        }


def create_cluster_claim(client: Client, spec: ClaimSpec, check: bool = False) -> bool:
    """Create the claim; return whether it is new. An existing claim of this name and run is reused.

    Raises InputError naming the existing pools, OwnershipError for the claim of another run.
    """
    if not spec.namespace or not spec.pool:
        raise InputError("cluster_hive_namespace and cluster_hive_pool are required: they name a pool of the hub")
    kind = client.kind(VERSION, "ClusterClaim")
    existing = client.get(kind, spec.name, spec.namespace)
    if existing is None:
        _check_pool(client, spec)
        if check:
            return True
        try:
            client.request("POST", kind.path(spec.namespace), spec.manifest())
            return True
        except ApiError as error:
            if error.status != 409:
                raise
            existing = client.get(kind, spec.name, spec.namespace)
    _check_ours(existing, spec, client)
    return False


def _check_pool(client: Client, spec: ClaimSpec) -> None:
    kind = client.kind(VERSION, "ClusterPool")
    if client.get(kind, spec.pool, spec.namespace) is None:
        names = sorted(pool["metadata"]["name"] for pool in client.list(kind, spec.namespace)[0])
        known = f"there are {', '.join(names)}" if names else "there is none"
        raise InputError(
            f"cluster_hive_pool: namespace {spec.namespace} of {client.access.server} has no ClusterPool "
            f"'{spec.pool}'{suggest_similar_name(spec.pool, names)}; {known}"
        )


def _check_ours(existing: Mapping[str, Any] | None, spec: ClaimSpec, client: Client) -> None:
    whose = field_at_path(existing, f'metadata.annotations["{RUN}"]', "")
    if existing is not None and whose != spec.run:
        raise OwnershipError(
            f"{client.access.server}: ClusterClaim {spec.namespace}/{spec.name} is "
            f"{f'of run {whose}' if whose else 'not of any run'}, not of {spec.run}: nothing was changed"
        )


def wait_for_claimed_cluster(
    client: Client, spec: ClaimSpec, kubeconfig: Path, say: Callable[[str], None]
) -> dict[str, Any]:
    """Wait until the claimed cluster runs, write its administrator's kubeconfig, return the values for its record.

    Raises WaitTimeout with the conditions of the claim, DataError if Hive has deleted the claim or the cluster.
    """
    kind = client.kind(VERSION, "ClusterClaim")

    def poll() -> tuple[dict[str, Any] | None, str]:
        claim_object = client.get(kind, spec.name, spec.namespace)
        if claim_object is None:
            raise DataError(f"ClusterClaim {spec.namespace}/{spec.name} no longer exists on {client.access.server}")
        state = conditions_by_type(claim_object)
        cluster = field_at_path(claim_object, "spec.namespace")
        if is_condition_true(claim_object, "ClusterDeleted"):
            raise DataError(
                f"Hive has deleted the cluster of claim {spec.name}: {_condition_reason(state['ClusterDeleted'])}"
            )
        if is_condition_true(claim_object, "ClusterRunning") and cluster:
            with expect_object_form({"kind": "ClusterClaim", **claim_object}):
                return _save_claimed_cluster(client, spec, claim_object, kubeconfig), ""
        return None, _waiting_message(spec, state)

    return wait_until(poll, spec.timeout, say, lambda state: f"after {spec.timeout:g} s {state}")


def _condition_reason(condition: Mapping[str, Any]) -> str:
    parts = (str(condition.get(name) or "") for name in ("reason", "message"))
    return ": ".join(part for part in parts if part) or "no reason given"


def _waiting_message(spec: ClaimSpec, state: Mapping[str, Mapping[str, Any]]) -> str:
    which = state.get("Pending", {})
    if which.get("status") != "True":
        which = state.get("ClusterRunning", {})
    return (
        f"claim {spec.name} of pool {spec.pool} waits for a cluster"
        f" ({_condition_reason(which) if which else 'no condition yet'})"
    )


def _save_claimed_cluster(
    client: Client, spec: ClaimSpec, claim_object: Mapping[str, Any], kubeconfig: Path
) -> dict[str, Any]:
    name = claim_object["spec"]["namespace"]
    deployment = client.get(client.kind(VERSION, "ClusterDeployment"), name, name)
    if deployment is None:
        raise DataError(f"claim {spec.name} names ClusterDeployment {name}/{name}, which does not exist")
    secret_name = str(field_at_path(deployment, "spec.clusterMetadata.adminKubeconfigSecretRef.name", ""))
    secret = client.get(client.kind("v1", "Secret"), secret_name, name) if secret_name else None
    try:
        text = base64.b64decode(field_at_path(secret, "data.kubeconfig"), validate=True).decode()
    except (TypeError, ValueError) as error:
        raise DataError(f"ClusterDeployment {name} has no secret with a kubeconfig ('{secret_name}')") from error
    kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    kubeconfig_document.write_received_kubeconfig(kubeconfig, text, f"ClusterDeployment {name}: its kubeconfig")
    result: dict[str, Any] = {"kubeconfig": str(kubeconfig), "deployment": name}
    if console := field_at_path(deployment, "status.webConsoleURL"):
        result["console"] = console
    until = _claim_expiry_time(claim_object)
    if until is not None:
        result["expires"] = format_utc_timestamp(until)
    return result


def _claim_expiry_time(claim_object: Mapping[str, Any]) -> float | None:
    """Return when Hive deletes the claim, in seconds since the epoch.

    That is the effective lifetime, which the pool may limit, after the claim received a cluster.
    """
    lifetime = formats.parse_go_duration(
        (claim_object.get("status") or {}).get("lifetime") or claim_object["spec"].get("lifetime") or ""
    )
    since = conditions_by_type(claim_object).get("Pending", {}).get("lastTransitionTime") or claim_object[
        "metadata"
    ].get("creationTimestamp")
    try:
        return datetime.fromisoformat(str(since)).timestamp() + lifetime if lifetime else None
    except ValueError:
        return None


def delete_cluster_claim(client: Client, spec: ClaimSpec, check: bool = False) -> bool:
    """Delete the claim and wait until it no longer exists; return whether it existed. Safe to repeat.

    Raises OwnershipError for the claim of another run, WaitTimeout.
    """
    kind = client.kind(VERSION, "ClusterClaim")
    claim_object = client.get(kind, spec.name, spec.namespace)
    if claim_object is None:
        return False
    _check_ours(claim_object, spec, client)
    if check:
        return True
    uid = claim_object["metadata"]["uid"]
    client.delete_seen(kind, claim_object["metadata"])
    deadline = time.monotonic() + spec.timeout
    while (left := client.get(kind, spec.name, spec.namespace)) and left["metadata"]["uid"] == uid:
        if time.monotonic() >= deadline:
            finalizers = ", ".join(map(str, left["metadata"].get("finalizers") or [])) or "none"
            raise WaitTimeout(
                f"ClusterClaim {spec.namespace}/{spec.name} still exists after {spec.timeout:g} s; "
                f"finalizers: {finalizers}"
            )
        time.sleep(0.3)
    return True
