"""Tests that are killed leave no control plane behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import leftovers
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import instance_processes
from playbook import ROOT


def clusters(name: str) -> list[str]:
    """The processes of rehearsal clusters that a test run started."""
    return [
        one[instance_processes.NAME] for one in leftovers.marked(name).values() if instance_processes.INSTANCE in one
    ]


@pytest.mark.parametrize(
    ("number", "words"),
    [(signal.SIGTERM, ["-n0"]), (signal.SIGKILL, ["-n1"])],
    ids=["term", "kill-with-workers"],
)
def test_the_control_plane_of_a_killed_test_run_ends(number: signal.Signals, words: list[str]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", *words, "tests/integration/test_kube.py"]
    run = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    name = leftovers.name_of(run.pid)
    deadline = time.monotonic() + 120
    while "kube-apiserver" not in clusters(name):
        assert run.poll() is None and time.monotonic() < deadline, "no control plane was started"
        time.sleep(0.05)
    run.send_signal(number)
    run.wait(120)
    deadline = time.monotonic() + 120
    while leftovers.marked(name) or (leftovers.RUNS / name).exists():
        assert time.monotonic() < deadline, f"left: {leftovers.marked(name)}"
        time.sleep(0.1)
