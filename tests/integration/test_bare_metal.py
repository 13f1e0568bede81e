"""The whole chain on made-up machines: lease, inventory, installation through BMCs, a measurement, everything back.

The QUADS server is a simulator, the BMCs are emulated, the installer is a stand-in (tests/support) that hands out
a rehearsal cluster. No hardware was ever touched by these tests.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from bare_metal_lab import CANARIES, NAMES, Lab, lab
from playbook import begin, environment, play, run_dirs

#: The measurement is not what is tried here, nor how busy this machine is.
SMALL = ["-e", "fine_tuning_count=2", "-e", "fine_tuning_run_seconds=1", "-e", "workload_max_lateness=60"]
SMALL += ["-e", "fine_tuning_api=job"]


@pytest.fixture
def made_up(tmp_path: Path, rehearsal: Any) -> Iterator[Lab]:
    """A lab whose six machines, once installed, are the six nodes of a rehearsal cluster."""
    with Client.from_kubeconfig(rehearsal.kubeconfig) as client:
        fake_nodes.create_fake_nodes(
            client, simulated_node_pool.NodePoolSpec(6, pool="lab"), 240, lambda _line: None, False
        )
        try:
            with lab(tmp_path / "lab", str(rehearsal.kubeconfig)) as running:
                yield running
        finally:
            fake_nodes.create_fake_nodes(
                client, simulated_node_pool.NodePoolSpec(0, pool="lab"), 240, lambda _line: None, False
            )


def test_leased_machines_become_a_cluster_that_is_measured_and_everything_is_given_back(
    made_up: Lab, tmp_path: Path
) -> None:
    words = ["-i", str(made_up.inventory), "-e", "preset=light,bare_metal", *SMALL]
    done = play(*words, artifacts=tmp_path / "artifacts", env=made_up.environment)
    (run_dir,) = run_dirs(tmp_path / "artifacts")
    assert done.code == 0, done.output[-6000:]
    record = files.read_yaml(run_dir / "cluster.yml")["clusters"]["sutest"]
    assert record["provider"] == "openshift_agent" and record["state"] == "released" and record["simulated"]
    assert [one["name"] for one in record["provider_data"]["machines"]] == NAMES
    assert record["provider_data"]["rendezvous"] == "198.18.0.10"
    assert files.read_json(run_dir / "verdict.json")["verdict"] in ("pass", "inconclusive")
    for one in made_up.bmcs.state().values():
        assert sum("InsertMedia" in line for line in one["log"]) == 1, "each was booted once"
    assert made_up.left() == []
    told = done.output + "".join(
        path.read_text(errors="replace") for path in run_dir.rglob("*") if path.is_file() and path.suffix != ".png"
    )
    assert [one for one in CANARIES if one in told] == []


def end(process: subprocess.Popen[bytes], how: str) -> None:
    """kill: SIGKILL to ansible-playbook alone; interrupt: Ctrl-C to its whole group."""
    if process.poll() is None:
        if how == "interrupt":
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.kill()
        process.wait(600)  # one that is interrupted gives back


def give_back(made_up: Lab, run_dir: Path) -> None:
    """Run the command that the run directory holds; nothing may be left then."""
    done = subprocess.run(
        ["bash", "-c", (run_dir / "GIVE_BACK").read_text(encoding="utf-8")],
        env=environment(run_dir.parent, made_up.environment),
        timeout=600,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    until = time.monotonic() + 120  # a module that was killed with its run ends within seconds
    while made_up.left() and time.monotonic() < until:
        time.sleep(0.5)
    assert made_up.left() == []
    assert files.read_yaml(run_dir / "run.yml")["held"] == []


@pytest.mark.long
def test_a_run_that_is_killed_while_machines_boot_leaves_nothing_after_the_give_back_command(
    made_up: Lab, tmp_path: Path
) -> None:
    words = ["-i", str(made_up.inventory), "-e", "preset=light,bare_metal", "--tags", "lease,cluster"]
    where = {"artifacts": tmp_path / "artifacts", "log": tmp_path / "log", "env": made_up.environment}
    process = begin(*words, **where)
    until = time.monotonic() + 300
    while not any(one["media"] for one in made_up.bmcs.state().values()):
        assert process.poll() is None and time.monotonic() < until, (tmp_path / "log").read_text()[-3000:]
        time.sleep(0.1)
    end(process, "kill")
    assert made_up.leases() and made_up.left()
    (run_dir,) = run_dirs(tmp_path / "artifacts")
    again = play(*words, "-e", f"run_dir={run_dir}", artifacts=tmp_path / "artifacts", env=made_up.environment)
    assert "was interrupted before its machines were booted, and can't be continued: release it" in again.flat()
    give_back(made_up, run_dir)


@contextlib.contextmanager
def web_server(folder: Path) -> Iterator[str]:
    """A web server that somebody else runs over the folder of images."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    folder.mkdir(parents=True, exist_ok=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.long
