# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster out of a pool that Hive keeps on a hub cluster: claimed, waited for, given back by deleting the claim.

API: hive.openshift.io/v1 ClusterClaim, ClusterPool and ClusterDeployment (openshift/hive, apis/hive/v1). A claim lies
in its pool's namespace. Hive puts the namespace of the cluster's ClusterDeployment, which has the same name, into the
claim's spec; condition ClusterRunning says when it can be used, Pending why not yet. Claimed clusters never go back
into the pool: when the claim goes, and at the end of its lifetime, the cluster is destroyed.
"""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import (
    ApiError,
    DataError,
    InputError,
    OwnershipError,
    WaitTimeout,
    nearest,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_fields import conditions, holds
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import stamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._wait_until import wait_until

VERSION = "hive.openshift.io/v1"

#: Annotations of a claim: whose it is, and what for.
RUN, OWNER, PURPOSE = (f"perfscale.seatrial/made-{name}" for name in ("run", "owner", "purpose"))

_GO = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>h|ms|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


@dataclass(frozen=True)
class ClaimSpec:
    """A claim. ``lifetime`` and ``timeout`` in seconds; a lifetime of 0 leaves it to the pool."""

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


def go_duration(text: str) -> float | None:
    """Return the seconds of a Go duration such as 11h59m0s, None for what is none (time.ParseDuration)."""
    found = list(_GO.finditer(text or ""))
    if not found or "".join(one.group() for one in found) != text:
        return None
    return sum(float(one["number"]) * _SECONDS[one["unit"]] for one in found)


def claim(client: Client, wish: ClaimSpec, check: bool = False) -> bool:
    """Make the claim; return whether it is new. One of this name that this run made is taken for it.

    Raises InputError naming the pools that there are, OwnershipError for somebody else's claim.
    """
    if not wish.namespace or not wish.pool:
        raise InputError("hive_pool needs cluster_hive_namespace and cluster_hive_pool: which pool of the hub?")
    kind = client.kind(VERSION, "ClusterClaim")
    there = client.get(kind, wish.name, wish.namespace)
    if there is None:
        _check_pool(client, wish)
        if check:
            return True
        try:
            client.request("POST", kind.path(wish.namespace), wish.manifest())
            return True
        except ApiError as error:
            if error.status != 409:
                raise
            there = client.get(kind, wish.name, wish.namespace)
    _check_ours(there, wish, client)
    return False


def _check_pool(client: Client, wish: ClaimSpec) -> None:
    kind = client.kind(VERSION, "ClusterPool")
    if client.get(kind, wish.pool, wish.namespace) is None:
        names = sorted(one["metadata"]["name"] for one in client.list(kind, wish.namespace)[0])
        known = f"there are {', '.join(names)}" if names else "there is none"
        raise InputError(
            f"cluster_hive_pool: namespace {wish.namespace} of {client.access.server} has no ClusterPool "
            f"'{wish.pool}'{nearest(wish.pool, names)}; {known}"
        )


def _check_ours(there: Mapping[str, Any] | None, wish: ClaimSpec, client: Client) -> None:
    whose = ((there or {}).get("metadata", {}).get("annotations") or {}).get(RUN, "")
    if there is not None and whose != wish.run:
        raise OwnershipError(
            f"{client.access.server}: ClusterClaim {wish.namespace}/{wish.name} is "
            f"{f'of run {whose}' if whose else 'not of any run'}, not of {wish.run}: nothing was changed"
        )


def wait(client: Client, wish: ClaimSpec, kubeconfig: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Wait until the claimed cluster runs, write its administrator's kubeconfig, return what the record keeps.

    Raises WaitTimeout with the claim's own words, DataError when Hive took the cluster away.
    """
    kind = client.kind(VERSION, "ClusterClaim")

    def look() -> tuple[dict[str, Any] | None, str]:
        found = client.get(kind, wish.name, wish.namespace)
        if found is None:
            raise DataError(f"ClusterClaim {wish.namespace}/{wish.name} is gone from {client.access.server}")
        state = conditions(found)
        if holds(found, "ClusterDeleted"):
            raise DataError(f"Hive has deleted the cluster of claim {wish.name}: {_words(state['ClusterDeleted'])}")
        if holds(found, "ClusterRunning") and found["spec"].get("namespace"):
            return _taken(client, wish, found, kubeconfig), ""
        return None, _waiting(wish, state)

    return wait_until(look, wish.timeout, say, lambda words: f"after {wish.timeout:g} s {words}")


