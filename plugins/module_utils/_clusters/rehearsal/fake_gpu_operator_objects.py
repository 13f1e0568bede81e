# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of the fake-gpu-operator of Run:ai: GPUs without devices, offered by a device plugin of real kubelets.

Only two of its parts are installed, in a separate namespace: the status updater, which prepares the topology of
each node of a pool, and the device plugin on these nodes. The labels that the GPU operator would give these nodes are
set by us. The objects follow release 0.2.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

from . import added_gpus

NAME = "seatrial-fake-gpu"
UPDATER, PLUGIN = f"{NAME}-updater", f"{NAME}-plugin"
#: Assigns a node to a pool of the topology.
POOL = run_labels.FAKE_GPU_OPERATOR
#: The status updater sets these on a node when its topology is ready; they also select nodes for a GPU operator.
_DEPLOY = "nvidia.com/gpu.deploy."
READY = f"{_DEPLOY}device-plugin"
_OTHERS = ("dcgm-exporter", "dra-plugin-gpu", "compute-domain-dra-plugin")
#: Labels that a node of a pool has besides those of its GPUs.
NODE_LABELS = (POOL, READY, *(f"{_DEPLOY}{one}" for one in _OTHERS))
_TOPOLOGY = "topology"
_POOL_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?\Z")


@dataclass(frozen=True)
class NodePool:
    """Existing nodes that get the same GPUs. node_selector: a label selector. memory_mib: of one GPU."""

    name: str
    node_selector: str
    gpus: int = 8
    product: str = "NVIDIA-A100-SXM4-80GB"
    memory_mib: int = 81920

    def labels(self) -> dict[str, str]:
        """Return the labels of its nodes. The product of a GPU without a device must not name a real one."""
        return {
            **added_gpus.labels_of(self.gpus, f"{run_labels.SIMULATED_PRODUCT}{self.product}", self.memory_mib),
            POOL: self.name,
        }


@dataclass(frozen=True)
class OperatorSpec:
    """What is installed: pools, and where the images are."""

    pools: tuple[NodePool, ...] = ()
    version: str = "0.2.0"
    registry: str = "ghcr.io/run-ai/fake-gpu-operator"

    def check(self) -> None:
        """Raise InputError for an invalid value."""
        names = [one.name for one in self.pools]
        for one in self.pools:
            where = f"fake_gpu_operator_pools: pool '{one.name}'"
            if not _POOL_NAME.match(one.name):
                raise InputError(f"{where}: the name must be lower-case letters, digits and dashes")
            if names.count(one.name) > 1:
                raise InputError(f"{where}: two pools have this name")
            if not one.node_selector:
                raise InputError(f"{where}: it needs node_selector, the labels of its nodes")
            for key, value in (("gpus", one.gpus), ("memory_mib", one.memory_mib)):
                if value < 1:
                    raise InputError(f"{where}: {key} is {value}, at least 1 is required")
        if self.pools and not (self.version and self.registry):
            raise InputError("fake_gpu_operator_version and fake_gpu_operator_registry must not be empty")

    def image(self, part: str) -> str:
        """Return the image of a part of the operator."""
        return f"{self.registry.rstrip('/')}/{part}:{self.version}"


def objects(spec: OperatorSpec, run_id: str) -> list[dict[str, Any]]:
    """Return the objects of the operator, in order of their creation."""
    labels = {run_labels.RUN: run_id} if run_id else {}
    enforce = {"pod-security.kubernetes.io/enforce": "privileged"}  # the device plugin uses folders of the node
    meta: dict[str, Any] = {"name": NAME, "labels": {**labels, **enforce}}
    pools = {
        one.name: {
            "gpuProduct": f"{run_labels.SIMULATED_PRODUCT}{one.product}",
            "gpuCount": one.gpus,
            "gpuMemory": one.memory_mib,
        }
        for one in spec.pools
    }
    topology = {"nodePools": pools, "nodePoolLabelKey": POOL, "migStrategy": "none"}
    config = {"topology.yml": json.dumps(topology)}  # JSON is YAML
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": meta},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(_TOPOLOGY, labels), "data": config},
        *_account(UPDATER, labels, _UPDATER_RULES),
        *_account(PLUGIN, labels, _PLUGIN_RULES),
        _workload("Deployment", UPDATER, labels, _updater(spec), {"replicas": 1}),
        _workload("DaemonSet", PLUGIN, labels, _plugin(spec), {}),
    ]


def _meta(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {"name": name, "namespace": NAME, "labels": dict(labels)}


_READ = ["get", "list", "watch"]
_UPDATER_RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": [*_READ, "patch", "update"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": [*_READ, "patch"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": [*_READ, "create", "update", "patch", "delete"]},
    {"apiGroups": ["scheduling.run.ai"], "resources": ["podgroups"], "verbs": ["get"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": _READ},
    {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": _READ},
]
_PLUGIN_RULES = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    {  # OpenShift
        "apiGroups": ["security.openshift.io"],
        "resources": ["securitycontextconstraints"],
        "resourceNames": ["privileged"],
        "verbs": ["use"],
    },
]


def _account(name: str, labels: Mapping[str, str], rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    group, cluster_wide = "rbac.authorization.k8s.io", {"name": name, "labels": dict(labels)}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(name, labels)},
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": cluster_wide, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": cluster_wide,
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAME}],
        },
    ]


def _workload(
    kind: str, name: str, labels: Mapping[str, str], pod: dict[str, Any], more: dict[str, Any]
) -> dict[str, Any]:
    selected = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": _meta(name, labels),
        "spec": {
            **more,
            "selector": {"matchLabels": selected},
            "template": {"metadata": {"labels": selected}, "spec": {"serviceAccountName": name, **pod}},
        },
    }


#: Read by both parts.
_ENVIRONMENT = {"TOPOLOGY_CM_NAME": _TOPOLOGY, "TOPOLOGY_CM_NAMESPACE": NAME}


def _environment(more: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in {**_ENVIRONMENT, **more}.items()]


def _updater(spec: OperatorSpec) -> dict[str, Any]:
    environment = _environment({"FAKE_GPU_OPERATOR_NAMESPACE": NAME})
    container = {"name": "status-updater", "image": spec.image("status-updater"), "env": environment}
    return {"containers": [{**container, "resources": _resources("200m", "200Mi")}]}


def _plugin(spec: OperatorSpec) -> dict[str, Any]:
    node_name = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    folders = {
        "device-plugins": ("/var/lib/kubelet/device-plugins", "/var/lib/kubelet/device-plugins"),
        "bin": ("/var/lib/runai/bin", "/runai/bin"),
        "shared": ("/var/lib/runai/shared", "/runai/shared"),
    }
    container = {
        "name": "device-plugin",
        "image": spec.image("device-plugin"),
        "env": [node_name, *_environment({})],
        "securityContext": {"privileged": True},
        "resources": _resources("100m", "100Mi"),
        "volumeMounts": [{"name": name, "mountPath": inside} for name, (_host, inside) in folders.items()],
    }
    volumes = [
        {"name": name, "hostPath": {"path": host, "type": "DirectoryOrCreate"}}
        for name, (host, _inside) in folders.items()
    ]
    return {
        "nodeSelector": {READY: "true"},
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": volumes,
    }


def _resources(cpu: str, memory: str) -> dict[str, Any]:
    return {"requests": {"cpu": cpu, "memory": memory}}
