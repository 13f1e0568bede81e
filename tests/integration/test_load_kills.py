"""kill -9 at any moment, to the submitter, the sampler or both; taken up again, the load is exact to the last row."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections import Counter

import drive_workload
import pytest
from load_bench import child_of
from load_world import World, final, group_is_gone

COUNT = 1000
WHOM = ("submitter", "sampler", "both")


def kill(pid: int, whom: str) -> bool:
    """Kill; return whether there was somebody."""
    sampler = child_of(pid)
    with contextlib.suppress(ProcessLookupError):
        if whom == "both":
            os.killpg(pid, signal.SIGKILL)
        else:
            victim = pid if whom == "submitter" else sampler
            if not victim:
                return False
            os.kill(victim, signal.SIGKILL)
        return True
    return False


def wait_for_a_moment(world: World, process: subprocess.Popen[str], chance: random.Random, whom: str) -> None:
    """Wait for a random moment within the start of Python now and then, mostly within the load, however slow it is."""
    if chance.random() < 0.2:
        time.sleep(chance.uniform(0.0, 0.5))
        return
    path = world.point_dir / "ledger.jsonl"
    enough = chance.randrange(COUNT - 50)
    while process.poll() is None:
        done = path.read_bytes().count(b'"created"') if path.exists() else 0
        if done >= enough and (whom != "sampler" or child_of(process.pid)):
            return
        time.sleep(0.01)


def tear(world: World, chance: random.Random) -> None:
    """Now and then leave half a line at the end of a file, as a power cut would."""
    for name in ("ledger.jsonl", "observations.jsonl"):
        path = world.point_dir / name
        if path.exists() and chance.random() < 0.3:
            with open(path, "ab") as stream:
                stream.write(b'{"type":"attempt","index":7,"na')


@pytest.mark.long
@pytest.mark.parametrize("seed", range(50))
def test_a_load_killed_at_random_moments_is_exact_when_it_is_taken_up_again(world: World, seed: int) -> None:
    chance = random.Random(seed)
    killed: list[str] = []
    for _attempt in range(24):
        process = world.start(count=COUNT, in_flight=16)
        enough = len(killed) >= 1 + seed % 3
        if not enough:
            whom = WHOM[(seed + len(killed)) % 3]
            wait_for_a_moment(world, process, chance, whom)
            if process.poll() is None and kill(process.pid, whom):
                killed.append(whom)
        said, _none = process.communicate(timeout=120)
        if enough:
            break
        assert group_is_gone(process.pid), "the sampler outlived its submitter"
        tear(world, chance)
    assert killed, "the load was always over before it was killed"
    print(f"seed {seed}: killed {', '.join(killed)}")
    wanted = sorted(f"{world.run_id}-001-{index}" for index in range(COUNT))
    assert world.names() == wanted, said
    told = final(world.rows("ledger", "attempt"))
    assert sorted(told) == wanted and set(told.values()) == {1}
    rows = world.rows("observations", "event")
    seen = Counter(row["index"] for row in rows if row["kind"] == "Job")
    assert set(seen) == set(range(COUNT)), "a workload was never seen"
    again = [row for row, count in Counter(repr((row["uid"], row["values"])) for row in rows).items() if count > 1]
    assert again == [], "what was known was written again"


def test_one_kill_of_each_kind_in_a_short_load(world: World) -> None:
    # Not more than one at a time: what is overdue after a kill must not be over before the next one.
    load = {"count": 150, "arrival": {"rate": 25}, "in_flight": 1}
    for number, whom in enumerate(WHOM):
        process = world.start(**load)
        deadline = time.monotonic() + 120
        path = world.point_dir / "ledger.jsonl"
        while not (path.exists() and path.read_bytes().count(b'"created"') >= 10 + 30 * number):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        assert kill(process.pid, whom)
        process.communicate(timeout=120)
    found = world.submit(**load)
    assert found["counts"]["created"] + found["counts"]["already_mine"] == 150 == len(world.names())
    told = final(world.rows("ledger", "attempt"))
    assert len(told) == 150 and set(told.values()) == {1}
    assert found["sessions"] == 4
    assert drive_workload.result(world.start("sample", timeout=5))["counts"]["seen"] == 150