def _words(condition: Mapping[str, Any]) -> str:
    parts = (str(condition.get(name) or "") for name in ("reason", "message"))
    return ": ".join(one for one in parts if one) or "no reason given"


def _waiting(wish: ClaimSpec, state: Mapping[str, Mapping[str, Any]]) -> str:
    which = state.get("Pending", {})
    if which.get("status") != "True":
        which = state.get("ClusterRunning", {})
    return (
        f"claim {wish.name} of pool {wish.pool} waits for a cluster ({_words(which) if which else 'not looked at yet'})"
    )


def _taken(client: Client, wish: ClaimSpec, found: Mapping[str, Any], kubeconfig: Path) -> dict[str, Any]:
    name = found["spec"]["namespace"]
    deployment = client.get(client.kind(VERSION, "ClusterDeployment"), name, name)
    if deployment is None:
        raise DataError(f"claim {wish.name} names ClusterDeployment {name}/{name}, which is not there")
    metadata = (deployment.get("spec") or {}).get("clusterMetadata") or {}
    secret_name = (metadata.get("adminKubeconfigSecretRef") or {}).get("name", "")
    secret = client.get(client.kind("v1", "Secret"), secret_name, name) if secret_name else None
    try:
        text = base64.b64decode(((secret or {}).get("data") or {})["kubeconfig"], validate=True).decode()
    except (KeyError, binascii.Error, UnicodeDecodeError) as error:
        raise DataError(f"ClusterDeployment {name} has no secret with a kubeconfig ('{secret_name}')") from error
    kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    _files.replace_text(kubeconfig, text, mode=0o600)
    status = deployment.get("status") or {}
    result: dict[str, Any] = {"kubeconfig": str(kubeconfig), "deployment": name}
    if status.get("webConsoleURL"):
        result["console"] = status["webConsoleURL"]
    until = _expires(found)
    if until is not None:
        result["expires"] = stamp(until)
    return result


def _expires(found: Mapping[str, Any]) -> float | None:
    """When Hive deletes the claim: its effective lifetime (the pool may shorten it) after it was given a cluster."""
    from datetime import datetime

    lifetime = go_duration((found.get("status") or {}).get("lifetime") or found["spec"].get("lifetime") or "")
    since = conditions(found).get("Pending", {}).get("lastTransitionTime") or found["metadata"].get("creationTimestamp")
    try:
        return datetime.fromisoformat(str(since)).timestamp() + lifetime if lifetime else None
    except ValueError:
        return None


def give_back(client: Client, wish: ClaimSpec, check: bool = False) -> bool:
    """Delete the claim and wait until it is gone; return whether there was one. Safe twice.

    Raises OwnershipError for somebody else's, WaitTimeout.
    """
    kind = client.kind(VERSION, "ClusterClaim")
    found = client.get(kind, wish.name, wish.namespace)
    if found is None:
        return False
    _check_ours(found, wish, client)
    if check:
        return True
    uid = found["metadata"]["uid"]
    client.delete(kind, wish.name, wish.namespace, {"preconditions": {"uid": uid}})
    deadline = time.monotonic() + wish.timeout
    while (left := client.get(kind, wish.name, wish.namespace)) and left["metadata"]["uid"] == uid:
        if time.monotonic() >= deadline:
            held = ", ".join(left["metadata"].get("finalizers") or []) or "nothing that it says"
            raise WaitTimeout(
                f"ClusterClaim {wish.namespace}/{wish.name} is still there after {wish.timeout:g} s: {held}"
            )
        time.sleep(0.3)
    return True
