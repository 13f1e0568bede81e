"""An API server in memory for faults between two requests: objects with uids, and a hook before each request."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from scripted_server import Asked, ScriptedServer, status_object

RBAC = "rbac.authorization.k8s.io/v1"
#: API version -> kind -> whether it is namespaced.
KINDS: dict[str, dict[str, bool]] = {
    "v1": dict.fromkeys(("Namespace", "Node", "PersistentVolume"), False)
    | dict.fromkeys(("ConfigMap", "PersistentVolumeClaim", "Pod", "Secret", "ServiceAccount"), True),
    "apps/v1": {"DaemonSet": True, "Deployment": True},
    "batch/v1": {"Job": True},
    "apiextensions.k8s.io/v1": {"CustomResourceDefinition": False},
    "example.com/v1": {"Thing": True},
    "machine.openshift.io/v1beta1": {"MachineSet": True, "Machine": True},
    "operators.coreos.com/v1alpha1": {"Subscription": True, "ClusterServiceVersion": True},
    RBAC: {"ClusterRole": False, "ClusterRoleBinding": False},
}
_VERBS = ["list", "delete"]


class ObjectStore:
    """Objects by their paths.

    before: is called with method and path of each request; what it returns is the answer, None for that of the store.
    drops: labels with this beginning are not stored, as after a webhook. deleted: paths of accepted deletions.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.before: Callable[[str, str], Any] = lambda _method, _path: None
        self.drops = ""
        self.deleted: list[str] = []
        self._uids = itertools.count(1)

    def put(self, api_version: str, kind: str, name: str, namespace: str = "", **fields: Any) -> dict[str, Any]:
        """Store an object with a new uid, in place of one of its name. fields: of its metadata."""
        metadata = {"name": name, "uid": f"u{next(self._uids)}", "resourceVersion": "1", **fields}
        if namespace:
            metadata["namespace"] = namespace
        stored = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
        self.objects[f"{_collection(api_version, kind, namespace)}/{name}"] = stored
        return stored

    def put_manifest(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Store an object as POST does."""
        meta = manifest["metadata"]
        labels = {name: value for name, value in (meta.get("labels") or {}).items() if not self._is_dropped(name)}
        stored = self.put(
            manifest["apiVersion"], manifest["kind"], meta["name"], meta.get("namespace", ""), labels=labels
        )
        stored.update({key: value for key, value in manifest.items() if key != "metadata"})
        return stored

    def titles(self) -> list[str]:
        """Return kind and name of all objects, sorted."""
        return sorted(f"{stored['kind']} {stored['metadata']['name']}" for stored in self.objects.values())

    def named(self, kind: str, name: str) -> dict[str, Any]:
        """Return the object of this kind and name."""
        return next(
            stored for stored in self.objects.values() if (stored["kind"], stored["metadata"]["name"]) == (kind, name)
        )

    @contextmanager
    def client(self, tmp_path: Path) -> Iterator[Client]:
        """Return a client of a server with these objects."""
        with (
            ScriptedServer(self.answer) as server,
            Client.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig")) as client,
        ):
            yield client

    def answer(self, asked: Asked) -> Any:
        """Answer one request."""
        path = asked.path.partition("?")[0]
        answered = self.before(asked.method, path) or self._discovery(path)
        if answered is not None:
            return answered
        body = json.loads(asked.body) if asked.body else {}
        if asked.method == "POST":
            place = f"{path}/{body['metadata']['name']}"
            if place in self.objects:
                return 409, status_object(409, "AlreadyExists", place)
            return 201, self._posted(body, path)
        if path in self.objects:
            return self._one(asked.method, path, body)
        if path.rpartition("/")[2] in [f"{kind.lower()}s" for kinds in KINDS.values() for kind in kinds]:
            found = [stored for stored in self.objects.values() if path in _collections_of(stored)]
            return 200, {"items": found, "metadata": {"resourceVersion": "1"}}
        return 404, status_object(404, "NotFound", path)

    def _posted(self, body: dict[str, Any], path: str) -> dict[str, Any]:
        if "/namespaces/" in path:
            body["metadata"]["namespace"] = path.split("/namespaces/")[1].split("/")[0]
        return self.put_manifest(body)

    def _one(self, method: str, path: str, body: dict[str, Any]) -> Any:
        stored = self.objects[path]
        wanted = body.get("preconditions") if method == "DELETE" else body.get("metadata")
        for field in ("uid", "resourceVersion"):
            if (wanted or {}).get(field) not in (None, stored["metadata"][field]):
                return 409, status_object(409, "Conflict", f"the {field} in the precondition is {wanted[field]}")
        if method == "PATCH":
            labels = {**(stored["metadata"].get("labels") or {}), **body["metadata"].get("labels", {})}
            kept = {name: value for name, value in labels.items() if value is not None and not self._is_dropped(name)}
            stored["metadata"]["labels"] = kept
        elif method == "DELETE":
            self.deleted.append(path)
            if stored["metadata"].get("finalizers"):
                stored["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
            else:
                del self.objects[path]
        return 200, stored

    def _is_dropped(self, name: str) -> bool:
        return bool(self.drops) and name.startswith(self.drops)

    @staticmethod
    def _discovery(path: str) -> Any:
        version = path.removeprefix("/apis/").removeprefix("/api/")
        if path == "/api":
            return 200, {"versions": ["v1"]}
        if path == "/apis":
            return 200, {"groups": [{"preferredVersion": {"groupVersion": name}} for name in KINDS if "/" in name]}
        if version in KINDS:
            rows = [
                {"kind": kind, "name": f"{kind.lower()}s", "namespaced": namespaced, "verbs": _VERBS}
                for kind, namespaced in KINDS[version].items()
            ]
            return 200, {"resources": rows}
        return None


def _collection(api_version: str, kind: str, namespace: str) -> str:
    place = f"/namespaces/{namespace}" if namespace else ""
    return f"/{'apis' if '/' in api_version else 'api'}/{api_version}{place}/{kind.lower()}s"


def _collections_of(stored: dict[str, Any]) -> list[str]:
    namespace = stored["metadata"].get("namespace", "")
    return [_collection(stored["apiVersion"], stored["kind"], space) for space in ("", namespace)]
