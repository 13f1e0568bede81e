"""Ctrl-C always arrives: what waits is ended and gives back, however busy the machine is."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ENDING
from load_world import World, group_is_gone, wait_until_created
from playbook import begin, run_dirs
from processes import blocked
from quads_simulator import server as servers
from quads_simulator.clock import Clock, coming_saturday
from quads_simulator.core import API, Simulator
from quads_simulator.lab import Config

PASSWORD = "a-password-of-the-lab"
#: Runs at the same time. Starting them is what keeps the machine busy.
AT_ONCE = 5


def members(group: int) -> list[int]:
    """The processes of a process group."""
    found = []
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            try:
                text = (one / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            if int(text[text.rindex(")") + 2 :].split()[2]) == group:
                found.append(int(one.name))
    return found


def test_in_a_load_and_its_sampler_only_the_main_threads_take_signals(world: World) -> None:
    process = world.start(count=500, arrival={"rate": 50})
    wait_until_created(world, 5)
    seen = {pid: blocked(pid) for pid in members(process.pid)}
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=120)
    assert group_is_gone(process.pid)
    assert len(seen) == 2, "the load and its sampler"
    for pid, masks in seen.items():
        main = masks.pop(pid)
        assert masks and not main & set(ENDING)
        assert all(mask >= set(ENDING) for mask in masks.values()), masks


@pytest.fixture
def labs(tmp_path: Path) -> Iterator[list[servers.Running]]:
    """QUADS servers that take three seconds to answer who leases."""
    running = []
    for number in range(AT_ONCE):
        simulator = Simulator(
            Config(move_delay=0.5, validate_delay=0.5, inventory_period=0.5), Clock(coming_saturday())
        )
        simulator.access.add("jo@example.com", PASSWORD)
        simulator.faults.ticket_delay = 3.0
        running.append(servers.start(simulator, tmp_path / f"server-{number}"))
    yield running
    for one in running:
        one.stop()


def lease(lab: servers.Running, artifacts: Path) -> subprocess.Popen[bytes]:
    """Start a run that leases, with nothing of earlier ones to be seen at the server."""
    lab.simulator.received.clear()
    given = {"quads_lease_api_url": lab.url, "quads_lease_ca_path": lab.ca, "quads_lease_username": "jo@example.com"}
    words = [word for name, value in given.items() for word in ("-e", f"{name}={value}")]
    secret = {"SEATRIAL_QUADS_LEASE_PASSWORD": PASSWORD}
    artifacts.mkdir()
    return begin(
        *("-e", "preset=three_nodes", *words), artifacts=artifacts, log=artifacts / "log", project="lease", env=secret
    )


def until(true: Callable[[], Any], what: str, seconds: float = 120) -> None:
    """Wait for something that comes in seconds on an idle machine."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.1)


@pytest.mark.long
@pytest.mark.parametrize("turn", range(10))
def test_an_interrupted_lease_is_given_back(labs: list[servers.Running], tmp_path: Path, turn: int) -> None:
    folders = [tmp_path / f"run-{number}" for number in range(AT_ONCE)]
    runs = [lease(lab, folder) for lab, folder in zip(labs, folders, strict=True)]

    def interrupt(lab: servers.Running, run: subprocess.Popen[bytes]) -> None:
        until(lambda: ("POST", f"{API}/assignments/self") in lab.simulator.received, "no lease was asked for")
        os.killpg(run.pid, signal.SIGINT)

    fingers = [threading.Thread(target=interrupt, args=pair) for pair in zip(labs, runs, strict=True)]
    for one in fingers:
        one.start()
    for one in fingers:
        one.join()
    assert [run.wait(120) for run in runs] == [99] * AT_ONCE  # Ansible's code for Ctrl-C
    for lab, folder in zip(labs, folders, strict=True):
        (run_dir,) = run_dirs(folder)
        record = run_dir / "lease.yml"
        until(lambda record=record: yaml.safe_load(record.read_text())["state"] == "released", f"{record} stays held")
        given = servers.state(lab.simulator)["assignments"]
        assert given and not [one for one in given if one["active"]]
