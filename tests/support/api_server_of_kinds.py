# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server with kinds and their definitions, whose API discovery may lack some of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from scripted_server import Asked, ScriptedServer, reply, status_object

VERBS = frozenset({"delete", "get", "list"})
CONFIG_MAP = ServedKind("v1", "ConfigMap", "configmaps", True, VERBS)
NAMESPACE = ServedKind("v1", "Namespace", "namespaces", False, VERBS)
DEFINITION = ServedKind(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", False, VERBS
)
TRAIN_JOB = ServedKind("trainer.example.com/v1", "TrainJob", "trainjobs", True, VERBS)
METRICS = ServedKind("metrics.k8s.io/v1beta1", "PodMetrics", "pods", True, VERBS)

#: What an API server answers for a version that it does not serve, and a proxy for anything.
NOT_FOUND = reply(404, b"404 page not found\n")


class KindsServer:
    """Has these kinds, and objects by their paths. Requests that ``reply_to`` answers are answered so.

    lost: versions that the discovery lacks. stale: versions whose aggregated API server does not answer. legacy:
    without aggregated discovery.
    """

    def __init__(self, *kinds: ServedKind, legacy: bool = False) -> None:
        self.kinds = [NAMESPACE, CONFIG_MAP, DEFINITION, *kinds]
        self.legacy = legacy
        self.lost: set[str] = set()
        self.stale: set[str] = set()
        self.objects: dict[str, dict[str, Any]] = {}
        self.reply_to: Callable[[str, str], Any] = lambda method, path: None
        self.asked: list[str] = []

    def add(self, kind: ServedKind, name: str, namespace: str = "", **metadata: Any) -> None:
        """Add an object with this metadata; a definition is established."""
        place = {"namespace": namespace} if namespace else {}
        conditions = [{"type": "Established", "status": "True"}]
        self.objects[kind.path(namespace, name)] = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "uid": f"{kind.kind}-{name}", **place, **metadata},
            "status": {"conditions": conditions} if kind == DEFINITION else {},
        }

    @contextmanager
    def client(self, folder: Path) -> Iterator[Client]:
        """Start the server and yield a client of it."""
        with (
            ScriptedServer(self.answer) as server,
            Client.from_kubeconfig(server.kubeconfig(folder / "kubeconfig"), timeout=5) as client,
        ):
            yield client

    def answer(self, asked: Asked) -> Any:
        path = asked.path.partition("?")[0]
        self.asked.append(f"{asked.method} {path}")
        if (said := self.reply_to(asked.method, path)) is not None:
            return said
        if path in ("/api", "/apis"):
            return 200, self._groups(path == "/api")
        if path in self.objects:
            return 200, self._one(asked, path)
        served = [kind for kind in self.kinds if kind.api_version not in self.lost]
        if resources := [self._resource(kind) for kind in served if path == kind.path().rpartition("/")[0]]:
            return 200, {"resources": resources}
        here = [kind for kind in served if path.startswith(f"{kind.path().rpartition('/')[0]}/")]
        for kind in here:
            if path.endswith(f"/{kind.resource}"):
                place = path.split("/namespaces/")[1].split("/")[0] if "/namespaces/" in path else ""
                return 200, {"metadata": {"resourceVersion": "1"}, "items": self._items(kind, place)}
        return (404, status_object(404, "NotFound", "there is none")) if here else NOT_FOUND

    def _versions(self) -> list[str]:
        return list(dict.fromkeys(kind.api_version for kind in self.kinds if kind.api_version not in self.lost))

    def _items(self, kind: ServedKind, namespace: str) -> list[dict[str, Any]]:
        items = [item for item in self.objects.values() if item["kind"] == kind.kind]
        return [item for item in items if namespace in ("", item["metadata"].get("namespace"))]

    def _one(self, asked: Asked, path: str) -> dict[str, Any]:
        if asked.method == "DELETE":
            return self.objects.pop(path)
        if asked.method == "PATCH":
            labels = json.loads(asked.body)["metadata"]["labels"]
            merged = {**self.objects[path]["metadata"].get("labels", {}), **labels}
            self.objects[path]["metadata"]["labels"] = {key: value for key, value in merged.items() if value}
        return self.objects[path]

    def _groups(self, core: bool) -> dict[str, Any]:
        versions = [version for version in self._versions() if ("/" not in version) == core]
        if self.legacy and core:
            return {"kind": "APIVersions", "versions": versions}
        by_group: dict[str, list[str]] = {}
        for version in versions:
            by_group.setdefault(version.rpartition("/")[0], []).append(version)
        if self.legacy:
            groups = [
                {"name": name, "preferredVersion": {"groupVersion": names[0]}}
                | {"versions": [{"groupVersion": version} for version in names]}
                for name, names in by_group.items()
            ]
            return {"kind": "APIGroupList", "groups": groups, "versions": versions if core else None}
        items = [
            {"metadata": {"name": name}, "versions": [self._aggregated(version) for version in names]}
            for name, names in by_group.items()
        ]
        # A plain document is what a request without the header for aggregated discovery gets.
        plain = [{"versions": [{"groupVersion": version} for version in names]} for names in by_group.values()]
        return {
            "kind": "APIGroupDiscoveryList",
            "items": items,
            "groups": plain,
            "versions": versions if core else None,
        }

    def _aggregated(self, version: str) -> dict[str, Any]:
        name = version.rpartition("/")[2]
        if version in self.stale:
            return {"version": name, "freshness": "Stale"}
        resources = [
            {
                "resource": kind.resource,
                "responseKind": {"kind": kind.kind},
                "scope": "Namespaced" if kind.namespaced else "Cluster",
                "verbs": sorted(kind.verbs),
            }
            for kind in self.kinds
            if kind.api_version == version
        ]
        return {"version": name, "freshness": "Current", "resources": resources}

    @staticmethod
    def _resource(kind: ServedKind) -> dict[str, Any]:
        verbs = sorted(kind.verbs)
        return {"name": kind.resource, "kind": kind.kind, "namespaced": kind.namespaced, "verbs": verbs}
