# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fake nodes on a real cluster: only with permission, tainted, simulated by a KWOK that runs in the cluster.

Real nodes are never changed: only objects with our labels are created and removed, and only workloads that tolerate the
taint run on a fake node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import component_manifests
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import get_label
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.objects_of_run import delete_manifests_of_run

#: Keeps pods that do not tolerate it off fake nodes.
TAINT = {"key": run_labels.SIMULATED, "value": "true", "effect": "NoSchedule"}
#: The ConfigMap that marks a rehearsal cluster.
MARKER = ("kube-public", "seatrial-rehearsal")
#: Prefixes of the resources that are GPUs.
GPUS = ("nvidia.com/", "amd.com/gpu", "gpu.intel.com/")
KWOK = "seatrial-kwok"

_OPTIONS = """---
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  cidr: 10.128.0.0/12
  enableDebuggingHandlers: false
  enablePodsOnNodeSyncListPager: true
  podPlayStageParallelism: 16
  nodePlayStageParallelism: 16
"""


@dataclass(frozen=True)
class FakeNodePermission:
    """What is permitted on a real cluster.

    allowed: create fake nodes at all. beside_workloads: also where GPUs are in use. kwok_image: image of KWOK to run in
    the cluster; if empty, a KWOK must run there already. stages: KWOK's stages, a YAML list.
    """

    allowed: bool = False
    beside_workloads: bool = False
    kwok_image: str = ""
    stages: str = ""


def check_fake_nodes_allowed(client: Client, permission: FakeNodePermission, run_id: str) -> None:
    """Raise OwnershipError where no fake nodes may be created."""
    if not permission.allowed:
        namespace, name = MARKER
        marker = client.get(client.kind("v1", "ConfigMap"), name, namespace)
        if marker is None or get_label(marker, run_labels.SIMULATED) != "true":
            raise OwnershipError(
                f"{client.access.server} is not a rehearsal cluster (it has no ConfigMap {namespace}/{name}): fake"
                " nodes would be mixed with real ones. Nothing was changed. real_cluster (setting"
                " fake_gpu_real_cluster) allows it; the fake nodes are tainted then"
            )
    elif not permission.beside_workloads:
        using = foreign_pods_with_gpus(client, run_id)
        if using:
            more = f" and {len(using) - 3} more" if len(using) > 3 else ""
            raise OwnershipError(
                f"{client.access.server} has real GPU workloads: {', '.join(using[:3])}{more}. Schedulers, autoscalers"
                " and quotas would count fake GPUs too. Nothing was changed. beside_workloads (setting"
                " fake_gpu_beside_workloads) allows it"
            )


def foreign_pods_with_gpus(client: Client, run_id: str = "") -> list[str]:
    """Return pods (namespace/name) with or waiting for a GPU, except on fake nodes and those of this run."""
    ours = client.list(client.kind("v1", "Node"), label_selector=f"{run_labels.SIMULATED}=true", metadata_only=True)[0]
    fake = {node["metadata"]["name"] for node in ours}
    pods = client.list(client.kind("v1", "Pod"), field_selector="status.phase!=Succeeded,status.phase!=Failed")[0]
    return sorted(
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in pods
        if requests_gpu(pod)
        and pod["spec"].get("nodeName") not in fake
        and not (run_id and get_label(pod, run_labels.RUN) == run_id)
    )


def requests_gpu(pod: dict[str, Any]) -> bool:
    """Return whether a container of a pod requests a GPU."""
    return any(
        name.startswith(GPUS) and str(amount) != "0"
        for container in pod["spec"].get("containers") or []
        for resources in (container.get("resources") or {}).values()
        if isinstance(resources, dict)
        for name, amount in resources.items()
    )


def kwok_manifests(permission: FakeNodePermission, run_id: str) -> list[dict[str, Any]]:
    """Return the objects that run KWOK in the cluster, in order of their creation."""
    labels = {run_labels.RUN: run_id} if run_id else {}
    meta = {"name": KWOK, "labels": labels}
    inside = {**meta, "namespace": KWOK}
    every = ["get", "list", "watch"]
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": every},
        {"apiGroups": [""], "resources": ["nodes/status", "pods/status"], "verbs": ["patch", "update"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": [*every, "patch", "update", "delete"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": [*every, "create", "patch", "update"],
        },
    ]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": meta},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": inside},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": KWOK},
            "subjects": [{"kind": "ServiceAccount", "name": KWOK, "namespace": KWOK}],
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": inside,
            "data": {"kwok.yml": f"{_OPTIONS}{component_manifests.yaml_list_to_documents(permission.stages)}"},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": inside,
            "spec": _kwok_deployment_manifest(permission.kwok_image),
        },
    ]


def _kwok_deployment_manifest(image: str) -> dict[str, Any]:
    container = {
        "name": "kwok",
        "image": image,
        "args": [
            "--config=/etc/seatrial-kwok/kwok.yml",
            "--manage-all-nodes=false",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            "--node-ip=$(POD_IP)",
            "--node-lease-duration-seconds=120",
            "--v=WARN",
        ],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/seatrial-kwok", "readOnly": True}],
    }
    real = {"matchExpressions": [{"key": run_labels.SIMULATED, "operator": "DoesNotExist"}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [real]}}}
    return {
        "replicas": 1,
        "selector": {"matchLabels": {"app": KWOK}},
        "template": {
            "metadata": {"labels": {"app": KWOK}},
            "spec": {
                "serviceAccountName": KWOK,
                "affinity": affinity,
                "containers": [container],
                "volumes": [{"name": "config", "configMap": {"name": KWOK}}],
            },
        },
    }


def install_kwok(client: Client, permission: FakeNodePermission, run_id: str) -> list[str]:
    """Install KWOK in the cluster unless this run has; return what was created.

    Raises OwnershipError if a KWOK of another run, or of none, is there.
    """
    created = []
    for manifest in kwok_manifests(permission, run_id):
        meta = manifest["metadata"]
        obj = client.get(client.kind_of(manifest), meta["name"], meta.get("namespace", ""))
        if obj is None:
            client.create(manifest)
            created.append(f"{manifest['kind']} {meta['name']}")
        elif get_label(obj, run_labels.RUN) != run_id:
            raise OwnershipError(
                f"{manifest['kind']} {meta['name']} exists and was not created by this run: KWOK of another run"
                " simulates nodes on this cluster. Leave fake_gpu_kwok_image empty to use it for these too"
            )
    return created


def remove_kwok(client: Client, run_id: str, check_only: bool) -> list[str]:
    """Delete this run's KWOK, the namespace last; return what was deleted."""
    manifests = list(reversed(kwok_manifests(FakeNodePermission(), run_id)))
    return delete_manifests_of_run(client, manifests, run_id, check_only)
