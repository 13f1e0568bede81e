"""Users and their controller killed at random moments: each user counts once, and nothing is left.

SEATRIAL_KILLS=20 .venv/bin/pytest -s -m long tests/integration/test_users_killed.py
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rehearsal as support
import suite_prerequisites
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from killed_runs import give_back
from load_world import final
from playbook import begin, run_dirs

LACKING = suite_prerequisites.real_node_lacks()
#: Image python is made by the first run that uses it.
pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(LACKING), reason=LACKING)]

POD = ServedKind("v1", "Pod", "pods", True)
LEFT = (("v1", "Namespace"), ("v1", "Pod"), ("v1", "ConfigMap"), ("v1", "ServiceAccount"),
        ("coordination.k8s.io/v1", "Lease"), ("rbac.authorization.k8s.io/v1", "Role"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"))  # fmt: skip
INDEX, SAYS = "perfscale.seatrial/index", "seatrial-user"
#: What a user passes through, as function state tells.
STATES = ("Pending", "Running", "ready", "begun")
COUNT = 8
#: Kills of users in one run, less than their number.
KILLS = int(os.environ.get("SEATRIAL_KILLS", "5"))
SETTINGS: dict[str, Any] = {
    "users_count": COUNT,
    "users_command": ["sh", "-c", "echo $SEATRIAL_INDEX > /data/a; sleep 5"],
    "users_files": "/data",
    "users_release": {"type": "closed", "batch": 2, "delay": 4},
    "users_required": "1",
    "results_limits": {"workloads_failed": {"max": COUNT}},
}


class Run:
    """A run of users on a cluster that outlives it."""

    def __init__(self, kubeconfig: str, options: cluster_lifecycle.RehearsalOptions, folder: Path) -> None:
        self.kubeconfig, self.folder = kubeconfig, folder
        self.artifacts, self.log = folder / "artifacts", folder / "log"
        self.common = {"rehearsal_data_dir": options.data_dir, "rehearsal_name": options.name}
        self.client = Client.from_kubeconfig(kubeconfig)

    def begin(self, **settings: Any) -> subprocess.Popen[bytes]:
        """Start the playbook."""
        words = ["-e", "preset=light", "-e", json.dumps({**self.common, **SETTINGS, **settings})]
        return begin(*words, artifacts=self.artifacts, log=self.log, project="users")

    def resume(self) -> subprocess.Popen[bytes]:
        """Continue the run after its controller was killed."""
        return begin("-e", f"run_dir={self.run_dir}", artifacts=self.artifacts, log=self.log, project="users")

    @property
    def run_dir(self) -> Path:
        (found,) = run_dirs(self.artifacts)
        return found

    @property
    def point(self) -> Path:
        (found,) = (self.run_dir / "points").iterdir()
        return found

    def pods(self) -> dict[int, dict[str, Any]]:
        """Return the pods of users by the number of the user."""
        return {int(one["metadata"]["labels"][INDEX]): one for one in self.client.list(POD, "", INDEX)[0]}

    def rows(self, name: str) -> list[dict[str, Any]]:
        return list(files.read_json_lines(self.point / f"{name}.jsonl"))

    def users(self) -> dict[int, dict[str, Any]]:
        """Return the rows of the timeline; each user has one."""
        rows = [row for row in self.rows("timeline") if "index" in row]
        assert sorted(row["index"] for row in rows) == list(range(len(rows)))
        return {row["index"]: row for row in rows}

    def left(self) -> list[str]:
        """Return what the cluster still has of the run."""
        label = {"labelSelector": f"perfscale.seatrial/run={files.read_yaml(self.run_dir / 'run.yml')['id']}"}
        found = []
        for version, kind in LEFT:
            path = self.client.kind(version, kind).path("")
            found += [
                f"{kind} {one['metadata']['name']}" for one in self.client.request("GET", path, query=label)["items"]
            ]
        return found


def state(pod: dict[str, Any]) -> str:
    """What the helper has reported last, or the phase of the pod."""
    said = (pod["metadata"].get("annotations") or {}).get(SAYS, "")
    return str(said or pod["status"].get("phase", "Pending"))


def process_of(pod: str) -> int:
    """Return the first process of a user's container, 0 if there is none."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"/seatrial/user.py" in words and f"SEATRIAL_POD={pod}".encode() in (folder / "environ").read_bytes():
                return int(folder.name)
    return 0


def kill(run: Run, pod: dict[str, Any], delete: bool) -> str:
    """Kill the process of a user, or delete its pod if it has none; return what was done."""
    name, pid = pod["metadata"]["name"], 0 if delete else process_of(pod["metadata"]["name"])
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return f"killed {state(pod)} {name}"
    run.client.delete(POD, name, pod["metadata"]["namespace"])
    return f"deleted {state(pod)} {name}"


@pytest.fixture
def run(own_instance: Callable[..., Any], tmp_path: Path) -> Iterator[Run]:
    options = own_instance("users-killed", nodes_real=1, components=["python-image"])
    info = cluster_lifecycle.create_or_repair_instance(options, support.quiet)
    yield Run(info["kubeconfig"], options, tmp_path)


