# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Identify a cluster with a few requests to its API server: version, nodes, operators, real or simulated."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import isnan
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    ApiError,
    InputError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import parse_kube_quantity
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    expect_documented_form,
    parse_json,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import ApiServerAccess
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    expect_object_form,
    field_at_path,
    get_label,
    is_condition_true,
)

_V1ALPHA1 = "operators.coreos.com/v1alpha1"
#: OLM copies each ClusterServiceVersion to the namespaces that its operator serves; copies have this label.
_COPIED = "olm.copiedFrom"
#: OLM labels a ClusterServiceVersion with this prefix, its package and its namespace.
_PACKAGE = "operators.coreos.com/"
#: Phases of a version that another one replaces.
_OUTGOING = ("Replacing", "Deleting")


@dataclass(frozen=True)
class OperatorVersions:
    """versions: package -> version, several joined if namespaces differ. namespaces: those that operators run in."""

    versions: dict[str, str]
    namespaces: tuple[str, ...]


def operator_versions(client: Client) -> OperatorVersions | None:
    """Return the operators; None without OLM, or if they may not be listed. Raises AccessError, ApiError."""
    try:
        kind = client.kind(_V1ALPHA1, "ClusterServiceVersion")
        csvs, _version = client.list(kind, label_selector=f"!{_COPIED}", limit=50)
    except InputError:
        return None
    except ApiError as error:
        if error.status in (403, 404):
            return None
        raise
    return operators_from_csvs(csvs)


def changed_rehearsal_component_versions(client: Client) -> dict[str, str]:
    """Return component -> version of a rehearsal cluster, of those that run another release than the one they name."""
    text = _read_optional_value(client, REHEARSAL, "data", "versions")
    with expect_documented_form(f"GET {REHEARSAL} at {client.access.server}", text):
        return {str(name): str(version) for name, version in parse_json(text or "{}").items()}


def operators_from_csvs(csvs: Iterable[Mapping[str, Any]]) -> OperatorVersions:
    """Return the operators of ClusterServiceVersions, without versions that are being replaced."""
    versions: dict[str, set[str]] = {}
    namespaces = set()
    for csv in csvs:
        if field_at_path(csv, "status.phase") in _OUTGOING:
            continue
        with expect_object_form(csv):
            versions.setdefault(_operator_package_name(csv), set()).add(
                str(field_at_path(csv, "spec.version", "")) or csv["metadata"]["name"]
            )
            namespaces.add(csv["metadata"]["namespace"])
    joined = {package: ", ".join(sorted(numbers)) for package, numbers in sorted(versions.items())}
    return OperatorVersions(joined, tuple(sorted(namespaces)))


def _operator_package_name(csv: Mapping[str, Any]) -> str:
    """Return the package: from OLM's label, else the name before its version."""
    namespace = csv["metadata"]["namespace"]
    for key in csv["metadata"].get("labels") or {}:
        if key.startswith(_PACKAGE) and key.endswith(f".{namespace}"):
            return str(key.removeprefix(_PACKAGE).removesuffix(f".{namespace}"))
    return str(csv["metadata"]["name"]).partition(".")[0]


#: Extended resources that are accelerators, and the node label in which their operator names the product.
GPU_RESOURCES = {
    "nvidia.com/gpu": "nvidia.com/gpu.product",
    "amd.com/gpu": "amd.com/gpu.product-name",
    "gpu.intel.com/i915": "gpu.intel.com/product",
    "gpu.intel.com/xe": "gpu.intel.com/product",
    "habana.ai/gaudi": "habana.ai/product",
}

#: Kinds of clusters, see kind_of().
KINDS = ("light", "metal", "virtual")

#: KWOK simulates nodes with this annotation, and their pods.
SIMULATED_NODE = "kwok.x-k8s.io/node"

#: Every rehearsal cluster has this ConfigMap.
REHEARSAL = "/api/v1/namespaces/kube-public/configmaps/seatrial-rehearsal"

#: Largest number of node names in a record: cluster profiles need a few of them.
NODE_NAMES = 200

_PAUSE = 0.5
#: Seconds between two progress lines.
_REPORT_INTERVAL = 5.0


@dataclass
class ClusterIdentity:
    """The identity of a cluster; field names as in schema cluster/2."""

    api_host: str
    version: str
    openshift: str | None = None
    nodes: int = 0
    nodes_ready: int = 0
    nodes_simulated: int = 0
    node_names: list[str] = field(default_factory=list)
    real_nodes: list[str] = field(default_factory=list)
    gpus: int = 0
    gpu_products: dict[str, int] = field(default_factory=dict)
    cpus: float = 0.0
    memory_gib: float = 0.0
    operators: dict[str, str] | None = None  # None: no OLM, or they may not be listed
    kind: str | None = None
    rehearsal: bool = False

    def record(self) -> dict[str, Any]:
        """Return the fields for cluster.yml. A cluster with simulated nodes is simulated, whatever its provider."""
        kept = ("api_host", "version", "openshift", "nodes", "cpus", "memory_gib", "gpus", "gpu_products", "kind")
        values = {name: getattr(self, name) for name in kept}
        values["node_names"] = self.node_names[:NODE_NAMES]
        if self.operators is not None:
            values["operators"] = self.operators
        if self.nodes_simulated or self.rehearsal:
            values |= {"simulated": True, "simulated_writers": ["node"]}
            if self.real_nodes:
                values["real_nodes"] = self.real_nodes
        return values


