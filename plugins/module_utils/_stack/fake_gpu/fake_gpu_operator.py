# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install the fake-gpu-operator of Run:ai on a cluster with real nodes and no GPUs, and remove it.

GPUs without devices are offered by a device plugin of real kubelets. Only two parts of the operator are installed, in a
separate namespace: the status updater, which prepares the topology of each node of a pool, and the device plugin on
these nodes. The labels that the GPU operator would give these nodes are set by us. The objects follow release 0.2.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, run_labels, waiting
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import parse_kube_quantity
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import get_label
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.objects_of_run import (
    delete_manifests_of_run,
    get_object_of_run,
)

from . import advertised_gpus

NAME = "seatrial-fake-gpu"
UPDATER, PLUGIN = f"{NAME}-updater", f"{NAME}-plugin"
#: Assigns a node to a pool of the topology.
POOL = run_labels.FAKE_GPU_OPERATOR
#: The status updater sets these on a node when its topology is ready; they also select nodes for a GPU operator.
_DEPLOY = "nvidia.com/gpu.deploy."
READY = f"{_DEPLOY}device-plugin"
_OTHERS = ("dcgm-exporter", "dra-plugin-gpu", "compute-domain-dra-plugin")
#: Labels that a node of a pool has besides those of its GPUs.
NODE_LABELS = (POOL, READY, *(f"{_DEPLOY}{component}" for component in _OTHERS))
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
            **advertised_gpus.gpu_node_labels(
                self.gpus, f"{run_labels.SIMULATED_PRODUCT}{self.product}", self.memory_mib
            ),
            POOL: self.name,
        }


@dataclass(frozen=True)
class FakeGpuOperatorSpec:
    """What is installed: pools, and where the images are."""

    pools: tuple[NodePool, ...] = ()
    version: str = "0.2.0"
    registry: str = "ghcr.io/run-ai/fake-gpu-operator"

    def check(self) -> None:
        """Raise InputError for an invalid value."""
        names = [pool.name for pool in self.pools]
        for pool in self.pools:
            where = f"fake_gpu_operator_pools: pool '{pool.name}'"
            if not _POOL_NAME.match(pool.name):
                raise InputError(f"{where}: the name must be lower-case letters, digits and dashes")
            if names.count(pool.name) > 1:
                raise InputError(f"{where}: two pools have this name")
            if not pool.node_selector:
                raise InputError(f"{where}: it needs node_selector, the labels of its nodes")
            for key, value in (("gpus", pool.gpus), ("memory_mib", pool.memory_mib)):
                if value < 1:
                    raise InputError(f"{where}: {key} is {value}, at least 1 is required")
        if self.pools and not (self.version and self.registry):
            raise InputError("fake_gpu_operator_version and fake_gpu_operator_registry must not be empty")

    def image(self, part: str) -> str:
        """Return the image of a part of the operator."""
        return f"{self.registry.rstrip('/')}/{part}:{self.version}"


def operator_manifests(spec: FakeGpuOperatorSpec, run_id: str) -> list[dict[str, Any]]:
    """Return the objects of the operator, in order of their creation."""
    labels = {run_labels.RUN: run_id} if run_id else {}
    enforce = {"pod-security.kubernetes.io/enforce": "privileged"}  # the device plugin uses folders of the node
    meta: dict[str, Any] = {"name": NAME, "labels": {**labels, **enforce}}
    pools = {
        pool.name: {
            "gpuProduct": f"{run_labels.SIMULATED_PRODUCT}{pool.product}",
            "gpuCount": pool.gpus,
            "gpuMemory": pool.memory_mib,
        }
        for pool in spec.pools
    }
    topology = {"nodePools": pools, "nodePoolLabelKey": POOL, "migStrategy": "none"}
    config = {"topology.yml": json.dumps(topology)}  # JSON is YAML
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": meta},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _object_metadata(_TOPOLOGY, labels), "data": config},
        *_service_account_manifests(UPDATER, labels, _UPDATER_RULES),
        *_service_account_manifests(PLUGIN, labels, _PLUGIN_RULES),
        _workload_manifest("Deployment", UPDATER, labels, _status_updater_pod_spec(spec), {"replicas": 1}),
        _workload_manifest("DaemonSet", PLUGIN, labels, _device_plugin_pod_spec(spec), {}),
    ]


