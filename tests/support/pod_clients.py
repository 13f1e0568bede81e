"""Clients of a load in pods of a real node, controlled by ansible-playbook, and the ways to kill what takes part."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from load_play import LoadPlay
from load_world import World

REAL = "perfscale.seatrial/real"
INDEX = "batch.kubernetes.io/job-completion-index"
#: Kinds of all objects of a load in pods.
KINDS = (("batch/v1", "Job"), ("v1", "Pod"), ("v1", "Secret"), ("v1", "ConfigMap"), ("v1", "ServiceAccount"),
         ("rbac.authorization.k8s.io/v1", "Role"), ("rbac.authorization.k8s.io/v1", "RoleBinding"),
         ("rbac.authorization.k8s.io/v1", "ClusterRole"), ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
         ("coordination.k8s.io/v1", "Lease"))  # fmt: skip
#: How the pods of a project's load reach the real node of a rehearsal cluster.
ON_REAL_NODE: dict[str, Any] = {
    "workload_driver_image": "localhost/seatrial/python:1",
    "workload_driver_security_context": {"runAsUser": 65534, "runAsGroup": 65534},
    "workload_driver_requests": {"cpu": "50m", "memory": "64Mi"},
    "workload_driver_node_selector": {REAL: "true"},
    "workload_driver_tolerations": [{"key": REAL, "operator": "Exists"}],
}


class PodClients(LoadPlay):
    """A load of several clients. The values of ``more`` are settings of role workload."""

    def __init__(self, world: World, folder: Path, clients: int, count: int, **more: Any) -> None:
        self.clients, self.count = clients, count
        self.selector = f"perfscale.seatrial/run={world.run_id}"
        settings = {
            "workload_run_on": "driver_pod",
            "workload_clients": clients,
            "workload_driver_kubeconfig": world.kubeconfig,
            "workload_driver_context": "",
            "workload_driver_simulated": False,
            **ON_REAL_NODE,
            "workload_count": count,
            "workload_seed": 7,
            "workload_stages": ["Job"],
            "workload_canary_rate": 2,
            **more,
        }
        super().__init__(world, folder, {}, settings)
        self.controller = self.begin()

    @property
    def ended(self) -> bool:
        """Whether the controller has ended."""
        return self.controller.poll() is not None

    def wanted(self, client: int = 0, clients: int = 1) -> list[str]:
        """Return the names of the workloads of a client, of all by default."""
        return sorted(f"{self.world.run_id}-001-{index}" for index in range(client, self.count, clients))

    def pods(self) -> list[dict[str, Any]]:
        """Return the running pods."""
        found = self.world.client.list(self.world.client.kind("v1", "Pod"), "", self.selector)[0]
        ours = [one for one in found if INDEX in one["metadata"]["labels"]]
        return [one for one in ours if (one.get("status") or {}).get("phase") == "Running"]

    def processes(self) -> dict[int, int]:
        """Return client -> the first process of its container."""
        found = {}
        for one in self.pods():
            process = next((pid for pid in processes_of(one["metadata"]["uid"]) if b"pod_main" in command_of(pid)), 0)
            if process:
                found[int(one["metadata"]["labels"][INDEX])] = process
        return found

    def until(self, true: Callable[[], Any], what: str, patience: float = 300.0) -> None:
        """Wait for something that happens while the controller lives."""
        deadline = time.monotonic() + patience
        while not true():
            assert time.monotonic() < deadline and not self.ended, f"{what}: {self.said()[-3000:]}"
            time.sleep(0.1)

    @staticmethod
    def left_of(client: Client, run_id: str) -> list[str]:
        """Return what there is of the loads of a run and of their common starts, wherever it lies."""
        selector = f"perfscale.seatrial/run={run_id},!perfscale.seatrial/index"
        found = [f"{kind} {one['metadata']['name']}" for version, kind in KINDS
                 for one in client.list(client.kind(version, kind), "", selector)[0]]  # fmt: skip
        place = f"seatrial-load-{run_id}"
        return found + ([place] if client.get(client.kind("v1", "Namespace"), place) else [])

    def require_nothing_left(self) -> None:
        """Wait for what deletion leaves for a moment."""
        deadline = time.monotonic() + 120
        while left := self.left_of(self.world.client, self.world.run_id):
            assert time.monotonic() < deadline, left
            time.sleep(0.3)

    def end(self) -> None:
        """End the controller, whatever a failed test leaves."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.controller.pid, signal.SIGKILL)
        self.controller.wait(timeout=120)


def processes_of(pod: str) -> list[int]:
    """Return the processes of a pod, found by the names of their control groups."""
    names = (pod, pod.replace("-", "_"))
    found = []
    for one in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if one.name.isdigit() and any(name in (one / "cgroup").read_text() for name in names):
                found.append(int(one.name))
    return found


def command_of(pid: int) -> bytes:
    """Return the command line of a process, empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
