"""Simulates OpenShift's Machine Config Operator on stand-in CRDs: pools take over a changed pull secret and mirrors."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import field_at_path
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import registry_access
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.registry_access import (
    NAME,
    NAMESPACE,
    POOL_VERSION,
)

FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
POOL = "worker"
CURRENT = [one[:2] for one in registry_access.CURRENT.values()]
OLDER = [one[:2] for one in registry_access.OLDER.values()]


def crd(api_version: str, kind: str) -> dict[str, Any]:
    """A stand-in CRD, labelled as such."""
    group, version = api_version.split("/")
    plural = "imagecontentsourcepolicies" if kind == "ImageContentSourcePolicy" else f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": FREE, "status": FREE}}}
    one = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "labels": {"perfscale.seatrial/stand-in": "true"}},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Cluster",
            "versions": [one],
        },
    }


class MachineConfigSimulator:
    """Gives the pool a new configuration when something changes, and some steps later lets it have it."""

    def __init__(self, client: Client, kinds: list[tuple[str, str]], steps: int = 3) -> None:
        self.client, self.kinds, self.steps = client, kinds, steps
        self.rendered, self.left = "", 0
        #: A message of the condition Degraded, from the next step on.
        self.degraded = ""

    def content(self) -> str:
        """Return a digest of what the configuration depends on."""
        secret = self.client.get(self.client.kind("v1", "Secret"), NAME, NAMESPACE) or {}
        found: list[Any] = [secret.get("data")]
        for version, kind in self.kinds:
            found += [one["spec"] for one in self.client.list(self.client.kind(version, kind))[0]]
        return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:12]

    def current(self) -> bool:
        """Return whether the machines have the configuration of what is on the cluster now."""
        pool = self.client.get(self.client.kind(POOL_VERSION, "MachineConfigPool"), POOL)
        return field_at_path(pool, "status.configuration.name", "") == f"rendered-{POOL}-{self.content()}"

    def step(self) -> None:
        """Bring the pool a step on."""
        now = self.content()
        path = self.client.kind(POOL_VERSION, "MachineConfigPool").path("", POOL)
        if now != self.rendered:
            self.rendered, self.left = now, self.steps
            body = {"spec": {"configuration": {"name": f"rendered-{POOL}-{now}"}}}
            self.client.request("PATCH", path, body, content_type=MERGE_PATCH)
            self.say(path, "False")
        elif self.left:
            self.left -= not self.degraded
            self.say(path, "False" if self.left else "True")

    def say(self, path: str, updated: str) -> None:
        """Write the status of the pool."""
        broken = {"type": "Degraded", "status": "True" if self.degraded else "False", "message": self.degraded}
        conditions = [{"type": "Updated", "status": updated}, broken]
        done = updated == "True"
        status: dict[str, Any] = {"conditions": conditions, "machineCount": 3, "updatedMachineCount": 3 if done else 1}
        if done:
            status["configuration"] = {"name": f"rendered-{POOL}-{self.rendered}"}
        self.client.request("PATCH", f"{path}/status", {"status": status}, content_type=MERGE_PATCH)