def _object_metadata(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
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


def _service_account_manifests(
    name: str, labels: Mapping[str, str], rules: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    group, cluster_wide = "rbac.authorization.k8s.io", {"name": name, "labels": dict(labels)}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _object_metadata(name, labels)},
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": cluster_wide, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": cluster_wide,
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAME}],
        },
    ]


def _workload_manifest(
    kind: str, name: str, labels: Mapping[str, str], pod: dict[str, Any], more: dict[str, Any]
) -> dict[str, Any]:
    selected = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": _object_metadata(name, labels),
        "spec": {
            **more,
            "selector": {"matchLabels": selected},
            "template": {"metadata": {"labels": selected}, "spec": {"serviceAccountName": name, **pod}},
        },
    }


#: Read by both parts.
_ENVIRONMENT = {"TOPOLOGY_CM_NAME": _TOPOLOGY, "TOPOLOGY_CM_NAMESPACE": NAME}


def _container_environment(more: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in {**_ENVIRONMENT, **more}.items()]


def _status_updater_pod_spec(spec: FakeGpuOperatorSpec) -> dict[str, Any]:
    environment = _container_environment({"FAKE_GPU_OPERATOR_NAMESPACE": NAME})
    container = {"name": "status-updater", "image": spec.image("status-updater"), "env": environment}
    return {"containers": [{**container, "resources": _resource_requests("200m", "200Mi")}]}


