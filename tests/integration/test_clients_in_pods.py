"""Clients of a load in pods of a real node: killed at random moments, they create each workload once and lose none."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rehearsal as support
import suite_prerequisites
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline import timeline_builder
from load_world import SUSPENDED, World, final, world_on
from playbook import PROGRAM, ROOT, environment, play, run_dirs

PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: perfscale.seatrial.workload
        rolespec_validate: false
"""
LACKING = suite_prerequisites.real_node_lacks()
#: Image python is made by the first run that uses it.
pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(LACKING), reason=LACKING)]

CLIENTS, COUNT, RATE = 4, 600, 6.0
#: Kills of the test of kills; each is followed by a pause of Kubernetes of 10 s and more.
KILLS = int(os.environ.get("SEATRIAL_KILLS", "10"))
REAL = "perfscale.seatrial/real"
INDEX = "batch.kubernetes.io/job-completion-index"


def test_a_run_whose_clients_are_pods_passes(rehearsal_folder: Path, tmp_path: Path) -> None:
    settings = {"rehearsal_data_dir": str(rehearsal_folder), "workload_clients": CLIENTS}
    words = ["-e", "preset=smoke,driver_pods", "-e", json.dumps(settings)]
    done = play(*words, project="workload_scale", artifacts=tmp_path, timeout=1800)
    assert done.code == 0 and "PASS" in done.output, done.output
    points = sorted((run_dirs(tmp_path)[0] / "points").iterdir())
    for point in points:
        clients = {row["client"] for row in _files.read_lines(point / "ledger.jsonl") if row["type"] == "session"}
        assert clients == set(range(CLIENTS))
        rows = [row for row in _files.read_lines(point / "ledger.jsonl") if row["type"] == "attempt"]
        found = Counter((row["kind"], row["name"]) for row in rows if row["outcome"] in ("created", "already_mine"))
        assert {row["index"] for row in rows} == set(range(6)) and set(found.values()) == {1}
    assert len(points) == 3


class Pods:
    """A load of several clients on the real node, controlled by ansible-playbook."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.point = folder / "run" / "points" / "001"
        self.selector = f"perfscale.seatrial/run={world.run_id},perfscale.seatrial/load=001"
        (folder / "run").mkdir()
        (folder / "play.yml").write_text(PLAY, encoding="utf-8")
        (folder / "job.yml.j2").write_text(SUSPENDED, encoding="utf-8")
        values = {
            "run_id": world.run_id,
            "run_dir": str(folder / "run"),
            "workload_run_on": "driver_pod",
            "workload_clients": CLIENTS,
            "workload_driver_kubeconfig": world.kubeconfig,
            "workload_driver_context": "",
            "workload_driver_simulated": False,
            "workload_driver_image": "localhost/seatrial/python:1",
            "workload_driver_security_context": {"runAsUser": 65534, "runAsGroup": 65534},
            "workload_driver_requests": {"cpu": "50m", "memory": "64Mi"},
            "workload_driver_node_selector": {REAL: "true"},
            "workload_driver_tolerations": [{"key": REAL, "operator": "Exists"}],
            "workload_driver_restarts": KILLS,
            "workload_kubeconfig": world.kubeconfig,
            "workload_context": "",
            "workload_namespace": world.namespace,
            "workload_simulated_writers": ["node"],
            "workload_templates": [{"src": str(folder / "job.yml.j2")}],
            "workload_count": COUNT,
            "workload_arrival": {"type": "constant", "rate": RATE},
            "workload_seed": 7,
            "workload_wait": False,
            "workload_stages": ["Job"],
            "workload_canary_rate": 2,
            "workload_settle": 0.2,
        }
        local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        _files.write_yaml(folder / "hosts.yml", {"all": {"hosts": {"localhost": local}, "vars": values}})

    def begin(self) -> subprocess.Popen[bytes]:
        """Start the controller, or another one after it was killed."""
        command = [str(PROGRAM), "-i", str(self.folder / "hosts.yml"), str(self.folder / "play.yml")]
        where = environment(self.folder, {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections")})
        with open(self.folder / "log", "ab") as stream:
            return subprocess.Popen(
                command, cwd=self.folder, env=where, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
                start_new_session=True,
            )  # fmt: skip

    def pods(self) -> list[dict[str, Any]]:
        pod = self.world.client.kind("v1", "Pod")
        found = self.world.client.list(pod, "", self.selector)[0]
        return [one for one in found if (one.get("status") or {}).get("phase") == "Running"]

    def kill_a_client(self, chance: random.Random) -> str:
        """Kill the first process of a container, and so all of them, or delete its pod; return what was done."""
        running = self.pods()
        if not running:
            return ""
        victim = chance.choice(running)["metadata"]
        if chance.random() < 0.3:
            self.world.client.delete(self.world.client.kind("v1", "Pod"), victim["name"], victim["namespace"])
            return f"deleted the pod of client {victim['labels'][INDEX]}"
        found = [pid for pid in processes_of(victim["uid"]) if b"pod_main" in command_of(pid)]
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return f"killed client {victim['labels'][INDEX]}" if found else ""


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
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture
def pods(own_instance: Any, tmp_path: Path) -> Iterator[Pods]:
    options = own_instance("clients-in-pods", components=["python-image"])
    info = cluster_lifecycle.present(options, support.quiet)
    with world_on(info["kubeconfig"], tmp_path) as world:
        yield Pods(world, tmp_path)
    cluster_lifecycle.absent(options, support.quiet)


def test_clients_and_controllers_killed_at_random_moments_lose_nothing(pods: Pods) -> None:
    chance = random.Random()
    controller = pods.begin()
    done: list[str] = []
    deadline = time.monotonic() + 300
    while len(pods.pods()) < CLIENTS:
        assert time.monotonic() < deadline and controller.poll() is None, "the clients have not started"
        time.sleep(0.5)
    while len(done) < KILLS and controller.poll() is None:
        time.sleep(chance.uniform(2, COUNT / RATE / KILLS * 1.5))
        if controller.poll() is None and chance.random() < 0.3:
            os.killpg(controller.pid, signal.SIGKILL)
            controller.wait(timeout=20)
            controller = pods.begin()
            done.append("killed the controller")
        elif what := pods.kill_a_client(chance):
            done.append(what)
    print(f"{len(done)} kills: {', '.join(done)}", flush=True)
    code = controller.wait(timeout=1800)
    log = " ".join((pods.folder / "log").read_text(encoding="utf-8", errors="replace").split())
    assert code == 0, log[-6000:]
    assert len(done) >= min(3, KILLS), "the load was over before it was killed"
    wanted = sorted(f"{pods.world.run_id}-001-{index}" for index in range(COUNT))
    assert pods.world.names() == wanted
    rows = [row for row in _files.read_lines(pods.point / "ledger.jsonl") if row["type"] == "attempt"]
    assert sorted(final(rows)) == wanted and set(final(rows).values()) == {1}
    assert set(Counter(row["outcome"] for row in rows)) <= {"created", "already_mine", "retry", "ambiguous"}
    table = timeline_builder.build(pods.point, pods.world.run_id, "001")
    assert Counter(table.outcome) == {"unfinished": COUNT} and table.contradictions == {}
    client = pods.world.client
    for version, kind in (("batch/v1", "Job"), ("v1", "Pod"), ("v1", "Secret")):
        assert client.list(client.kind(version, kind), "", pods.selector)[0] == [], kind