def test_an_installation_that_was_interrupted_is_gone_on_with_and_a_kept_cluster_keeps_its_lease(
    made_up: Lab, tmp_path: Path
) -> None:
    made_up.stand_in.configure(seconds={"agent wait-for bootstrap-complete": 20})
    where: dict[str, Any] = {"artifacts": tmp_path / "artifacts", "env": made_up.environment}
    with web_server(made_up.folder / "share") as url:
        words = ["-i", str(made_up.inventory), "-e", "preset=light,bare_metal", "-e", f"cluster_agent_share_url={url}"]
        # -v: tasks are shown
        process = begin("-v", *words, "--tags", "lease,cluster", log=tmp_path / "log", **where)
        until = time.monotonic() + 300
        while b"Wait until the control plane runs" not in (tmp_path / "log").read_bytes():
            assert process.poll() is None and time.monotonic() < until, (tmp_path / "log").read_text()[-3000:]
            time.sleep(0.1)
        end(process, "kill")
        (run_dir,) = run_dirs(tmp_path / "artifacts")
        made_up.stand_in.configure(seconds={})
        kept = ["-e", f"run_dir={run_dir}", "-e", "cluster_keep=true"]
        done = play(*words, *kept, "--tags", "cluster", **where)
        assert done.code == 0, done.output[-6000:]
        for one in made_up.bmcs.state().values():
            assert sum("InsertMedia" in line for line in one["log"]) == 1, "each was booted once"
            assert one["power"] == "On" and not one["media"]
    asked = play(*words, *kept, "--tags", "release", **where)
    assert asked.code != 0 and "is kept (cluster_keep)" in asked.flat()
    assert len(made_up.leases()) == 1, "the machines of a kept cluster stay ours"
    assert {one["power"] for one in made_up.bmcs.state().values()} == {"On"}
    give_back(made_up, run_dir)


#: A run has about this many tasks; moments are drawn from among them, so that a slow machine reaches the late ones too.
TASKS = 150
MOMENTS = [(seed, random.Random(seed).randint(5, TASKS), ("kill", "interrupt")[seed % 2]) for seed in range(10)]


@pytest.mark.long
@pytest.mark.parametrize(("seed", "moment", "how"), MOMENTS)
def test_nothing_is_left_after_the_give_back_command_of_a_run_that_ended_at_any_moment(
    made_up: Lab, tmp_path: Path, seed: int, moment: int, how: str
) -> None:
    words = ["-v", "-i", str(made_up.inventory), "-e", "preset=light,bare_metal", *SMALL]  # -v: all tasks
    log = tmp_path / "log"
    process = begin(*words, artifacts=tmp_path / "artifacts", log=log, env=made_up.environment)
    until = time.monotonic() + 1200
    while process.poll() is None and log.read_bytes().count(b"TASK [") < moment:
        assert time.monotonic() < until, log.read_text()[-3000:]
        time.sleep(0.1)
    time.sleep(random.Random(seed).uniform(0, 2))  # somewhere within the task
    end(process, how)
    found = run_dirs(tmp_path / "artifacts")
    if not found:
        assert made_up.left() == [], "something was taken before the give-back command was written"
        return
    give_back(made_up, found[0])