def _device_plugin_pod_spec(spec: FakeGpuOperatorSpec) -> dict[str, Any]:
    node_name = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    folders = {
        "device-plugins": ("/var/lib/kubelet/device-plugins", "/var/lib/kubelet/device-plugins"),
        "bin": ("/var/lib/runai/bin", "/runai/bin"),
        "shared": ("/var/lib/runai/shared", "/runai/shared"),
    }
    container = {
        "name": "device-plugin",
        "image": spec.image("device-plugin"),
        "env": [node_name, *_container_environment({})],
        "securityContext": {"privileged": True},
        "resources": _resource_requests("100m", "100Mi"),
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


def _resource_requests(cpu: str, memory: str) -> dict[str, Any]:
    return {"requests": {"cpu": cpu, "memory": memory}}


_PAUSE = 0.2


def install_fake_gpu_operator(
    client: Client, spec: FakeGpuOperatorSpec, run_id: str, timeout: float, say: Say, check: bool = False
) -> list[str]:
    """Install the operator and wait until the nodes of its pools offer their GPUs; return the nodes that changed.

    timeout: seconds. Raises InputError for a pool without nodes or nodes in two pools, OwnershipError beside real GPUs,
    a GPU operator or an installation of another run, WaitTimeout.
    """
    spec.check()
    nodes = _pool_nodes_by_name(client, spec, run_id)
    _refuse_real_gpus(client, nodes)
    wanted = operator_manifests(spec, run_id)
    missing = _find_missing_objects(client, wanted, run_id)
    fresh = [
        name for name, (node, pool) in nodes.items() if not advertised_gpus.has_labels_and_gpus(node, pool.labels())
    ]
    if check:
        return fresh
    for manifest in missing:
        client.create(manifest, {"fieldValidation": "Strict"})
    if missing:
        say(f"created {formats.format_count(len(missing), 'object')} of the fake-gpu-operator {spec.version}")
    for name in fresh:
        marks = {run_labels.FAKE_GPUS: run_id or advertised_gpus.NO_RUN, **nodes[name][1].labels()}
        advertised_gpus.set_gpu_labels(client, name, marks)
    _await_gpus(client, nodes, timeout)
    return fresh


def remove_fake_gpu_operator(client: Client, run_id: str, timeout: float, say: Say, check: bool = False) -> list[str]:
    """Delete this run's installation and wait until it is gone, the device plugin included; return what was deleted.

    The labels of the nodes remain; they are removed with the GPUs, which a device plugin would offer again.
    """
    manifests = list(reversed(operator_manifests(FakeGpuOperatorSpec(), run_id)))
    deleted = delete_manifests_of_run(client, manifests, run_id, check)
    if deleted and not check:
        say("removing the fake-gpu-operator")
        namespaces, name = client.kind("v1", "Namespace"), f"Namespace {NAME}"
        waiting.wait_until_gone(
            lambda: [name] if get_object_of_run(client, namespaces, NAME, "", run_id) else [], timeout, _PAUSE
        )
    return deleted


def _pool_nodes_by_name(
    client: Client, spec: FakeGpuOperatorSpec, run_id: str
) -> dict[str, tuple[dict[str, Any], NodePool]]:
    """Return name -> (node, its pool)."""
    node_by_name: dict[str, tuple[dict[str, Any], NodePool]] = {}
    for pool in spec.pools:
        nodes = client.list(client.kind("v1", "Node"), label_selector=pool.node_selector)[0]
        if not nodes:
            raise InputError(
                f"fake_gpu_operator_pools: no node has the labels '{pool.node_selector}' of pool '{pool.name}'"
            )
        for node in nodes:
            name = node["metadata"]["name"]
            if name in node_by_name:
                raise InputError(
                    f"fake_gpu_operator_pools: node {name} is in pools {node_by_name[name][1].name}, {pool.name}"
                )
            advertised_gpus.check_node_may_get_gpus(node, run_id, "fake_gpu_operator_pools")
            node_by_name[name] = (node, pool)
    return node_by_name


def _refuse_real_gpus(client: Client, ours: Mapping[str, Any]) -> None:
    """Raise OwnershipError on a cluster with GPUs, whose operator would use the same labels of nodes."""
    for node in client.list(client.kind("v1", "Node"))[0]:
        name = node["metadata"]["name"]
        there = parse_kube_quantity(((node.get("status") or {}).get("capacity") or {}).get(advertised_gpus.GPU, "0"))
        simulated = get_label(node, run_labels.SIMULATED) == "true" or get_label(node, run_labels.FAKE_GPUS)
        if there and name not in ours and not simulated:
            raise OwnershipError(
                f"{client.access.server} has real GPUs, {there:g} on node {name}: the fake-gpu-operator is not"
                " installed beside them, because it uses the labels of the GPU operator. Nothing was changed"
            )
    try:
        policies = client.list(client.kind("nvidia.com/v1", "ClusterPolicy"))[0]
    except InputError:  # the kind does not exist
        return
    if policies:
        raise OwnershipError(
            f"{client.access.server} has the GPU operator (ClusterPolicy {policies[0]['metadata']['name']}): it would"
            " put its own device plugin on the same nodes. Nothing was changed"
        )


def _find_missing_objects(client: Client, wanted: Sequence[dict[str, Any]], run_id: str) -> list[dict[str, Any]]:
    """Return the objects that do not exist. Raises OwnershipError for those of another run or of somebody else."""
    missing = []
    for manifest in wanted:
        meta = manifest["metadata"]
        obj = client.get(client.kind_of(manifest), meta["name"], meta.get("namespace", ""))
        if obj is None:
            missing.append(manifest)
        elif get_label(obj, run_labels.RUN) != run_id:
            raise OwnershipError(
                f"{manifest['kind']} {meta['name']} exists and was not created by this run: another run has installed"
                " the fake-gpu-operator. Nothing was changed"
            )
        elif manifest["kind"] == "ConfigMap" and obj.get("data") != manifest["data"]:
            raise InputError(
                "fake_gpu_operator_pools differ from those that this run has installed: remove them first (entry point"
                " absent of role fake_gpu)"
            )
    return missing


def _await_gpus(client: Client, nodes: Mapping[str, tuple[dict[str, Any], NodePool]], timeout: float) -> None:
    def look() -> tuple[bool | None, str]:
        node_by_name = {node["metadata"]["name"]: node for node in client.list(client.kind("v1", "Node"))[0]}
        lacking = [
            name
            for name, (_node, pool) in nodes.items()
            if name not in node_by_name or not advertised_gpus.has_labels_and_gpus(node_by_name[name], pool.labels())
        ]
        return (None if lacking else True), formats.format_list(lacking, 3)

    def late(names: str) -> str:
        return (
            f"after {timeout:.0f} s {names} do not offer the GPUs of the fake-gpu-operator:"
            f" see the pods of namespace {NAME}"
        )

    waiting.wait_until(look, timeout, _discard_message, late, _PAUSE)


def _discard_message(_text: str) -> None:
    """Report nothing: the module has its own lines."""
