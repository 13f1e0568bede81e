"""What tests and set-ups started ends with them, and is found again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import clean
import leftovers
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes

#: The name of a run that has ended: no process 1 began then. No other worker of the tests uses it.
ENDED = f"1-{os.getpid()}"
RUN = """
import subprocess, sys, time
sys.path[:0] = {path!r}
import leftovers
leftovers.begin()
print(subprocess.Popen(["sleep", "300"], start_new_session=True).pid, flush=True)
time.sleep(300)
"""


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 120
    while processes.start_ticks_of(pid) is not None:
        assert time.monotonic() < deadline, f"process {pid} lives on"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_run_started_ends_with_it_however_it_ends(number: signal.Signals) -> None:
    program = RUN.format(path=[one for one in sys.path if one])
    run = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert run.stdout is not None
    child = int(run.stdout.readline())
    folder = leftovers.folder_of(run.pid)
    assert folder.is_dir()
    below = [pid for pid in processes.list_pids() if processes.parent_pid_of(pid) == run.pid]
    assert below == [child], "what ends this tree of processes must leave the watcher, which ends the rest"
    run.send_signal(number)
    run.wait(120)
    wait_until_gone(child)
    deadline = time.monotonic() + 120
    while folder.exists():
        assert time.monotonic() < deadline, f"{folder} stays"
        time.sleep(0.05)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone's folder of runs, with one that has ended and whose watcher is gone too."""
    monkeypatch.setattr(leftovers, "RUNS", tmp_path / "tests")
    (tmp_path / "tests" / ENDED).mkdir(parents=True)
    return tmp_path / "tests"


def test_what_a_run_left_is_found_again(runs: Path) -> None:
    left = subprocess.Popen(["sleep", "300"], env={**os.environ, leftovers.MARK: ENDED}, start_new_session=True)
    other = subprocess.Popen(
        ["sleep", "300"], env={**os.environ, leftovers.MARK: f"2-{os.getpid()}"}, start_new_session=True
    )
    try:
        assert leftovers.sweep() == []
        wait_until_gone(left.pid)
        assert other.poll() is None
        assert not (runs / ENDED).exists()
    finally:
        for one in (left, other):
            one.kill()
            one.wait()


def test_a_set_up_ends_what_another_left_but_no_cluster(runs: Path) -> None:
    """It runs before there is what stopping a cluster takes."""
    marks = ({}, {leftovers.INSTANCE: str(runs / ENDED / "cluster")})
    pip, etcd = (
        subprocess.Popen(["sleep", "300"], env={**os.environ, leftovers.MARK: ENDED, **more}, start_new_session=True)
        for more in marks
    )
    try:
        leftovers.sweep(clusters=False)
        wait_until_gone(pip.pid)
        assert etcd.poll() is None
        assert (runs / ENDED).is_dir(), "the name by which the cluster is found later is forgotten"
    finally:
        for one in (pip, etcd):
            one.kill()
            one.wait()


def test_the_mark_of_a_cluster_is_the_products_own() -> None:
    from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import instance_processes

    assert instance_processes.INSTANCE == leftovers.INSTANCE
    assert leftovers.MARK in instance_processes.INHERITED


def test_a_run_that_is_under_way_is_left_alone(runs: Path) -> None:
    mine = leftovers.name_of(os.getpid())
    (runs / mine).mkdir()
    assert leftovers.sweep() == [mine]
    assert (runs / mine).is_dir()


def test_clean_ends_what_was_left_and_stops_at_a_run_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this clone itself, in which this very test is a run under way."""
    left = subprocess.Popen(["sleep", "300"], env={**os.environ, leftovers.MARK: ENDED}, start_new_session=True)
    try:
        (leftovers.RUNS / ENDED).mkdir(parents=True, exist_ok=True)
        assert clean.end_leftovers() is False
        assert "running in this clone (process " in capsys.readouterr().out
        assert left.wait(120) == -signal.SIGTERM
    finally:
        left.kill()
        left.wait()
    monkeypatch.setattr(clean, "CACHE", tmp_path)
    assert clean.end_leftovers() is True
