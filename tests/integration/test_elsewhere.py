"""A load on another host goes on without connection and without controller, and is found again by its run's id."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ssh_server
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import detached_load
from load_play import LoadPlay
from load_world import World

pytestmark = pytest.mark.skipif(bool(ssh_server.usable()), reason=ssh_server.usable() or "there is an sshd")


class Site(LoadPlay):
    """A controller with a run directory, and a host `bastion` that it reaches by ssh only."""

    def __init__(self, world: World, server: ssh_server.Server, folder: Path) -> None:
        self.server = server
        self.root = folder / "loads"
        self.place = detached_load.LoadDirectory(self.root, world.run_id, "001")
        settings = {
            "workload_run_on": "bastion",
            "workload_elsewhere_dir": str(self.root),
            "workload_elsewhere_interval": 1,
            "workload_canary_rate": 0,
        }
        super().__init__(world, folder, {"bastion": server.variables()}, settings)

    def created(self) -> int:
        ledger = self.place.point / "ledger.jsonl"
        return ledger.read_bytes().count(b'"created"') if ledger.exists() else 0


@pytest.fixture
def site(world: World, tmp_path: Path) -> Iterator[Site]:
    server = ssh_server.Server(tmp_path / "sshd")
    made = Site(world, server, tmp_path)
    yield made
    detached_load.remove_load_directory(made.place)
    with contextlib.suppress(AssertionError):
        server.cut()


def until(true: Any, what: str, patience: float = 240.0) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, f"not within {patience:g} s: {what}"
        time.sleep(0.05)


def test_a_load_outlives_its_controller_and_its_connection_and_its_files_come_back(site: Site) -> None:
    load = ("-e", '{"workload_count": 260, "workload_arrival": {"type": "constant", "rate": 8}}')
    first = site.begin("first.log", *load)
    until(lambda: site.created() >= 5 or first.poll() is not None, "the load begins")
    assert first.poll() is None, site.said("first.log")
    os.killpg(first.pid, signal.SIGKILL)
    first.wait(timeout=120)
    site.server.cut()
    before = site.created()
    until(lambda: site.created() > before + 5, "it goes on without controller and connection")
    site.server.start()
    second = site.begin("second.log", *load)
    until(lambda: "found the load again by its run id" in site.said("second.log"), "it is found again")
    site.server.cut()
    until(lambda: "no connection while" in site.said("second.log"), "the lost connection is told")
    site.server.start()
    assert second.wait(timeout=300) == 0, site.said("second.log")
    point = site.point
    rows = list(files.read_json_lines(point / "ledger.jsonl"))
    assert Counter(row["outcome"] for row in rows if row["type"] == "attempt") == {"created": 260}
    assert len([row for row in rows if row["type"] == "session"]) == 1, "one load, never begun anew"
    assert (point / "plan.jsonl").exists() and (point / "observations.jsonl").exists()
    assert len(site.world.names()) == 260
    assert not site.place.path.exists(), "nothing is left there, no kubeconfig either"
    assert files.read_json(point / "elsewhere.json")["state"] == "fetched"


@pytest.mark.long
def test_a_load_elsewhere_is_ended_by_whoever_cleans_up(site: Site) -> None:
    load = ("-e", '{"workload_count": 2000, "workload_arrival": {"type": "constant", "rate": 5}}')
    first = site.begin("first.log", *load)
    until(lambda: site.created() >= 3 or first.poll() is not None, "the load begins")
    assert first.poll() is None, site.said("first.log")
    os.killpg(first.pid, signal.SIGKILL)
    first.wait(timeout=120)
    process = site.place.living()
    assert process is not None
    assert site.begin("stop.log", "-e", "entry=stop").wait(timeout=300) == 0, site.said("stop.log")
    assert not process.lives() and not site.place.path.exists()
    assert not (site.point / "elsewhere.json").exists()
    assert detached_load.remove_load_directory(site.place) is False, "safe twice"
