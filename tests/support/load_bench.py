"""Runs loads for the benchmarks, ours and those of others, each in separate processes, and measures their cost."""

from __future__ import annotations

import json
import random
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import drive_workload
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds
from load_world import delete_all

ROOT = Path(__file__).resolve().parents[2]
SUSPENDED = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "x"},
    "spec": {
        "suspend": True,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
    },
}
SUSPENDED_TEMPLATE = """
apiVersion: batch/v1
kind: Job
metadata: {name: "{{ name }}"}
spec:
  suspend: true
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: i}]}
"""
#: A job of one pod that KWOK plays for a second.
REAL_TEMPLATE = """
apiVersion: batch/v1
kind: Job
metadata: {name: "{{ name }}"}
spec:
  backoffLimit: 0
  template:
    metadata:
      labels: {{ labels | to_json }}
      annotations: {perfscale.seatrial/run-seconds: "{{ run_seconds }}"}
    spec:
      restartPolicy: Never
      tolerations: [{operator: Exists}]
      containers:
        - name: c
          image: i
          resources: {limits: {nvidia.com/gpu: "1"}}
"""


def definitions(*kinds: str) -> list[dict[str, Any]]:
    """Return shipped stage definitions."""
    return [workload_kinds.load_kind_by_name_or_path(kind).definition for kind in kinds]


@dataclass
class Cost:
    """Cost of a group of processes: wall and CPU seconds, and the peak resident memory of each in KiB."""

    seconds: float
    cpu: float
    memory: dict[str, int] = field(default_factory=dict)  # "submit", "sampler" -> KiB


@dataclass
class Done:
    """A load that was run."""

    result: dict[str, Any]
    cost: Cost
    point_dir: Path

    @property
    def rate(self) -> float:
        """Creates a second, from opening connections to the last answer."""
        return self.result["counts"]["created"] / self.result["load_seconds"]


class Bench:
    """A namespace on the control plane."""

    def __init__(self, info: dict[str, Any], folder: Path) -> None:
        self.info = info
        self.folder = folder
        self.kubeconfig = info["kubeconfig"]
        self.namespace = f"bench-{random.SystemRandom().randrange(16**6):06x}"
        self.client = Client.from_kubeconfig(self.kubeconfig)
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        self._runs = 0

    def close(self) -> None:
        """Remove remaining objects."""
        self.clear()
        self.client.delete(self.client.kind("v1", "Namespace"), self.namespace)
        self.client.close()

    def clear(self) -> float:
        """Delete all jobs and pods, wait until they are deleted; return the seconds."""
        began = time.monotonic()
        for version, kind in (("batch/v1", "Job"), ("v1", "Pod")):
            delete_all(self.client, self.client.kind(version, kind), self.namespace, gracePeriodSeconds=0)
        return time.monotonic() - began

    def submit(self, count: int, measure_memory: bool = False, kubeconfig: str = "", **options: Any) -> Done:
        """Run workload_submit in a separate process, with everything that it does in a run."""
        self._runs += 1
        folder = self.folder / f"run-{self._runs}"
        run_id = f"{self.namespace}-{self._runs}"
        given = {
            "kubeconfig": kubeconfig or self.kubeconfig,
            "run_id": run_id,
            "point_dir": str(folder / "points" / "001"),
            "namespace": self.namespace,
            "count": count,
            "arrival": {"type": "closed"},
            "in_flight": 32,
            "templates": [{"name": "job", "content": SUSPENDED_TEMPLATE}],
            "stages": definitions("job", "pod"),
            "wait": False,
            "settle": 0.5,
            "progress_file": str(folder / "progress"),
            **options,
        }
        folder.mkdir(parents=True)
        began = Usage()
        process = drive_workload.start("submit", given, folder)
        watch = Memory(process.pid) if measure_memory else None
        result = drive_workload.result(process, timeout=900)
        cost = began.until_now()
        if watch is not None:
            cost.memory = watch.stop()
        assert "failed" not in result, result
        assert result["counts"]["created"] == result["counts"]["planned"], result
        return Done(result, cost, folder / "points" / "001")

    def raw(self, count: int, in_flight: int) -> Done:
        """Run tests/bench/raw_create.py; the rate is the one that it prints."""
        self._runs += 1
        template = self.folder / "raw.json"
        template.write_text(json.dumps(SUSPENDED), encoding="utf-8")
        path = f"/apis/batch/v1/namespaces/{self.namespace}/jobs"
        script = str(ROOT / "tests" / "bench" / "raw_create.py")
        words = [script, self.kubeconfig, str(count), str(in_flight), path, str(template), f"raw{self._runs}"]
        began = Usage()
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True, timeout=600)
        cost = began.until_now()
        found = re.search(r"in flight: (\d+)/s.*refused (\{.*\})", done.stdout)
        assert found and found.group(2) == "{}", done.stdout
        result = {"counts": {"created": count}, "load_seconds": count / int(found.group(1))}
        return Done(result, cost, self.folder)

    def kubectl(self, count: int, processes: int) -> Done:
        """Create each object with a separate kubectl, several at a time."""
        self._runs += 1
        folder = self.folder / f"kubectl-{self._runs}"
        folder.mkdir()
        files = []
        for index in range(count):
            one = {**SUSPENDED, "metadata": {"name": f"kubectl{self._runs}-{index}", "namespace": self.namespace}}
            files.append(folder / f"{index}.json")
            files[-1].write_text(json.dumps(one), encoding="utf-8")
        program = self.info["kubectl"]
        began = Usage()
        command = [
            "xargs",
            "-n",
            "1",
            "-P",
            str(processes),
            str(program),
            "create",
            "--kubeconfig",
            self.kubeconfig,
            "-f",
        ]
        subprocess.run(
            command,
            input="\n".join(str(one) for one in files),
            text=True,
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=600,
        )
        cost = began.until_now()
        shutil.rmtree(folder)
        return Done({"counts": {"created": count}, "load_seconds": cost.seconds}, cost, self.folder)


class Usage:
    """Processor time of our children that have ended, and the time."""

    def __init__(self) -> None:
        self._cpu = self._now()
        self._at = time.monotonic()

    def _now(self) -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def until_now(self) -> Cost:
        """Return the cost since the creation of this object."""
        return Cost(time.monotonic() - self._at, self._now() - self._cpu)


class Memory(threading.Thread):
    """Looks at the resident memory of a process and its child ten times a second and keeps the largest."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._most: dict[str, int] = {}
        self._over = threading.Event()
        self.start()

    def run(self) -> None:
        """Look until stop()."""
        while not self._over.wait(0.1):
            for name, pid in (("submit", self._pid), ("sampler", child_of(self._pid))):
                held = resident(pid) if pid else 0
                self._most[name] = max(self._most.get(name, 0), held)

    def stop(self) -> dict[str, int]:
        """Return the largest by process, KiB."""
        self._over.set()
        self.join()
        return self._most


def resident(pid: int) -> int:
    """Return the anonymous memory of a process in KiB; 0 if it has ended."""
    try:
        found = re.search(r"RssAnon:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    except OSError:
        return 0
    return int(found.group(1)) if found else 0


def child_of(pid: int) -> int:
    """Return the first child of a process, 0 if it has none."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return 0
    return int(text.split()[0]) if text.split() else 0
