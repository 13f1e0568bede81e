"""Clients of a load, their caller and the API server killed, stopped and restarted at random moments.

SEATRIAL_KILLS=50 .venv/bin/pytest -s -m long tests/integration/test_client_kills.py
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

import drive_workload
import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import load_in_local_processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.detached_load import LoadDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import load_spec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.load_spec import LoadSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from breakable_cluster import BreakableCluster
from load_world import World, final, world_on

COUNT, RATE, CLIENTS = 120, 20, 3
LOAD: dict[str, Any] = {"clients": CLIENTS, "canary_rate": 10, "count": COUNT, "arrival": {"rate": RATE}}
#: What one kill does; with SEATRIAL_KILLS=6 each is done once.
KILLS = int(os.environ.get("SEATRIAL_KILLS", "6"))


class Round:
    """One load that somebody disturbs."""

    def __init__(self, world: World, cluster: BreakableCluster, chance: random.Random) -> None:
        self.world, self.cluster, self.chance = world, cluster, chance
        given = drive_workload.defaults({**world.options, **LOAD}, load_spec.SUBMIT)
        self.parts = load_in_local_processes.client_directories(LoadSpec.from_params(given))
        self.call = world.start("submit", **LOAD)

    def wait_for_a_moment(self) -> None:
        """Wait for a random one: before the start now and then, mostly while the load is sent."""
        if self.chance.random() < 0.2:
            time.sleep(self.chance.uniform(0.0, 4.0))
            return
        enough = self.chance.randrange(COUNT - 10)
        while self.call.poll() is None and self.created() < enough:
            time.sleep(0.02)

    def created(self) -> int:
        """Return how many workloads the ledgers of the clients have."""
        ledgers = [one.point / "ledger.jsonl" for one in self.parts]
        return sum(path.read_bytes().count(b'"created"') for path in ledgers if path.exists())

    def signal(self, part: LoadDirectory, number: signal.Signals) -> bool:
        """Send a signal to a client and its sampler; return whether it lived."""
        process = part.living()
        with contextlib.suppress(ProcessLookupError):
            if process is not None:
                os.killpg(process.pid, number)
                return True
        return False

    def one(self) -> None:
        """Kill a client."""
        self.signal(self.chance.choice(self.parts), signal.SIGKILL)

    def several(self) -> None:
        """Kill all clients but one, or all."""
        for part in self.chance.sample(self.parts, self.chance.choice((CLIENTS - 1, CLIENTS))):
            self.signal(part, signal.SIGKILL)

    def caller(self) -> None:
        """Kill or interrupt the process that Ansible runs."""
        os.killpg(self.call.pid, self.chance.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)))

    def everything(self) -> None:
        """Kill the caller and all clients, as the end of the machine would."""
        os.killpg(self.call.pid, signal.SIGKILL)
        for part in self.parts:
            self.signal(part, signal.SIGKILL)

    def pause(self) -> None:
        """Stop some clients for seconds, as a machine that swaps or sleeps would."""
        stopped = [part for part in self.parts if self.chance.random() < 0.5 and self.signal(part, signal.SIGSTOP)]
        time.sleep(self.chance.uniform(0.5, 5.0))
        for part in stopped:
            self.signal(part, signal.SIGCONT)

    def server(self) -> None:
        """Kill the API server and start it again."""
        self.cluster.restart_api_server()

    def over(self) -> dict[str, Any]:
        """Wait for the load, and make the call again until one ends it; return its result."""
        for _call in range(4):
            output, _none = self.call.communicate(timeout=300)
            deadline = time.monotonic() + 60
            while any(part.living() for part in self.parts):
                assert time.monotonic() < deadline, "clients outlive their call"
                time.sleep(0.1)
            found = json.loads(output) if output.strip() else {"failed": "killed"}
            if "failed" not in found:
                return dict(found)
            print(f"    called again after: {found}", flush=True)
            self.call = self.world.start("submit", **LOAD)
        raise AssertionError("the load does not end")


WAYS: list[Callable[[Round], None]] = [
    Round.one,
    Round.several,
    Round.caller,
    Round.everything,
    Round.pause,
    Round.server,
]


@pytest.fixture(scope="module")
def breakable(rehearsal_folder: Path) -> Iterator[BreakableCluster]:
    """One control plane for all rounds."""
    yield BreakableCluster(support.options(rehearsal_folder, "client-kills", components=[]))
    cluster_lifecycle.remove_instance(support.options(rehearsal_folder, "client-kills", force=True), support.quiet)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(KILLS))
def test_each_workload_is_created_once_and_accounted_for(
    seed: int, breakable: BreakableCluster, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    with world_on(breakable.info["kubeconfig"], tmp_path) as world:
        done = Round(world, breakable, chance)
        try:
            done.wait_for_a_moment()
            way, alive, at = WAYS[seed % len(WAYS)], done.call.poll() is None, done.created()
            with contextlib.suppress(ProcessLookupError):
                way(done)
            print(f"\nround {seed}: {way.__name__} at {at} created{'' if alive else ', too late'}", flush=True)
            found = done.over()
        finally:
            end(done)
        counts = found["counts"]
        assert counts["created"] + counts["already_mine"] == COUNT and not counts["unknown"], found["msg"]
        wanted = sorted(f"{world.run_id}-001-{index}" for index in range(COUNT))
        assert world.names() == wanted
        told = final(world.rows("ledger", "attempt"))
        assert sorted(told) == wanted and set(told.values()) == {1}, [name for name, times in told.items() if times > 1]
        seen = {row["index"] for row in world.rows("observations", "event")}
        assert seen == set(range(COUNT)), "a workload was never seen"
        table = timeline_builder.build_timeline_of_workloads(world.point_dir, world.run_id, "001")
        assert Counter(table.outcome) == {"unfinished": COUNT} and table.contradictions == {}
        assert not (world.point_dir / "clients" / world.run_id).exists(), "what was joined is left"


def end(round_: Round) -> None:
    """End whatever a failed round leaves."""
    for part in round_.parts:
        round_.signal(part, signal.SIGKILL)
    if round_.call.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(round_.call.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            round_.call.wait(timeout=30)