def read_cluster_identity(client: Client, run: str = "") -> ClusterIdentity:
    """Read the version, the nodes and, on OpenShift, its version and platform. Raises AccessError, ApiError.

    run: do not count nodes with the label of another run; empty counts all nodes.
    """
    access = client.access
    answer = client.request("GET", "/version")
    with expect_documented_form(f"GET /version at {access.server}", answer):
        identity = ClusterIdentity(api_host_without_usual_port(access), str(answer["gitVersion"]))
    nodes = list_nodes_without_other_runs(client, run)
    totals = allocatable_totals_of_nodes(nodes)
    identity.nodes, identity.cpus, identity.memory_gib = totals["count"], totals["cpus"], totals["memory_gib"]
    identity.gpus, identity.gpu_products = totals["gpus"], totals["gpu_products"]
    identity.node_names = sorted(node["metadata"]["name"] for node in nodes)
    identity.nodes_ready = sum(is_condition_true(node, "Ready") for node in nodes)
    identity.nodes_simulated = sum(_is_simulated(node) for node in nodes)
    identity.real_nodes = sorted(node["metadata"]["name"] for node in nodes if not _is_simulated(node))
    operators = operator_versions(client)
    identity.operators = operators.versions if operators is not None else None
    identity.openshift = _read_optional_value(
        client, "/apis/config.openshift.io/v1/clusterversions/version", "status", "desired", "version"
    )
    platform = None
    if identity.openshift:
        platform = _read_optional_value(
            client, "/apis/config.openshift.io/v1/infrastructures/cluster", "status", "platform"
        )
    identity.rehearsal = _read_optional_value(client, REHEARSAL, "data", "simulated") is not None
    identity.kind = "light" if identity.rehearsal else cluster_kind_from_nodes(nodes, platform)
    return identity


def api_host_without_usual_port(access: ApiServerAccess) -> str:
    """Return the API server's host, with its port unless that is 443 or 6443."""
    host = f"[{access.host}]" if ":" in access.host else access.host
    return host if access.port in (443, 6443) else f"{host}:{access.port}"


def list_nodes_without_other_runs(client: Client, run: str = "") -> list[dict[str, Any]]:
    """Return the nodes, without those with the label of another run than ``run``, if given. Raises ApiError."""
    try:
        nodes = client.list(client.kind("v1", "Node"))[0]
    except ApiError as error:
        if error.status == 403:
            raise ApiError(
                f"{client.access.source} may not list nodes, which is required to count GPUs: {error}",
                403,
                error.reason,
            ) from error
        raise
    return [node for node in nodes if not run or get_label(node, run_labels.RUN) in ("", run)]


