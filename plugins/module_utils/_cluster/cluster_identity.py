# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster is: asked of its API server in a few requests."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import (
    AccessError,
    ApiError,
    InputError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import Access
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_fields import holds, label
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube_quantity import amount

#: Extended resources that are GPUs or the like, and the label in which their operator names the product.
GPU_RESOURCES = {
    "nvidia.com/gpu": "nvidia.com/gpu.product",
    "amd.com/gpu": "amd.com/gpu.product-name",
    "gpu.intel.com/i915": "gpu.intel.com/product",
    "gpu.intel.com/xe": "gpu.intel.com/product",
    "habana.ai/gaudi": "habana.ai/product",
}

#: KWOK plays the life of nodes that carry this annotation, and of their pods.
PLAYED_NODE = "kwok.x-k8s.io/node"

#: A rehearsal cluster says what it is in this ConfigMap.
REHEARSAL = "/api/v1/namespaces/kube-public/configmaps/seatrial-rehearsal"

#: More node names than this are not recorded: a profile needs some, a person reads none.
NODE_NAMES = 200

_PAUSE = 0.5
#: Seconds between two lines that say what is waited for.
_TELL = 5.0


@dataclass
class Identity:
    """What is recorded of a cluster; field names as in schema cluster/1."""

    api_host: str
    version: str
    openshift: str | None = None
    nodes: int = 0
    nodes_ready: int = 0
    nodes_played: int = 0
    node_names: list[str] = field(default_factory=list)
    gpus: int = 0
    gpu_products: dict[str, int] = field(default_factory=dict)
    kind: str | None = None
    rehearsal: bool = False

    def record(self) -> dict[str, Any]:
        """Return the part that cluster.yml keeps. With played nodes a cluster is simulated, whoever gave it to us."""
        kept = ("api_host", "version", "openshift", "nodes", "gpus", "gpu_products", "kind")
        found = {name: getattr(self, name) for name in kept}
        found["node_names"] = self.node_names[:NODE_NAMES]
        if self.nodes_played or self.rehearsal:
            found |= {"simulated": True, "simulated_writers": ["node"]}
        return found


def gather(client: Client, run: str = "") -> Identity:
    """Ask for version, nodes and, on OpenShift, its version and platform. Raises AccessError, ApiError.

    run: nodes that carry another run's label do not count. All do when it is empty.
    """
    access = client.access
    found = Identity(api_host(access), client.request("GET", "/version")["gitVersion"])
    nodes = [one for one in _nodes(client) if not run or label(one, _labels.RUN) in ("", run)]
    found.nodes = len(nodes)
    found.node_names = sorted(node["metadata"]["name"] for node in nodes)
    found.nodes_ready = sum(holds(node, "Ready") for node in nodes)
    found.nodes_played = sum(_played(node) for node in nodes)
    found.gpu_products = gpu_products(nodes)
    found.gpus = sum(found.gpu_products.values())
    found.openshift = _optional(
        client, "/apis/config.openshift.io/v1/clusterversions/version", "status", "desired", "version"
    )
    platform = None
    if found.openshift:
        platform = _optional(client, "/apis/config.openshift.io/v1/infrastructures/cluster", "status", "platform")
    found.rehearsal = _optional(client, REHEARSAL, "data", "simulated") is not None
    found.kind = "light" if found.rehearsal else kind_of(nodes, platform)
    return found


def api_host(access: Access) -> str:
    """Return the API server's host, with its port where that is none of the usual two."""
    host = f"[{access.host}]" if ":" in access.host else access.host
    return host if access.port in (443, 6443) else f"{host}:{access.port}"


def _nodes(client: Client) -> list[dict[str, Any]]:
    try:
        return client.list(client.kind("v1", "Node"))[0]
    except ApiError as error:
        if error.status == 403:
            raise ApiError(
                f"{client.access.source} may not list nodes, and without them nothing can be told of GPUs: {error}",
                403,
                error.reason,
            ) from error
        raise


def _optional(client: Client, path: str, *keys: str) -> str | None:
    """Return a value of an object that may not be there or not be shown to us."""
    try:
        value: Any = client.request("GET", path)
    except ApiError as error:
        if error.status in (403, 404):
            return None
        raise
    for key in keys:
        value = (value or {}).get(key)
    return value or None


def kinds(client: Client, names: Iterable[str]) -> dict[str, bool]:
    """Return for each ``<apiVersion>/<Kind>`` whether the server has it. Raises InputError for what is no such name."""
    found: dict[str, bool] = {}
    for name in names:
        version, _slash, kind = name.rpartition("/")
        if not version or not kind:
            raise InputError(f"kinds: '{name}' is no <apiVersion>/<Kind>, such as kubeflow.org/v1/PyTorchJob")
        try:
            client.kind(version, kind)
            found[name] = True
        except InputError:
            found[name] = False
    return found


