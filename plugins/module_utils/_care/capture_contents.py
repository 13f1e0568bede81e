# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a capture keeps: the cluster's state as one record, and workloads that failed, did not end, or are typical.

Every text is written without secrets, all together within a number of bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import parse_kube_quantity
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_gate import SecretScanner
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_names import (
    MASK,
    is_secret_entry,
    mask_assignments,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import cluster_properties
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    conditions_by_type,
    field_at_path,
    format_object_title,
    is_condition_true,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds import stage_definitions
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds.stage_definitions import KindStages

#: Objects kept of each outcome.
MOST = 20
FAILED, UNFINISHED, SUCCEEDED = "failed", "unfinished", "succeeded"


def kinds_of_point(folder: Path) -> list[KindStages]:
    """Return the kinds of a point's workloads with their stages; empty if its load has not begun.

    Raises DataError, InputError for a damaged file.
    """
    plan, observations = folder / "plan.jsonl", folder / "observations.jsonl"
    if not plan.exists() or not observations.exists():
        return []
    headers = list(islice(files.read_json_lines(plan), 1))
    names = {template["kind"] for header in headers for template in header.get("templates") or ()}
    lines = islice(files.read_json_lines(observations), 10)
    definitions: dict[str, dict[str, Any]] = next((line["kinds"] for line in lines if line.get("type") == "stages"), {})
    kinds = stage_definitions.compile_stages_of_kinds(list(definitions.values()))
    return [kind for kind in kinds if kind.kind in names]


def workload_outcome(workload: dict[str, Any], kind: KindStages) -> str:
    """Return how a workload ended, by the stages of its kind that end one."""
    values = kind.values(workload, conditions_by_type(workload))
    ended = {end for number, end in kind.ends.items() if values[number]}
    return FAILED if FAILED in ended else SUCCEEDED if SUCCEEDED in ended else UNFINISHED


class ChosenWorkloads:
    """Keeps what matters of any number of objects: at most MOST of each bad outcome, and two of the good one."""

    def __init__(self, kind: KindStages) -> None:
        self.kind = kind
        self.counts: dict[str, int] = {}
        self._bad: dict[str, list[Mapping[str, Any]]] = {FAILED: [], UNFINISHED: []}
        self._ends: list[Mapping[str, Any]] = []

    def add(self, objects: Iterable[dict[str, Any]]) -> None:
        """Look at further objects."""
        for workload in objects:
            how = workload_outcome(workload, self.kind)
            self.counts[how] = self.counts.get(how, 0) + 1
            if how != SUCCEEDED:
                if len(self._bad[how]) < MOST:
                    self._bad[how].append(workload)
            else:
                ordered = sorted([*self._ends, workload], key=_creation_sort_key)
                self._ends = [ordered[0], ordered[-1]] if len(ordered) > 1 else ordered

    @property
    def kept(self) -> list[Mapping[str, Any]]:
        """The objects that are kept, the failed ones first."""
        return [*self._bad[FAILED], *self._bad[UNFINISHED], *self._ends]


def _creation_sort_key(workload: Mapping[str, Any]) -> tuple[str, str]:
    meta = workload["metadata"]
    return str(meta.get("creationTimestamp") or ""), str(meta["name"])


#: Kinds of the software under test: API group, kind. The version is that of the server.
STACK = (
    ("config.openshift.io", "ClusterVersion"),
    ("config.openshift.io", "ClusterOperator"),
    ("datasciencecluster.opendatahub.io", "DataScienceCluster"),
    ("dscinitialization.opendatahub.io", "DSCInitialization"),
    ("nvidia.com", "ClusterPolicy"),
    ("nfd.openshift.io", "NodeFeatureDiscovery"),
    ("operators.coreos.com", "ClusterServiceVersion"),
    ("operators.coreos.com", "Subscription"),
)
#: Phases and states of objects that are ready.
_READY = frozenset(("ready", "succeeded", "atlatestknown", "complete"))
#: Conditions that say whether an object is ready, the most telling first.
_CONDITIONS = ("Ready", "Available")


def summarize_nodes(node_objects: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return each node: whether it is ready, its other true conditions, what can be allocated, its GPUs."""
    return {
        node["metadata"]["name"]: _summarize_node(node)
        for node in sorted(node_objects, key=lambda item: item["metadata"]["name"])
    }


def _summarize_node(node: Mapping[str, Any]) -> dict[str, Any]:
    allocatable = {name: str(value) for name, value in field_at_path(node, "status.allocatable", {}).items()}
    gpus = sum(parse_kube_quantity(allocatable.get(name, "0")) for name in cluster_properties.GPU_RESOURCES)
    return {
        "ready": is_condition_true(node, "Ready"),
        "schedulable": not field_at_path(node, "spec.unschedulable", False),
        "conditions": sorted(
            name
            for name, condition in conditions_by_type(node).items()
            if name != "Ready" and condition.get("status") == "True"
        ),
        "kubelet": str(field_at_path(node, "status.nodeInfo.kubeletVersion", "")),
        "system": str(field_at_path(node, "status.nodeInfo.osImage", "")),
        "runtime": str(field_at_path(node, "status.nodeInfo.containerRuntimeVersion", "")),
        "gpus": int(gpus) if gpus > 0 else 0,
        "allocatable": allocatable,
    }


def pod_restart_counts(pod_objects: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the restarts of each pod that has restarted, as namespace/name -> number."""
    restarts = {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": _count_pod_restarts(pod) for pod in pod_objects
    }
    return {name: number for name, number in sorted(restarts.items()) if number}


def _count_pod_restarts(pod: Mapping[str, Any]) -> int:
    return sum(
        int(status.get("restartCount") or 0)
        for place in ("containerStatuses", "initContainerStatuses")
        for status in field_at_path(pod, f"status.{place}", [])
    )


def summarize_tested_components(components: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the objects of the software under test by title: their state in one word, and whether they are ready."""
    return {
        format_object_title(component): {
            "ready": is_not_reported_unready(component),
            "state": _component_state(component),
            "version": _component_version(component),
        }
        for component in components
    }


def is_not_reported_unready(component: Mapping[str, Any]) -> bool:
    """Return whether an object says that it is ready. One that says nothing is ready."""
    said = conditions_by_type(component)
    if component.get("kind") == "ClusterOperator":
        return is_condition_true(component, "Available") and not is_condition_true(component, "Degraded")
    word = field_at_path(component, "status.phase") or field_at_path(component, "status.state")
    if isinstance(word, str):
        return word.lower() in _READY
    return next((said[name].get("status") == "True" for name in _CONDITIONS if name in said), True)


def _component_state(component: Mapping[str, Any]) -> str:
    word = field_at_path(component, "status.phase") or field_at_path(component, "status.state")
    if isinstance(word, str):
        return word
    return ", ".join(
        sorted(name for name, condition in conditions_by_type(component).items() if condition.get("status") == "True")
    )


def _component_version(component: Mapping[str, Any]) -> str:
    version = (
        field_at_path(component, "status.desired.version")
        or field_at_path(component, "spec.version")
        or field_at_path(component, "status.installedCSV")
    )
    return version if isinstance(version, str) else ""


#: Holds the whole object again, as text.
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class CaptureFiles:
    """Writes the files of one capture; ``written`` describes them as schema capture/1 does."""

    def __init__(self, folder: Path, gate: SecretScanner, limit: int) -> None:
        """limit: bytes of all files together."""
        self.folder = folder
        self.left = limit
        self.written: list[dict[str, Any]] = []
        self._gate = gate

    def objects(self, name: str, objects: Iterable[Mapping[str, Any]], of: int | None = None) -> None:
        """Write objects, one JSON document a line. No Secrets. of: how many there are on the cluster."""
        lines: list[str] = []
        size = count = 0
        for item in objects:
            count += 1
            if item.get("kind") == "Secret":
                continue
            line = self._gate.masked(files.encode(mask_object_secrets(item))) + "\n"
            if size + len(line.encode()) <= self.left:
                lines.append(line)
                size += len(line.encode())
        total = max(count, of or 0)
        if total:
            self._write(name, "".join(lines), {"objects": len(lines), "of": total})

    def document(self, name: str, value: Mapping[str, Any], schema: str) -> None:
        """Write a JSON document as a whole, whatever the limit is."""
        files.validate_schema_if_enabled(schema, value)
        self._write(name, self._gate.masked(files.encode(value)) + "\n", {})

    def text(self, name: str, text: str) -> None:
        """Write a text: its end, if it is too long."""
        masked = self._gate.masked(mask_assignments(text)).encode()
        kept = masked[-self.left :] if self.left else b""
        self._write(name, kept.decode("utf-8", "ignore"), {"cut": len(kept) < len(masked)})

    def _write(self, name: str, text: str, facts: dict[str, Any]) -> None:
        path = files.path_in_folder(self.folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        path.write_bytes(data)
        self.left = max(0, self.left - len(data))
        self.written.append({"file": name, "bytes": len(data), **facts})


def mask_object_secrets(value: Any) -> Any:
    """Return an object without managed fields, and with masked values of what names a secret.

    These are environment variables, entries of dictionaries, and ``token=…`` in texts such as the message of an event.
    """
    if isinstance(value, list):
        return [mask_object_secrets(entry) for entry in value]
    if isinstance(value, str):
        return mask_assignments(value)
    if not isinstance(value, Mapping):
        return value
    result = {key: mask_object_secrets(entry) for key, entry in value.items() if key not in ("managedFields", _APPLIED)}
    if is_secret_entry(result.get("name") or "", result.get("value"), anywhere=True):
        result["value"] = MASK
    return {key: MASK if is_secret_entry(key, entry) else entry for key, entry in result.items()}