def ended(running: subprocess.Popen[bytes], run: Run, seconds: float = 600) -> str:
    """Wait for the end of a session that has to succeed; return its output."""
    try:
        assert running.wait(seconds) == 0, run.log.read_text()[-8000:]
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    return run.log.read_text()


def wait_for(what: str, look: Callable[[], Any], running: subprocess.Popen[bytes], seconds: float = 300) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert running.poll() is None, "the run has ended"
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.2)
    return found


def test_users_that_are_killed_or_deleted_count_as_failed_and_are_dated(run: Run) -> None:
    # The first two begin; meanwhile the third is killed while it waits.
    running = run.begin(
        users_count=4,
        users_command=["sh", "-c", "sleep $((SEATRIAL_INDEX == 0 ? 600 : 1))"],
        users_files="",
        users_release={"type": "closed", "batch": 2, "delay": 60},
        users_required="50 %",
        results_limits={"workloads_failed": {"max": 2}},
    )
    pods = wait_for("begun user", lambda: 0 in (found := run.pods()) and state(found[0]) == "begun" and found, running)
    killed = time.time()
    assert kill(run, pods[2], delete=False).startswith("killed ready")
    kill(run, pods[0], delete=True)
    ended(running, run)
    found = run.users()
    assert [found[one]["outcome"] for one in (1, 2, 3)] == ["succeeded", "failed", "succeeded"]
    assert found[0]["outcome"] in ("failed", "deleted") and "begun" in found[0]["stages"]
    assert "succeeded" not in found[0]["stages"]
    assert "begun" not in found[2]["stages"] and found[2]["stages"]["failed"][1] >= killed
    told = files.read_json(run.point / "users" / "users.json")
    assert (told["count"], told["required"], told["succeeded"]) == (4, 2, 2)
    users = [files.read_json(run.point / "users" / str(one) / "user.json") for one in range(4)]
    assert (users[0]["phase"], users[0]["why"]) == ("missing", "its pod was deleted, or never created")
    assert (users[2]["phase"], users[2]["exit_code"], users[2]["why"][:13]) == ("Failed", 137, "exit code 137")
    page = (run.run_dir / "report" / "index.html").read_text()
    assert "<h3>Users</h3>" in page and "exit code 137" in page
    assert run.left() == []


@pytest.mark.parametrize("how", ["users", "resumed", "given_back"])
def test_each_user_is_accounted_for_once_whoever_is_killed(how: str, run: Run) -> None:
    chance = random.Random()
    running = run.begin()
    wait_for("pods", run.pods, running)
    # Of the controller: before all are ready, at the barrier, or while users run.
    after = chance.randrange(min(KILLS, 4)) if how != "users" else KILLS
    # Each victim is at least in a random state: before it is ready, at the barrier, or while its command runs.
    earliest = sorted(chance.choices(range(len(STATES)), k=KILLS))
    done: dict[int, float] = {}
    says: list[str] = []
    while len(done) < KILLS and running.poll() is None:
        if len(done) == after:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
            says.append("killed the controller")
            if how == "given_back":
                break
            time.sleep(chance.uniform(0, 5))
            running, after = run.resume(), KILLS
        alive = [
            (one, pod)
            for one, pod in run.pods().items()
            if one not in done and state(pod) in STATES and STATES.index(state(pod)) >= earliest[len(done)]
        ]
        if not alive:
            time.sleep(0.2)
            continue
        index, pod = chance.choice(alive)
        done[index] = time.time()
        says.append(kill(run, pod, delete=chance.random() < 0.3))
        time.sleep(chance.uniform(0, 2))
    print(f"{how}: {', '.join(says)}", flush=True)
    assert how == "users" or "killed the controller" in says, "the run was over before its controller was killed"
    if how == "given_back":
        given = give_back(run.run_dir)
        assert given.returncode == 0, given.stdout[-6000:]
    else:
        ended(running, run)
        assert_accounted_for(run, done)
    assert run.left() == []
    assert files.read_yaml(run.run_dir / "run.yml")["held"] == []


def assert_accounted_for(run: Run, killed: dict[int, float]) -> None:
    """Check that each user was created once, and ended as it should. killed: user to time of the kill."""
    found = run.users()
    assert len(found) == COUNT and killed
    attempts = [row for row in run.rows("ledger") if row["type"] == "attempt"]
    assert sorted(final(attempts).values()) == [1] * COUNT
    for index, row in found.items():
        # A kill may come after the end of the command.
        late = index in killed and row["stages"].get("command_ended", [killed[index] + 60])[0] <= killed[index] + 1
        wanted = {"succeeded"} if index not in killed else {"failed", "deleted"} | ({"succeeded"} if late else set())
        assert row["outcome"] in wanted, (index, row, killed)
    outcomes = Counter(row["outcome"] for row in found.values())
    told = files.read_json(run.point / "users" / "users.json")
    assert (told["count"], told["succeeded"]) == (COUNT, outcomes["succeeded"])
    for index, row in found.items():
        user = files.read_json(run.point / "users" / str(index) / "user.json")
        assert (user["phase"] == "Succeeded") == (row["outcome"] == "succeeded"), (row, user)
        if row["outcome"] == "succeeded":
            assert (run.point / "users" / str(index) / "files" / "a").read_text() == f"{index}\n"
