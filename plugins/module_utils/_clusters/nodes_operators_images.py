# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ran on a cluster at the end of a test point: nodes, operators, and images by digest, in ran.json of the point.

Nothing on the cluster is changed. Figures of two runs are comparable only if these are equal, or differ on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import parse_kube_count
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import field_at_path, get_label
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.why_pod_waits_or_cannot_run import (
    node_allocatable_count,
)

from . import cluster_properties
from .cluster_properties import OperatorVersions, operator_versions

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass
class ClusterSnapshot:
    """Objects of a cluster at one moment. None: they may not be read, see ``notes``; pods: of each place.

    components: of a rehearsal cluster, in another version than their own.
    """

    nodes: list[dict[str, Any]] | None = None
    operators: OperatorVersions | None = None
    components: dict[str, str] = field(default_factory=dict)
    pods: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def parts(self) -> dict[str, Any]:
        """Return the parts ``nodes``, ``operators`` and ``images`` of schema ran/1, and ``notes`` on absent parts."""
        ran_parts: dict[str, Any] = {}
        if self.nodes is not None:
            ran_parts["nodes"] = cluster_properties.allocatable_totals_of_nodes(self.nodes)
        if self.operators is not None or self.components:
            by_olm = self.operators.versions if self.operators is not None else {}
            ran_parts["operators"] = {**by_olm, **self.components}
        if held := cumulative_gpu_use_by_node(self.nodes or (), self.pods.get("") or ()):
            ran_parts["gpus"] = held
        if self.pods:
            ran_parts["images"] = image_digests_by_tag(pod for pods in self.pods.values() for pod in pods)
        return {**ran_parts, **({"notes": self.notes} if self.notes else {})}


def read_cluster_snapshot(client: Client, run: str, namespaces: Iterable[str] = ()) -> ClusterSnapshot:
    """Read nodes, operators and pods: those of the run (under the key "") and of operators and ``namespaces``.

    What may not be read is absent. Raises AccessError if the server cannot be reached.
    """
    seen = ClusterSnapshot()
    seen.nodes = _read_unless_refused(
        "nodes", seen.notes, lambda: cluster_properties.list_nodes_without_other_runs(client, run)
    )
    seen.operators = _read_unless_refused("operators", seen.notes, lambda: operator_versions(client))
    seen.components = cluster_properties.changed_rehearsal_component_versions(client)
    elsewhere = {*namespaces, *(seen.operators.namespaces if seen.operators is not None else ())}
    kind = client.kind("v1", "Pod")
    selector = f"{run_labels.RUN}={run}"
    labelled = _read_unless_refused("pods of the run", seen.notes, partial(client.list, kind, label_selector=selector))
    if labelled is not None:
        seen.pods[""] = labelled[0]
    for namespace in sorted(elsewhere):
        listed = _read_unless_refused(
            f"pods of namespace {namespace}", seen.notes, partial(client.list, kind, namespace)
        )
        if listed is not None:
            seen.pods[namespace] = listed[0]
    return seen


def gather_cluster_facts(client: Client, run: str, namespaces: Iterable[str] = ()) -> dict[str, Any]:
    """Return what read_cluster_snapshot() finds as the parts of schema ran/1.

    Raises AccessError if the server cannot be reached.
    """
    return read_cluster_snapshot(client, run, namespaces).parts()


def _read_unless_refused(what: str, notes: list[str], read: Callable[[], Any]) -> Any:
    """Return what ``read`` returns; None, and a note, if the server refuses it."""
    try:
        return read()
    except ApiError as error:
        notes.append(f"{what}: {error}")
        return None


def cumulative_gpu_use_by_node(
    nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return node -> product and number of its GPUs, and how many pods have held how many of them, without other nodes.

    Pods that ended count too, so that a GPU that several held one after the other counts several times.
    """
    known = {str(node["metadata"]["name"]): node for node in nodes}
    gpus_by_node: dict[str, dict[str, Any]] = {}
    for pod in pods:
        node = known.get(str(field_at_path(pod, "spec.nodeName", "")))
        for resource, product in cluster_properties.GPU_RESOURCES.items():
            limits = (
                field_at_path(container, "resources.limits", {})
                for container in field_at_path(pod, "spec.containers", [])
            )
            held = sum(parse_kube_count(limit.get(resource, "0")) for limit in limits)
            if node is None or not held:
                continue
            row = gpus_by_node.setdefault(
                str(node["metadata"]["name"]),
                {
                    "product": get_label(node, product) or resource,
                    "allocatable": node_allocatable_count(node, resource),
                    "held": 0,
                    "pods": 0,
                },
            )
            row.update(held=row["held"] + held, pods=row["pods"] + 1)
    return dict(sorted(gpus_by_node.items()))


def image_digests_by_tag(pods: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return repository and tag -> digest of the containers whose digest is known; several digests are joined."""
    digests_by_name: dict[str, set[str]] = {}
    for pod in pods:
        asked = {container["name"]: container.get("image") for container in field_at_path(pod, "spec.containers", [])}
        for status in field_at_path(pod, "status.containerStatuses", []):
            digest = _DIGEST.search(str(status.get("imageID") or ""))
            name = asked.get(status.get("name")) or status.get("image")
            if digest and name:
                digests_by_name.setdefault(image_without_digest_or_credentials(str(name)), set()).add(digest[0])
    return {name: ", ".join(sorted(digests)) for name, digests in sorted(digests_by_name.items())}


def image_without_digest_or_credentials(reference: str) -> str:
    """Return repository and tag of an image reference, without digest and without credentials of the registry."""
    name = reference.partition("@sha256:")[0]
    host, slash, rest = name.partition("/")
    return f"{host.rpartition('@')[2]}{slash}{rest}"


FILE = "ran.json"


def point_folder(run_dir: str, point: str) -> Path:
    """Return the folder of a point. Raises InputError if the run has no such point."""
    folder = Path(run_dir) / "points" / point
    if not folder.is_dir():
        raise InputError(f"{Path(run_dir).name} has no point {point}")
    return folder


def write_ran_json(folder: Path, run: str, ran_parts: dict[str, Any]) -> tuple[bool, str]:
    """Write ran.json with the parts ``ran_parts``; return whether it changed, and a sentence. Equal content stays."""
    point, path = folder.name, folder / FILE
    record = {"schema": "ran/1", "run": run, "point": point, "at": format_utc_timestamp(), **ran_parts}
    changed = _without_time(record) != _without_time(_read_earlier_record(path))
    if changed:
        files.write_json(path, record, "ran/1")
    parts = [
        formats.format_count(ran_parts["nodes"]["count"], "node") if "nodes" in ran_parts else "",
        formats.format_count(len(ran_parts["operators"]), "operator") if "operators" in ran_parts else "",
        formats.format_count(len(ran_parts["images"]), "image") if "images" in ran_parts else "",
    ]
    return changed, f"point {point} ran with {', '.join(filter(None, parts)) or 'unknown parts'}"


def _read_earlier_record(path: Path) -> dict[str, Any]:
    try:
        record = files.read_json(path)
    except DataError:
        return {}
    return record if isinstance(record, dict) else {}


def _without_time(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "at"}
