"""Simulates OpenShift's Machine API on stand-in CRDs: machines of MachineSets become KWOK nodes."""

from __future__ import annotations

import threading
import time
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.find_or_derive_machine_set import (
    CLUSTER,
    NAMESPACE,
    ROLE,
    SET,
    VERSION,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.node_count_for_users import AWS, NodeSize

STAND_IN = {"perfscale.seatrial/stand-in": "true"}
FINALIZER = "machine.machine.openshift.io"
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
MACHINE_SET_SPEC = {
    "type": "object",
    "properties": {"replicas": {"type": "integer"}, "selector": FREE, "template": FREE},
}


def crd(kind: str, plural: str, spec: dict[str, Any]) -> dict[str, Any]:
    """A stand-in CRD, labelled as such."""
    schema = {"type": "object", "properties": {"spec": spec, "status": FREE}}
    version = {"name": "v1beta1", "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.machine.openshift.io", "labels": STAND_IN},
        "spec": {
            "group": "machine.openshift.io",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def crds() -> list[dict[str, Any]]:
    """The stand-in CRDs."""
    return [crd("MachineSet", "machinesets", MACHINE_SET_SPEC), crd("Machine", "machines", FREE)]


def machine_set(name: str, replicas: int, cluster: str = "lab-x7k2p") -> dict[str, Any]:
    """A set of workers as an installer for AWS makes it."""
    labels = {CLUSTER: cluster, SET: name}
    value = {
        "apiVersion": "machine.openshift.io/v1beta1",
        "kind": "AWSMachineProviderConfig",
        "ami": {"id": "ami-0123456789abcdef0"},
        "instanceType": "m6i.xlarge",
        "blockDevices": [{"ebs": {"volumeSize": 120, "volumeType": "gp3", "encrypted": True}}],
        "placement": {"availabilityZone": "us-east-2a", "region": "us-east-2"},
    }
    return {
        "apiVersion": VERSION,
        "kind": "MachineSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {CLUSTER: cluster}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": {**labels, ROLE: "worker"}},
                "spec": {"metadata": {}, "providerSpec": {"value": value}},
            },
        },
    }


def room(machine: dict[str, Any]) -> dict[str, str]:
    """What the node of a machine has, by its type; of an unknown one, 4 cores and 16 GiB."""
    size = AWS.get(machine["spec"]["providerSpec"]["value"]["instanceType"], NodeSize(4.0, 16.0))
    return {"cpu": f"{size.cpu:g}", "memory": f"{size.memory:g}Gi", "pods": f"{size.pods:g}"}


class MachineApiSimulator(threading.Thread):
    """Simulates the machines of one cluster. broken: instance types that are sold out. delay: of each node, seconds."""

    def __init__(self, client: Client, broken: tuple[str, ...] = (), delay: float = 0.0) -> None:
        super().__init__(daemon=True)
        self.client, self.broken, self.delay = client, broken, delay
        self.made: dict[str, float] = {}
        self.over = threading.Event()
        self.count = 0
        self.errors: list[Exception] = []

    def run(self) -> None:
        """Look at the sets five times a second."""
        while not self.over.wait(0.2):
            try:
                self.step()
            except Exception as error:
                self.errors.append(error)

    def stop(self) -> None:
        """Stop the simulation."""
        self.over.set()
        self.join()

    def step(self) -> None:
        """Bring sets and machines a step on."""
        machines = self.client.list(self.client.kind(VERSION, "Machine"), NAMESPACE)[0]
        sets = {one["metadata"]["name"]: one for one in self._sets()}
        for name, one in sets.items():
            own = [each for each in machines if each["metadata"]["labels"][SET] == name]
            living = [each for each in own if not each["metadata"].get("deletionTimestamp")]
            for _missing in range(one["spec"]["replicas"] - len(living)):
                self.create(name, one)
            for each in living[one["spec"]["replicas"] :]:
                self.client.delete(self._machine(), each["metadata"]["name"], NAMESPACE)
        for each in machines:
            self.advance(each, each["metadata"]["labels"][SET] in sets)

    def _sets(self) -> list[dict[str, Any]]:
        return self.client.list(self.client.kind(VERSION, "MachineSet"), NAMESPACE)[0]

    def _machine(self) -> Any:
        return self.client.kind(VERSION, "Machine")

    def create(self, name: str, one: dict[str, Any]) -> None:
        """Make a machine of a set."""
        self.count += 1
        template = one["spec"]["template"]
        metadata = {
            "name": f"{name}-{self.count:05d}",
            "namespace": NAMESPACE,
            "labels": template["metadata"]["labels"],
            "finalizers": [FINALIZER],
        }
        self.client.create({"apiVersion": VERSION, "kind": "Machine", "metadata": metadata, "spec": template["spec"]})
        self.made[metadata["name"]] = time.monotonic()

    def advance(self, one: dict[str, Any], wanted: bool) -> None:
        """Bring a machine up, or away."""
        name, spec = one["metadata"]["name"], one["spec"]
        path = self._machine().path(NAMESPACE, name)
        if one["metadata"].get("deletionTimestamp"):
            self.client.delete(self.client.kind("v1", "Node"), name)
            self.patch(path, {"metadata": {"finalizers": None}})
        elif not wanted:
            self.client.delete(self._machine(), name, NAMESPACE)
        elif spec["providerSpec"]["value"]["instanceType"] in self.broken:
            status = {"phase": "Failed", "errorMessage": "InsufficientInstanceCapacity: there is none left"}
            self.patch(f"{path}/status", {"status": status})
        elif not (one.get("status") or {}).get("nodeRef") and time.monotonic() >= self.made.get(name, 0.0) + self.delay:
            labels = {**(spec.get("metadata", {}).get("labels") or {}), "type": "kwok", run_labels.SIMULATED: "true"}
            node = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
                "spec": {"taints": spec.get("taints") or []},
                "status": {"capacity": room(one), "allocatable": room(one)},
            }
            self.client.create(node)
            self.patch(f"{path}/status", {"status": {"phase": "Running", "nodeRef": {"kind": "Node", "name": name}}})

    def patch(self, path: str, body: dict[str, Any]) -> None:
        """Merge ``body`` into an object that may have been deleted."""
        try:
            self.client.request("PATCH", path, body, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.status != 404:
                raise
