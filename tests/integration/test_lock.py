"""The lock of a cluster on a real API server: runs come one after the other, whatever becomes of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import drive_workload
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.lock import (
    lock_protocol,
    lock_records,
    lock_session,
)
from load_world import World, wait_until_created

SCRIPT = Path(__file__).parents[1] / "support" / "lock_run.py"
ROOT = Path(__file__).parents[2]
#: No keeper is kept waiting for the processor for two thirds of it, after which its lock would count as lost.
DURATION = 10
#: Where the end of a Lease is waited for and nobody has to renew it.
SHORT = 4
#: Of ten runs at once on two cores: longer than any of them is kept waiting for the processor.
CROWDED = 10


@dataclass
class Turns:
    """A namespace for the Leases, and runs that want the lock in it."""

    world: World
    folder: Path

    def start(self, run: str, hold: float, *more: str, duration: int = DURATION) -> subprocess.Popen[str]:
        arguments = [self.world.kubeconfig, self.world.namespace, run, str(self.folder), str(duration), str(hold)]
        path = os.pathsep.join([str(ROOT / "collections"), str(ROOT / "tests" / "support")])
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), *arguments, *more],
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def story(self) -> list[tuple[float, str, str]]:
        lines = (self.folder / "story").read_text(encoding="utf-8").splitlines()
        return [(float(at), run, what) for at, run, what in (line.split() for line in lines)]

    def wish(self, run: str, **more: Any) -> lock_session.LockSpec:
        given = {
            "kubeconfig": self.world.kubeconfig,
            "context": "",
            "namespace": self.world.namespace,
            "lock_file": str(self.folder / f"lock-{run}.json"),
            "run_id": run,
            "owner": "ann",
            "purpose": "a test",
            "duration": DURATION,
            "timeout": 120.0,
            "caller_pid": os.getpid(),
        }
        return lock_session.LockSpec.of({**given, **more}, 0)

    def record(self, run: str) -> dict[str, Any]:
        return files.read_json(self.folder / f"lock-{run}.json")

    def leases(self) -> list[lock_records.LockLease]:
        return self.store().look()

    def store(self) -> lock_records.ServerStore:
        return lock_records.ServerStore(self.world.client, self.world.namespace)


@pytest.fixture
def turns(world: World, tmp_path: Path) -> Iterator[Turns]:
    made = Turns(world, tmp_path)
    yield made
    for path in tmp_path.glob(lock_records.PATTERN):
        lock_session.stop_renewer(lock_records.read_lock_record(path))


def quiet(_text: str) -> None:
    """Say nothing."""


def until(true: Any, what: str, patience: float = 120.0) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, f"not within {patience:g} s: {what}"
        time.sleep(0.05)


def test_ten_runs_at_once_come_one_after_the_other_and_get_past_one_that_is_killed(turns: Turns) -> None:
    names = [f"run-{number:03d}" for number in range(10)]
    kill = {"run-004": ["kill"]}
    runs = {name: turns.start(name, 0.2, *kill.get(name, []), duration=CROWDED) for name in names}
    said = {name: process.communicate(timeout=300)[0] for name, process in runs.items()}
    codes = {name: process.returncode for name, process in runs.items()}
    assert codes == {name: -signal.SIGKILL if name == "run-004" else 0 for name in names}, said
    story = turns.story()
    assert sorted(run for _at, run, what in story if what == "begin") == names
    for (_began, run, what), (_ended, other, end) in zip(story[::2], story[1::2], strict=True):
        assert (what, end) == ("begin", "killed" if run == "run-004" else "end"), f"two runs at once: {story}"
        assert run == other, f"two runs at once: {story}"
    killed_at = next(at for at, _run, what in story if what == "killed")
    after = [at for at, _run, what in story if what == "begin" and at > killed_at]
    if after:  # nobody came before the killed one must have stopped by itself
        assert after[0] - killed_at > CROWDED * lock_protocol.BELIEVE - lock_session.CHECK_INTERVAL - 1
    told = "\n".join(said.values())
    assert "in the queue for" in told and "holds it" in told
    left = [one.run for one in turns.leases()]
    assert left in ([], ["run-004"]), "a killed run may leave its Lease, which expires; nobody else leaves anything"
    until(
        lambda: lock_session.find_running_lock_renewer(turns.record("run-004")) is None, "the keeper ends with its run"
    )


def test_who_waits_is_told_whose_lock_it_is_and_leaves_the_queue_when_its_time_is_over(turns: Turns) -> None:
    first = lock_session.acquire_cluster_lock(turns.wish("run-first"), StepDirectory(None), quiet)
    assert first["changed"] and first["lock"]["state"] == "held"
    again = lock_session.acquire_cluster_lock(turns.wish("run-first"), StepDirectory(None), quiet)
    assert not again["changed"], "the run holds it already"
    with pytest.raises(WaitTimeout) as raised:
        lock_session.acquire_cluster_lock(turns.wish("run-second", timeout=0.5), StepDirectory(None), quiet)
    text = str(raised.value)
    assert "place 1 of 1" in text and "run run-first (ann) holds it for a test since 20" in text
    assert "unless it is renewed" in text
    assert [one.run for one in turns.leases()] == ["run-first"]
    told = lock_session.lock_holder_and_queue(turns.world.kubeconfig, "", turns.world.namespace)
    assert told["holder"]["run"] == "run-first" and told["waiting"] == []
    given = lock_session.release_cluster_lock(turns.wish("run-first"))
    assert given["changed"] and given["lock"]["state"] == "released"
    assert not lock_session.release_cluster_lock(turns.wish("run-first"))["changed"]
    assert turns.leases() == []


def test_a_lock_is_released_when_the_server_said_so_and_not_before(turns: Turns) -> None:
    lock_session.acquire_cluster_lock(turns.wish("run-first"), StepDirectory(None), quiet)
    gone = {"kubeconfig": str(turns.folder / "none")}
    for _attempt in range(2):
        with pytest.raises(AccessError, match="it is unknown whether run run-first still holds its lock"):
            lock_session.release_cluster_lock(turns.wish("run-first", **gone))
        assert turns.record("run-first")["state"] == "held"
    result = lock_session.release_cluster_lock(turns.wish("run-first", **gone), server_required=False)
    assert "expires by itself" in result["warning"]
    assert turns.record("run-first")["state"] == "held"
    assert lock_session.release_cluster_lock(turns.wish("run-first"))["lock"]["state"] == "released"
    assert lock_session.release_cluster_lock(turns.wish("run-first", **gone))["lock"]["state"] == "released"


def test_a_keeper_renews_and_a_second_session_of_the_run_takes_over(turns: Turns) -> None:
    caller = subprocess.Popen(["sleep", "60"])
    try:
        lock_session.acquire_cluster_lock(turns.wish("run-first", caller_pid=caller.pid), StepDirectory(None), quiet)
        before, first = turns.leases()[0], turns.record("run-first")["keeper"]
        until(lambda: turns.leases()[0].version != before.version, "the Lease is renewed")
        lock_session.acquire_cluster_lock(turns.wish("run-first"), StepDirectory(None), quiet)
        second = turns.record("run-first")["keeper"]
        assert second != first and not lock_session.ProcessReference(**first).lives()
        assert [(one.run, one.uid) for one in turns.leases()] == [("run-first", before.uid)]
    finally:
        caller.kill()
        caller.wait()
    assert lock_session.ProcessReference(**second).lives(), "it belongs to the second session"
    assert lock_records.describe_lost_lock(turns.folder) == ""


def test_a_lock_that_somebody_took_away_is_lost_and_the_holder_learns_of_it(turns: Turns) -> None:
    lock_session.acquire_cluster_lock(turns.wish("run-first"), StepDirectory(None), quiet)
    assert [one.role for one in lock_protocol.delete_leases_of_run(turns.store(), "run-first")] == [lock_records.HOLDER]
    until(lambda: lock_records.describe_lost_lock(turns.folder) != "", "the loss is known")
    assert "its Lease was deleted" in lock_records.describe_lost_lock(turns.folder)
    until(lambda: lock_session.find_running_lock_renewer(turns.record("run-first")) is None, "the keeper ends")


def test_a_holder_whose_keeper_was_killed_counts_its_lock_as_lost_before_others_may_take_it(turns: Turns) -> None:
    lock_session.acquire_cluster_lock(turns.wish("run-first", duration=SHORT), StepDirectory(None), quiet)
    os.kill(turns.record("run-first")["keeper"]["pid"], signal.SIGKILL)
    known: list[str] = []
    lock_session.acquire_cluster_lock(
        turns.wish("run-second"),
        StepDirectory(None),
        lambda _text: known.append(lock_records.describe_lost_lock(turns.folder)),
    )
    assert "was not renewed since" in known[-1], "when the second run has the lock the first one counts it as lost"


def test_a_load_stops_when_the_lock_is_lost_and_says_so(turns: Turns) -> None:
    lock_session.acquire_cluster_lock(turns.wish("run-first"), StepDirectory(None), quiet)
    arrival = {"type": "constant", "rate": 10}
    load = turns.world.start(count=600, arrival=arrival, lock_dir=str(turns.folder))
    wait_until_created(turns.world, 5)
    lock_protocol.delete_leases_of_run(turns.store(), "run-first")
    result = drive_workload.result(load)
    assert result["failed"] == "Interrupted"
    assert "stopped, because the lock on 127.0.0.1" in result["msg"] and "its Lease was deleted" in result["msg"]
    assert len(turns.world.names()) < 600
