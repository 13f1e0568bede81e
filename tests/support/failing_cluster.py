# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster with nodes and pods that failures hit, as its API server shows it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import apply_json_merge_patch
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures import (
    failure_ledger,
    failure_schedule,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures.failure_injector import FailureInjector
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures.failure_schedule import (
    PlannedFailure,
    schedule_failures,
)
from scripted_server import Asked, ScriptedServer, status_object

#: Labels of the pods of the load that the failures hit.
LABELS = {run_labels.RUN: "failing", run_labels.POINT: "001", run_labels.INDEX: "0"}
RESOURCES = {
    "/api/v1": [("Node", "nodes", False), ("Pod", "pods", True)],
    "/apis/coordination.k8s.io/v1": [("Lease", "leases", True)],
}


def node(name: str, gpus: int = 8, ready: str = "True", **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "resourceVersion": "7",
            "labels": {"perfscale.seatrial/simulated": "true"},
            "annotations": annotations,
        },
        "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "allocatable": {"nvidia.com/gpu": str(gpus)},
            "capacity": {"nvidia.com/gpu": str(gpus)},
        },
    }


def pod(name: str, on: str, policy: str = "Never") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "annotations": {}, "labels": LABELS},
        "spec": {"nodeName": on, "restartPolicy": policy},
        "status": {"phase": "Running"},
    }


def merged_conditions(item: dict[str, Any], change: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the conditions of an object after a strategic merge patch: one for each type."""
    conditions = {condition["type"]: condition for condition in item["status"].get("conditions", ())}
    for condition in change["status"].get("conditions", ()):
        conditions[condition["type"]] = condition
        if condition.get("$patch") == "delete":
            del conditions[condition["type"]]
    return list(conditions.values())


class NodeServer:
    """Nodes, pods and leases in memory. refuse: returns the status of a request that fails, 0 for one that does not."""

    def __init__(self, server: ScriptedServer, folder: Path) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.refuse: Callable[[Asked], int] = lambda asked: 0
        self.before_answer: Callable[[Asked], None] = lambda asked: None
        self.changes: list[str] = []
        self.http = server
        server.answer = self.answer
        self.kubeconfig = server.kubeconfig(folder / "kubeconfig")
        self.client = Client.from_kubeconfig(self.kubeconfig)

    def add(self, *nodes: dict[str, Any], pods: tuple[dict[str, Any], ...] = ()) -> None:
        self.objects |= {f"/api/v1/nodes/{item['metadata']['name']}": item for item in nodes}
        self.objects |= {f"/api/v1/namespaces/ns/pods/{item['metadata']['name']}": item for item in pods}

    def node(self, name: str) -> dict[str, Any]:
        return self.objects[f"/api/v1/nodes/{name}"]

    def answer(self, asked: Asked) -> Any:
        url = urlsplit(asked.path)
        path, query = url.path, parse_qs(url.query)
        self.before_answer(asked)
        if status := self.refuse(asked):
            return status, status_object(status, "Refused", f"{asked.method} is refused")
        if path in RESOURCES:
            found = [
                {"kind": kind, "name": name, "namespaced": inside, "verbs": ["get"]}
                for kind, name, inside in RESOURCES[path]
            ]
            return 200, {"resources": found}
        if "watch" in query:
            return 500, status_object(500, "Broken", "no watch here")
        if asked.method == "GET" and (name := path.rsplit("/", 1)[1]) in ("nodes", "pods", "leases"):
            items = [value for place, value in self.objects.items() if place.split("/")[-2] == name]
            return 200, {"metadata": {"resourceVersion": "9"}, "items": json.loads(json.dumps(items))}
        if asked.method == "POST":
            self.changes.append(f"{asked.method} {path}")
            self.objects.pop(path.removesuffix("/eviction"))
            return 201, {}
        place = path.removesuffix("/status")
        if place not in self.objects:
            return 404, status_object(404, "NotFound", "there is none")
        if asked.method == "PATCH":
            self.changes.append(f"{asked.method} {path}")
            change = json.loads(asked.body)
            if "strategic" in {name.lower(): value for name, value in asked.headers.items()}["content-type"]:
                change["status"]["conditions"] = merged_conditions(self.objects[place], change)
            self.objects[place] = apply_json_merge_patch(self.objects[place], change)
        return 200, self.objects[place]


def plan(kind: str = "node_drained", **options: Any) -> list[PlannedFailure]:
    defaults = {name: option.get("default") for name, option in failure_schedule.OPTIONS.items()}
    return schedule_failures([{**defaults, "kind": kind, "at": [0.0], **options}], 1)


def point(folder: Path) -> Path:
    path = folder / "points" / "001"
    path.mkdir(parents=True, exist_ok=True)
    return path


def injector(cluster: NodeServer, folder: Path, planned: list[PlannedFailure], said: Any = None) -> FailureInjector:
    say = said.append if said is not None else lambda text: None
    clock = MonotonicWallClock.start()
    return FailureInjector(cluster.client.access, clock, point(folder), "failing", "001", 1, planned, {"ns"}, say)


def rows(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [row for row in files.read_json_lines(point(folder) / failure_ledger.FILE) if row["type"] == kind]


def wait_for_row(folder: Path, kind: str, number: int = 1) -> None:
    deadline = time.monotonic() + 30
    while len(rows(folder, kind)) < number:
        assert time.monotonic() < deadline, f"no row {kind}"
        time.sleep(0.02)


def inject_all(cluster: NodeServer, folder: Path, planned: list[PlannedFailure], number: int) -> FailureInjector:
    found = injector(cluster, folder, planned)
    found.open()
    found.begin(time.monotonic())
    wait_for_row(folder, "injected", number)
    return found
