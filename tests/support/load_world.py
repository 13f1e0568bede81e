"""A separate namespace on a real API server with loads in it, shared by the tests of the load engine."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import drive_workload
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds

SUSPENDED = """
apiVersion: batch/v1
kind: Job
metadata: {name: "{{ name }}"}
spec:
  suspend: true
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: none}]}
"""
CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ name }}"}
"""


class World:
    """A separate namespace, and calls that use it."""

    def __init__(self, client: Client, kubeconfig: str, namespace: str, folder: Path) -> None:
        self.client = client
        self.namespace = namespace
        self.folder = folder
        self.point_dir = folder / "points" / "001"
        self.run_id = namespace
        self.kubeconfig = kubeconfig
        self.options: dict[str, Any] = {
            "kubeconfig": kubeconfig,
            "run_id": self.run_id,
            "point_dir": str(self.point_dir),
            "namespace": namespace,
            "count": 20,
            "arrival": {"type": "closed"},
            "templates": [{"name": "job", "content": SUSPENDED}],
            "stages": [workload_kinds.load_kind_by_name_or_path(kind).definition for kind in ("job", "pod")],
            "wait": False,
            "settle": 0.2,
        }

    def start(self, what: str = "submit", **options: Any) -> Any:
        return drive_workload.start(what, {**self.options, **options}, self.folder)

    def submit(self, **options: Any) -> dict[str, Any]:
        return drive_workload.result(self.start("submit", **options))

    def names(self, api_version: str = "batch/v1", kind: str = "Job") -> list[str]:
        found, _version = self.client.list(
            self.client.kind(api_version, kind), self.namespace, f"perfscale.seatrial/run={self.run_id}"
        )
        return sorted(one["metadata"]["name"] for one in found)

    def through(self, port: int) -> str:
        """Return a kubeconfig that uses a proxy on this port."""
        document = yaml.safe_load(Path(self.kubeconfig).read_text(encoding="utf-8"))
        for one in document["clusters"]:
            one["cluster"]["server"] = f"https://127.0.0.1:{port}"
        path = self.folder / f"kubeconfig-{port}"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return str(path)

    def rows(self, name: str, *types: str) -> list[dict[str, Any]]:
        return [row for row in files.read_json_lines(self.point_dir / f"{name}.jsonl") if row["type"] in types]


def delete_all(client: Client, kind: ServedKind, namespace: str, patience: float = 300.0, **options: Any) -> None:
    """Delete all objects of a kind in parts: the API server ends a request that takes longer than a minute."""
    path = kind.path(namespace)
    deadline = time.monotonic() + patience
    while client.request("GET", path, query={"limit": 1})["items"]:
        client.request("DELETE", path, {"propagationPolicy": "Background", **options}, {"limit": 500})
        assert time.monotonic() < deadline, f"the {kind.resource} of {namespace} do not go away"
        time.sleep(0.2)


@contextmanager
def world_on(kubeconfig: str, folder: Path) -> Iterator[World]:
    """Make a namespace, remove it with all that is in it."""
    client = Client.from_kubeconfig(kubeconfig)
    namespace = f"wl-{random.SystemRandom().randrange(16**8):08x}"
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    yield World(client, kubeconfig, namespace, folder)
    delete_all(client, client.kind("batch/v1", "Job"), namespace)
    for version, kind in (("coordination.k8s.io/v1", "Lease"), ("v1", "ConfigMap")):
        path = client.kind(version, kind).path(namespace)
        client.request("DELETE", path, {"propagationPolicy": "Background"})
    client.delete(ServedKind("v1", "Namespace", "namespaces", False), namespace)
    client.close()


def without_rights(world: World, folder: Path) -> tuple[str, str]:
    """Return a kubeconfig of a new service account without any right, and its name as a user."""
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "nobody", "namespace": world.namespace},
    }
    world.client.create(account)
    path = f"/api/v1/namespaces/{world.namespace}/serviceaccounts/nobody/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = world.client.request("POST", path, request)["status"]["token"]
    document = yaml.safe_load(Path(world.kubeconfig).read_text(encoding="utf-8"))
    for one in document["users"]:
        one["user"] = {"token": token}
    kubeconfig = folder / "nobody"
    kubeconfig.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(kubeconfig), f"system:serviceaccount:{world.namespace}:nobody"


def final(rows: list[dict[str, Any]]) -> Counter[str]:
    """How often each name has a final row."""
    return Counter(row["name"] for row in rows if row["outcome"] in ("created", "already_mine", "refused"))


def group_is_gone(leader: int, within: float = 120.0) -> bool:
    """Whether no process of a group is left."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            os.killpg(leader, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def wait_until_created(world: World, number: int) -> None:
    """Wait until the ledger has this number of objects."""
    ledger = world.point_dir / "ledger.jsonl"
    deadline = time.monotonic() + 120
    while not (ledger.exists() and ledger.read_bytes().count(b'"created"') >= number):
        assert time.monotonic() < deadline, "nothing was created"
        time.sleep(0.02)