def allocatable_totals_of_nodes(nodes: Collection[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the number of nodes, and their allocatable CPUs, memory and GPUs in total, as in schema ran/1.

    The memory of each node is rounded to whole GiB: equal machines differ by some MiB.
    """
    products = gpu_products(nodes)
    return {
        "count": len(nodes),
        "cpus": round(sum(_allocatable_quantity(node, "cpu") for node in nodes), 3),
        "memory_gib": sum(round(_allocatable_quantity(node, "memory") / 2**30) for node in nodes),
        "gpus": sum(products.values()),
        "gpu_products": products,
    }


def _allocatable_quantity(node: Mapping[str, Any], resource: str) -> float:
    quantity = parse_kube_quantity(field_at_path(node, f'status.allocatable["{resource}"]', "0"))
    return 0.0 if isnan(quantity) else quantity


def _read_optional_value(client: Client, path: str, *keys: str) -> str | None:
    """Return a value of an object; None if the object does not exist or may not be read."""
    try:
        value: Any = client.request("GET", path)
    except ApiError as error:
        if error.status in (403, 404):
            return None
        raise
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) and value else None


def existence_of_kinds(client: Client, names: Iterable[str]) -> dict[str, bool]:
    """Return for each ``<apiVersion>/<Kind>`` whether the server has it. Raises InputError for an invalid name."""
    served: dict[str, bool] = {}
    for name in names:
        version, _slash, kind = name.rpartition("/")
        if not version or not kind:
            raise InputError(f"kinds: '{name}' is not an <apiVersion>/<Kind>, such as batch/v1/Job")
        try:
            client.kind(version, kind)
            served[name] = True
        except InputError:
            served[name] = False
    return served


def read_namespace_runs(client: Client, names: Iterable[str]) -> dict[str, str | None]:
    """Return for each namespace the run in its label (empty without a label); None if it does not exist."""
    kind = client.kind("v1", "Namespace")
    runs: dict[str, str | None] = {}
    for name in names:
        item = client.get(kind, name, metadata_only=True)
        runs[name] = None if item is None else get_label(item, run_labels.RUN)
    return runs


def secrets_that_do_not_exist(client: Client, names: Iterable[str]) -> list[str]:
    """Return those of the Secrets ``<namespace>/<name>`` that do not exist. Their content is not read."""
    kind, places = client.kind("v1", "Secret"), [(name, *name.partition("/")[::2]) for name in names]
    return [secret for secret, where, name in places if client.get(kind, name, where, metadata_only=True) is None]


def _is_simulated(node: dict[str, Any]) -> bool:
    return SIMULATED_NODE in (node["metadata"].get("annotations") or {})


def gpu_products(nodes: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return product -> number of allocatable GPUs, the most frequent product first."""
    products: Counter[str] = Counter()
    for node in nodes:
        for resource, product in GPU_RESOURCES.items():
            count = _allocatable_quantity(node, resource)
            if count > 0:
                products[get_label(node, product) or resource] += int(count)
    return dict(products.most_common())


def cluster_kind_from_nodes(nodes: Iterable[dict[str, Any]], platform: str | None = None) -> str | None:
    """Return the kind of a cluster, one of KINDS, if its nodes determine it, else None.

    metal: all nodes of a known type are bare metal. light: all nodes are simulated, or run on this host (kind,
    minikube). virtual: all are virtual machines.
    """
    kinds = {_node_kind(node) for node in nodes} - {None}
    if platform == "BareMetal":
        kinds.add("metal")
    return kinds.pop() if len(kinds) == 1 else None


def _node_kind(node: dict[str, Any]) -> str | None:
    labels = node["metadata"].get("labels") or {}
    instance = labels.get("node.kubernetes.io/instance-type", "")
    provider = (node.get("spec") or {}).get("providerID") or ""
    if _is_simulated(node) or provider.startswith("kind://") or "minikube.k8s.io/name" in labels:
        return "light"
    if provider.startswith("baremetalhost://") or instance.endswith(".metal") or ".metal-" in instance:
        return "metal"
    return None if not instance and not provider else "virtual"


def wait_for_ready_cluster(
    client: Client,
    timeout: float,
    nodes_ready: int = 0,
    say: Callable[[str], None] = lambda text: None,
    run: str = "",
) -> ClusterIdentity:
    """Wait until the API server responds and ``nodes_ready`` nodes are Ready; return the identity as gather() does.

    ``timeout`` in seconds; 0 means one attempt. Permanent errors (an untrusted certificate, refused credentials, an
    invalid kubeconfig) are raised at once. Raises WaitTimeout naming what is missing.
    """
    deadline = time.monotonic() + timeout
    reported = 0.0
    while True:
        try:
            identity = read_cluster_identity(client, run)
        except (AccessError, ApiError) as error:
            if error.permanent or time.monotonic() >= deadline:
                raise
            missing = str(error)
        else:
            if identity.nodes_ready >= nodes_ready:
                return identity
            missing = f"{identity.nodes_ready} of {nodes_ready} nodes are Ready ({identity.nodes} known)"
            if time.monotonic() >= deadline:
                raise WaitTimeout(f"{client.access.server}: after {timeout:g} s {missing}")
        if time.monotonic() - reported >= _REPORT_INTERVAL:
            reported = time.monotonic()
            say(f"waiting for {client.access.server}: {missing}")
        time.sleep(_PAUSE)


def format_cluster_record(record: dict[str, Any], hosts: Iterable[str]) -> str:
    """Return a cluster's record as one line of text."""
    simulated = " (simulated)" if record.get("simulated") else ""
    real = len(record.get("real_nodes") or ())
    name = f" {record['name']}" if record.get("name") else ""
    parts = [f"{record['provider']} cluster{name} at {record.get('api_host', '?')}"]
    if record.get("openshift"):
        parts.append(f"OpenShift {record['openshift']}")
    parts.append(f"Kubernetes {record.get('version', '?')}")
    nodes = record.get("nodes", 0)
    which = (f" ({nodes - real} simulated)" if nodes > real else "") if real else simulated
    parts.append(f"{nodes} {'node' if nodes == 1 else 'nodes'}{which if nodes else ''}")
    products = record.get("gpu_products") or {}
    parts += [f"{count} x {product}{simulated}" for product, count in products.items()] or ["no GPUs"]
    if record.get("kind") and not simulated:
        parts.append(record["kind"])
    parts.append("owned by this run" if record.get("owned") else "not owned by this run")
    return f"{' and '.join(hosts)}: {', '.join(parts)}"
