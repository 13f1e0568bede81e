"""A simulated Run:ai: stand-in definitions of its kinds, and a controller that creates the objects of a workload.

The definitions of the product are not public. These have its groups, versions and kinds, any content, and say in a
label and in their description that they are stand-ins. The controller waits known times between the objects, and
records when each of them was created: from before the request until after its answer.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client

WORKLOADS = ("TrainingWorkload", "DistributedWorkload", "InteractiveWorkload")
KINDS = {
    **dict.fromkeys(WORKLOADS, ("run.ai", "v2alpha1")),
    "RunaiJob": ("run.ai", "v1"),
    "PodGroup": ("scheduling.run.ai", "v2alpha2"),
}
STAND_IN = "Stand-in for tests, with any content. It is not the definition of the product."


def _definition(kind: str) -> dict[str, Any]:
    group, version = KINDS[kind]
    plural = f"{kind.lower()}s"
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "description": STAND_IN, "properties": {"spec": free, "status": free}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "labels": {"perfscale.seatrial/stand-in": "true"}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


@contextmanager
def definitions(client: Client, kinds: tuple[str, ...] = tuple(KINDS)) -> Iterator[None]:
    """Install the stand-ins until the end; nothing of them is left."""
    made = [_definition(kind) for kind in kinds]
    for one in made:
        client.create(one)
    try:
        _wait(lambda: all(_is_served(client, kind) for kind in kinds), "the stand-ins are not served")
        yield
    finally:
        kind = client.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        names = {one["metadata"]["name"] for one in made}
        for name in names:
            client.delete(kind, name)
        _wait(
            lambda: names.isdisjoint(one["metadata"]["name"] for one in client.list(kind)[0]),
            "the stand-ins do not go away",
        )


def _is_served(client: Client, kind: str) -> bool:
    try:
        client.list(client.kind("/".join(KINDS[kind]), kind))
    except (ApiError, InputError):
        return False
    return True


def _wait(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


class Platform(threading.Thread):
    """Creates workload → job → pod group → pods, each after a known time, and ends the workload.

    delays: seconds before "job", "group", "pods", and how long pods run ("run"). truth: name of a workload -> event ->
    (time.monotonic() before the request, after its answer).
    """

    def __init__(
        self, client: Client, namespace: str, kind: str, delays: dict[str, float], job: Callable[[str], dict[str, Any]]
    ) -> None:
        """``job``: name -> manifest of the job of a workload, which for a RunaiJob contains no pod."""
        super().__init__(daemon=True)
        self.truth: dict[str, dict[str, tuple[float, float]]] = {}
        self.over = threading.Event()
        self.error: Exception | None = None
        self._client, self._namespace, self._delays, self._job = client, namespace, delays, job
        self._workloads = client.kind("/".join(KINDS[kind]), kind)
        self._pods = client.kind("v1", "Pod")
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._ended: set[str] = set()
        self._phases: dict[str, str] = {}

    def run(self) -> None:
        try:
            while not self.over.wait(0.02):
                self._look()
                while self._due and self._due[0][0] <= time.monotonic():
                    heapq.heappop(self._due)[2]()
        except Exception as error:
            self.error = error

    def _after(self, seconds: float, work: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._due, (time.monotonic() + seconds, self._number, work))

    def _look(self) -> None:
        for one in self._client.list(self._workloads, self._namespace)[0]:
            name = one["metadata"]["name"]
            if name not in self.truth:
                self.truth[name] = {}
                self._after(self._delays["job"], lambda one=one: self._create_job(one))
        for pod in self._client.list(self._pods, self._namespace)[0]:
            workload = pod["metadata"]["labels"].get("release", "")
            if workload and (pod.get("status") or {}).get("phase") == "Running" and workload not in self._phases:
                self._phase(workload, "Running")
                if self._delays.get("run"):
                    self._after(self._delays["run"], lambda workload=workload: self._phase(workload, "Completed"))

    def _phase(self, workload: str, phase: str) -> None:
        self._phases[workload] = phase
        path = f"{self._workloads.path(self._namespace, workload)}/status"
        try:
            self._client.request("PATCH", path, {"status": {"phase": phase}}, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.status != 404:  # it was stopped in the meantime
                raise

    def _create(self, workload: str, event: str, manifest: dict[str, Any], owner: dict[str, Any]) -> dict[str, Any]:
        metadata = manifest.setdefault("metadata", {})
        metadata["namespace"] = self._namespace
        metadata["labels"] = {**metadata.get("labels", {}), "release": workload, "workloadName": workload}
        reference = {key: owner[key] for key in ("apiVersion", "kind")}
        metadata["ownerReferences"] = [
            {**reference, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}
        ]
        before = time.monotonic()
        made = self._client.create(manifest)
        self.truth[workload].setdefault(event, (before, time.monotonic()))
        return made

    def _create_job(self, workload: dict[str, Any]) -> None:
        name = workload["metadata"]["name"]
        owner = {**workload, "apiVersion": "run.ai/v2alpha1", "kind": self._workloads.kind}
        self._phase(name, "Creating")
        del self._phases[name]
        job = self._create(name, "job", self._job(name), owner)
        self._after(self._delays["group"], lambda: self._create_group(name, job))

    def _create_group(self, name: str, job: dict[str, Any]) -> None:
        group = {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": f"pg-{name}"},
            "spec": {"minMember": 1},
        }
        self._create(name, "group", group, job)
        if job["kind"] == "RunaiJob":
            self._after(self._delays["pods"], lambda: self._create_pod(name, job))
        else:
            self._after(self._delays["pods"], lambda: self._ungate(name))

    def _ungate(self, name: str) -> None:
        """Let the pods of a PyTorchJob be scheduled, as the platform's scheduler does once it knows their group."""
        pods = self._client.list(self._pods, self._namespace, f"release={name}")[0]
        if len(pods) < 2:
            self._after(0.1, lambda: self._ungate(name))
            return
        for pod in pods:
            path = self._pods.path(self._namespace, pod["metadata"]["name"])
            self._client.request("PATCH", path, {"spec": {"schedulingGates": None}}, content_type=MERGE_PATCH)

    def _create_pod(self, name: str, job: dict[str, Any]) -> None:
        spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
        self._create(
            name, "pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{name}-0-0"}, "spec": spec}, job
        )


def runai_job(name: str) -> dict[str, Any]:
    """Return a RunaiJob whose pods the platform creates."""
    return {"apiVersion": "run.ai/v1", "kind": "RunaiJob", "metadata": {"name": name}, "spec": {}}


def pytorch_job(name: str) -> dict[str, Any]:
    """Return a PyTorchJob of a master and a worker, whose pods the training-operator creates."""
    template = {
        "metadata": {"labels": {"release": name}},
        "spec": {"schedulingGates": [{"name": "runai"}], "containers": [{"name": "pytorch", "image": "none"}]},
    }
    replica = {"replicas": 1, "restartPolicy": "Never", "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {
            "runPolicy": {"cleanPodPolicy": "None"},
            "pytorchReplicaSpecs": {"Master": replica, "Worker": replica},
        },
    }
