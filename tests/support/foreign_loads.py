"""Loads as others submit them: a loop of a client, kubectl, the names of kube-burner, a CronJob, a user of Kueue."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from rehearsal import CACHE


def kubectl() -> Path | None:
    """Return the kubectl of a component that was built on this machine; None without one: it is built on request."""
    return next(CACHE.glob("rehearsal/*/bin/kubectl"), None)


def job(name: str, labels: dict[str, str] | None = None, run_seconds: float = 1, **spec: Any) -> dict[str, Any]:
    """Return a Job of one pod; its labels are on the Job only, as nobody labels pods for us."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"app": "foreign", **(labels or {})}},
        "spec": job_spec(run_seconds, **spec),
    }


def job_spec(run_seconds: float, **spec: Any) -> dict[str, Any]:
    pod = {
        "restartPolicy": "Never",
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "10m", "memory": "1Mi"}}}],
    }
    annotations = {"perfscale.seatrial/run-seconds": str(run_seconds)}
    return {"backoffLimit": 0, **spec, "template": {"metadata": {"annotations": annotations}, "spec": pod}}


def of_kube_burner(number: int, name: str = "node-density") -> dict[str, Any]:
    """Return a Job with the name and the labels that kube-burner would give to it."""
    labels = {
        "kube-burner.io/job": name,
        "kube-burner.io/uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
        "kube-burner.io/index": "0",
        "kube-burner.io/runid": str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}-run")),
    }
    return job(f"{name}-{number}", labels)


def cron_job(name: str) -> dict[str, Any]:
    """Return a CronJob that creates a Job each minute."""
    template = {"metadata": {"labels": {"app": "foreign"}}, "spec": job_spec(1)}
    spec = {"schedule": "* * * * *", "concurrencyPolicy": "Allow", "jobTemplate": template}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec}


def queue(namespace: str) -> list[dict[str, Any]]:
    """Return a queue of Kueue in a namespace, for 20 pods at once."""
    group = "kueue.x-k8s.io/v1beta2"
    quota = [{"name": "cpu", "nominalQuota": "200m"}, {"name": "memory", "nominalQuota": "1Gi"}]
    covered = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": namespace, "resources": quota}]}
    of_cluster = {"namespaceSelector": {}, "resourceGroups": [covered]}
    place = {"name": "users", "namespace": namespace}
    return [
        {"apiVersion": group, "kind": "ResourceFlavor", "metadata": {"name": namespace}, "spec": {}},
        {"apiVersion": group, "kind": "ClusterQueue", "metadata": {"name": namespace}, "spec": of_cluster},
        {"apiVersion": group, "kind": "LocalQueue", "metadata": place, "spec": {"clusterQueue": namespace}},
    ]


def by_kubectl(kubeconfig: str, namespace: str, *objects: dict[str, Any]) -> None:
    """Create objects as a user does, by kubectl create -f -; by our own client on a machine without kubectl."""
    program = kubectl()
    if program is None:
        with Client.from_kubeconfig(kubeconfig) as client:
            for one in objects:
                client.create({**one, "metadata": {"namespace": namespace, **one["metadata"]}})
        return
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    words = [str(program), "--kubeconfig", kubeconfig, "--namespace", namespace, "create", "-f", "-"]
    subprocess.run(words, input=document, text=True, check=True, capture_output=True, timeout=300)


class ClientLoop(threading.Thread):
    """A client that creates objects at a rate until finish(). ``sent``: those that it surely created."""

    def __init__(
        self, kubeconfig: str, namespace: str, make: Callable[[int], dict[str, Any]], rate: float, most: int = 0
    ) -> None:
        super().__init__(daemon=True)
        self.sent: set[str] = set()
        self._client = Client.from_kubeconfig(kubeconfig)
        self._namespace = namespace
        self._make = make
        self._rate = rate
        self._most = most
        self._over = threading.Event()
        self.start()

    def run(self) -> None:
        number, due = 0, time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())) and (not self._most or number < self._most):
            one = self._make(number)
            place = {**one["metadata"], "namespace": self._namespace}
            with contextlib.suppress(ApiError, AccessError):  # the API server restarts
                self._client.create({**one, "metadata": place})
                self.sent.add(place["name"])
            number, due = number + 1, max(due, time.monotonic() - 1) + 1 / self._rate
        self._client.close()

    def finish(self) -> set[str]:
        """Create nothing more; return the names of what was created."""
        self._over.set()
        self.join()
        return self.sent