def namespaces(client: Client, names: Iterable[str]) -> dict[str, str | None]:
    """Return for each namespace the run whose label it carries (empty: none), None when it does not exist."""
    kind = client.kind("v1", "Namespace")
    found: dict[str, str | None] = {}
    for name in names:
        item = client.get(kind, name, metadata_only=True)
        found[name] = None if item is None else label(item, _labels.RUN)
    return found


def _played(node: dict[str, Any]) -> bool:
    return PLAYED_NODE in (node["metadata"].get("annotations") or {})


def gpu_products(nodes: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return product -> number of GPUs that pods can ask for, the most frequent first."""
    products: Counter[str] = Counter()
    for node in nodes:
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        labels = node["metadata"].get("labels") or {}
        for resource, product in GPU_RESOURCES.items():
            count = amount(allocatable.get(resource, "0"))
            if count > 0:
                products[labels.get(product) or resource] += int(count)
    return dict(products.most_common())


def kind_of(nodes: Iterable[dict[str, Any]], platform: str | None = None) -> str | None:
    """Return ``metal`` or ``light`` where the nodes let one tell, else None.

    metal: every node that says what it is says bare metal. light: every node is played, or is a machine of this host
    (kind, minikube).
    """
    kinds = {_node_kind(node) for node in nodes} - {None}
    if platform == "BareMetal":
        kinds.add("metal")
    return kinds.pop() if len(kinds) == 1 else None


def _node_kind(node: dict[str, Any]) -> str | None:
    labels = node["metadata"].get("labels") or {}
    instance = labels.get("node.kubernetes.io/instance-type", "")
    provider = (node.get("spec") or {}).get("providerID") or ""
    if _played(node) or provider.startswith("kind://") or "minikube.k8s.io/name" in labels:
        return "light"
    if provider.startswith("baremetalhost://") or instance.endswith(".metal") or ".metal-" in instance:
        return "metal"
    return None if not instance and not provider else "virtual"


def wait(
    client: Client,
    timeout: float,
    nodes_ready: int = 0,
    say: Callable[[str], None] = lambda text: None,
    run: str = "",
) -> Identity:
    """Ask until the API server answers and so many nodes are Ready; return the identity then, as gather() does.

    ``timeout`` in seconds; 0 asks once. What no waiting mends (an untrusted certificate, refused credentials, a
    kubeconfig that can't be used) is raised at once. Raises WaitTimeout naming what is missing.
    """
    deadline = time.monotonic() + timeout
    told = 0.0
    while True:
        try:
            found = gather(client, run)
        except (AccessError, ApiError) as error:
            if not _may_pass(error) or time.monotonic() >= deadline:
                raise
            missing = str(error)
        else:
            if found.nodes_ready >= nodes_ready:
                return found
            missing = f"{found.nodes_ready} of {nodes_ready} nodes are Ready ({found.nodes} known)"
            if time.monotonic() >= deadline:
                raise WaitTimeout(f"{client.access.server}: after {timeout:g} s {missing}")
        if time.monotonic() - told >= _TELL:
            told = time.monotonic()
            say(f"waiting for {client.access.server}: {missing}")
        time.sleep(_PAUSE)


def _may_pass(error: Exception) -> bool:
    if isinstance(error, ApiError):
        return error.status == 0 or error.busy
    return "is not trusted" not in str(error) and "refuses our credentials" not in str(error)


def line(record: dict[str, Any], hosts: Iterable[str]) -> str:
    """Return a cluster's record as one line for people."""
    played = " (simulated)" if record.get("simulated") else ""
    name = f" {record['name']}" if record.get("name") else ""
    parts = [f"{record['provider']} cluster{name} at {record.get('api_host', '?')}"]
    if record.get("openshift"):
        parts.append(f"OpenShift {record['openshift']}")
    parts.append(f"Kubernetes {record.get('version', '?')}")
    nodes = record.get("nodes", 0)
    parts.append(f"{nodes} {'node' if nodes == 1 else 'nodes'}{played if nodes else ''}")
    products = record.get("gpu_products") or {}
    parts += [f"{count} x {product}{played}" for product, count in products.items()] or ["no GPUs"]
    if record.get("kind") and not played:
        parts.append(record["kind"])
    parts.append("owned by this run" if record.get("owned") else "not owned by this run")
    return f"{' and '.join(hosts)}: {', '.join(parts)}"
