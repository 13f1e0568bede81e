"""A load on another host goes on without connection and without controller, and is found again by its run's id."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ssh_server
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._remote import detached_load
from load_world import SUSPENDED, World
from playbook import PROGRAM, ROOT, environment

pytestmark = pytest.mark.skipif(bool(ssh_server.usable()), reason=ssh_server.usable() or "there is an sshd")

PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: perfscale.seatrial.workload
        tasks_from: "{{ entry | default('main') }}"
        rolespec_validate: false
"""


class Site:
    """A controller with a run directory, and a host `bastion` that it reaches by ssh only."""

    def __init__(self, world: World, server: ssh_server.Server, folder: Path) -> None:
        self.world, self.server, self.folder = world, server, folder
        self.run_dir = folder / "run"
        self.run_dir.mkdir()
        self.root = folder / "loads"
        self.place = detached_load.LoadDirectory(self.root, world.run_id, "001")
        self.play = folder / "play.yml"
        self.play.write_text(PLAY, encoding="utf-8")
        self.template = folder / "job.yml.j2"
        self.template.write_text(SUSPENDED, encoding="utf-8")
        local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        values = {
            "run_id": world.run_id,
            "run_dir": str(self.run_dir),
            "workload_run_on": "bastion",
            "workload_elsewhere_dir": str(self.root),
            "workload_elsewhere_interval": 1,
            "workload_kubeconfig": world.kubeconfig,
            "workload_context": "",
            "workload_namespace": world.namespace,
            "workload_simulated_writers": ["node"],
            "workload_templates": [{"src": str(self.template)}],
            "workload_wait": False,
            "workload_canary_rate": 0,
            "workload_settle": 0.2,
        }
        hosts = {"localhost": local, "bastion": server.variables()}
        _files.write_yaml(folder / "hosts.yml", {"all": {"hosts": hosts, "vars": values}})

    def begin(self, log: str, *words: str) -> subprocess.Popen[bytes]:
        command = [str(PROGRAM), "-i", str(self.folder / "hosts.yml"), str(self.play), *words]
        where = environment(self.folder, {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections")})
        with open(self.folder / log, "wb") as stream:
            return subprocess.Popen(
                command, cwd=self.folder, env=where, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
                start_new_session=True,
            )  # fmt: skip

    def said(self, log: str) -> str:
        return " ".join((self.folder / log).read_text(encoding="utf-8", errors="replace").split())

    def created(self) -> int:
        ledger = self.place.point / "ledger.jsonl"
        return ledger.read_bytes().count(b'"created"') if ledger.exists() else 0


@pytest.fixture
def site(world: World, tmp_path: Path) -> Iterator[Site]:
    server = ssh_server.Server(tmp_path / "sshd")
    made = Site(world, server, tmp_path)
    yield made
    detached_load.remove(made.place)
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
    point = site.run_dir / "points" / "001"
    rows = list(_files.read_lines(point / "ledger.jsonl"))
    assert Counter(row["outcome"] for row in rows if row["type"] == "attempt") == {"created": 260}
    assert len([row for row in rows if row["type"] == "session"]) == 1, "one load, never begun anew"
    assert (point / "plan.jsonl").exists() and (point / "observations.jsonl").exists()
    assert len(site.world.names()) == 260
    assert not site.place.path.exists(), "nothing is left there, no kubeconfig either"
    assert _files.read_json(point / "elsewhere.json")["state"] == "fetched"


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
    assert not (site.run_dir / "points" / "001" / "elsewhere.json").exists()
    assert detached_load.remove(site.place) is False, "safe twice"
