"""Simulates Hive on stand-in CRDs: ClusterClaims get one existing cluster.

The CRDs are labelled stand-ins with the fields that we use, after openshift/hive's apis/hive/v1; the server rejects
unknown fields (strict validation), which reveals wrong names. The simulator sets and clears what Hive's controllers do:
finalizer, spec.namespace, conditions, a ClusterDeployment with its secret.
"""

from __future__ import annotations

import base64
import threading
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import hive_claim
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import is_condition_true

STAND_IN = {"perfscale.seatrial/stand-in": "true"}
FINALIZER = "hive.openshift.io/claim"

TEXT = {"type": "string"}
CONDITIONS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["type", "status"],
        "properties": dict.fromkeys(
            ("type", "status", "reason", "message", "lastTransitionTime", "lastProbeTime"), TEXT
        ),
    },
}
REFERENCE = {"type": "object", "properties": {"name": TEXT}}
KINDS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "ClusterClaim": (
        "clusterclaims",
        {"clusterPoolName": TEXT, "namespace": TEXT, "lifetime": {"type": "string", "format": "duration"}},
        {"conditions": CONDITIONS, "lifetime": TEXT},
    ),
    "ClusterPool": ("clusterpools", {"size": {"type": "integer"}, "baseDomain": TEXT}, {"ready": {"type": "integer"}}),
    "ClusterDeployment": (
        "clusterdeployments",
        {
            "clusterName": TEXT,
            "installed": {"type": "boolean"},
            "clusterMetadata": {
                "type": "object",
                "properties": {"clusterID": TEXT, "infraID": TEXT, "adminKubeconfigSecretRef": REFERENCE},
            },
        },
        {"apiURL": TEXT, "webConsoleURL": TEXT, "powerState": TEXT},
    ),
}


def crds() -> list[dict[str, Any]]:
    """The stand-in definitions."""
    return [_crd(kind, *parts) for kind, parts in KINDS.items()]


def _crd(kind: str, plural: str, spec: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    properties = {
        "spec": {"type": "object", "properties": spec},
        "status": {"type": "object", "properties": status},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.hive.openshift.io", "labels": STAND_IN},
        "spec": {
            "group": "hive.openshift.io",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


class HiveSimulator(threading.Thread):
    """Fulfils up to ``size`` claims of one namespace with the cluster of ``kubeconfig``."""

    def __init__(self, client: Client, namespace: str, kubeconfig: Path, size: int = 1) -> None:
        super().__init__(daemon=True)
        self.client, self.namespace, self.kubeconfig, self.left = client, namespace, kubeconfig, size
        self.over = threading.Event()
        self.seen: list[dict[str, Any]] = []
        self.errors: list[Exception] = []

    def run(self) -> None:
        """Process the claims four times a second."""
        while not self.over.wait(0.25):
            try:
                for one in self.client.list(self.client.kind(hive_claim.VERSION, "ClusterClaim"), self.namespace)[0]:
                    self.advance(one)
            except Exception as error:
                self.errors.append(error)

    def stop(self) -> None:
        """Stop the simulation."""
        self.over.set()
        self.join()

    def advance(self, one: dict[str, Any]) -> None:
        """Advance one claim by a step."""
        metadata = one["metadata"]
        path = self.client.kind(hive_claim.VERSION, "ClusterClaim").path(self.namespace, metadata["name"])
        if metadata.get("deletionTimestamp"):
            self.remove(one)
            self.patch(path, {"metadata": {"finalizers": None}})
        elif FINALIZER not in (metadata.get("finalizers") or []):
            self.seen.append(one)
            self.patch(path, {"metadata": {"finalizers": [FINALIZER]}})
            self.conditions(path, "NoClusters", "No clusters in pool are ready to be claimed", False)
        elif not one["spec"].get("namespace") and self.left > 0:
            self.left -= 1
            name = f"{one['spec']['clusterPoolName']}-a1b2c"
            self.provide(name)
            self.patch(path, {"spec": {"namespace": name}})
            self.conditions(path, "Resuming", "Waiting for cluster to be running", False)
        elif one["spec"].get("namespace") and not self.is_running(one):
            self.conditions(path, "ClusterClaimed", "Cluster claimed", True)

    def is_running(self, one: dict[str, Any]) -> bool:
        """Whether the claim has the condition ClusterRunning."""
        return is_condition_true(one, "ClusterRunning")

    def conditions(self, path: str, reason: str, message: str, running: bool) -> None:
        """Set the claim's conditions."""
        common = {"lastTransitionTime": format_utc_timestamp(), "lastProbeTime": format_utc_timestamp()}
        pending = {"type": "Pending", "status": str(not running), "reason": reason, "message": message, **common}
        state = {"type": "ClusterRunning", "status": str(running), "reason": reason, "message": message, **common}
        self.patch(f"{path}/status", {"status": {"conditions": [pending, state], "lifetime": "2h0m0s"}})

    def provide(self, name: str) -> None:
        """Create the ClusterDeployment with its secret, in a separate namespace."""
        secret = f"{name}-admin-kubeconfig"
        kubeconfig = base64.b64encode(self.kubeconfig.read_bytes()).decode()
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": STAND_IN}})
        self.client.create(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": secret, "namespace": name},
                "data": {"kubeconfig": kubeconfig},
            }
        )
        self.client.create(
            {
                "apiVersion": hive_claim.VERSION,
                "kind": "ClusterDeployment",
                "metadata": {"name": name, "namespace": name},
                "spec": {
                    "clusterName": name,
                    "installed": True,
                    "clusterMetadata": {"infraID": name, "adminKubeconfigSecretRef": {"name": secret}},
                },
            }
        )
        path = self.client.kind(hive_claim.VERSION, "ClusterDeployment").path(name, name)
        self.patch(f"{path}/status", {"status": {"webConsoleURL": "https://console.example.com"}})

    def remove(self, one: dict[str, Any]) -> None:
        """Destroy the cluster of a claim."""
        name = one["spec"].get("namespace")
        if name:
            self.client.delete(self.client.kind(hive_claim.VERSION, "ClusterDeployment"), name, name)
            self.client.delete(self.client.kind("v1", "Namespace"), name)

    def patch(self, path: str, body: dict[str, Any]) -> None:
        """Merge ``body`` into an object that may have been deleted."""
        try:
            self.client.request("PATCH", path, body, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.status != 404:
                raise
