"""A load that several clients send: processes on this machine, against a real API server."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import drive_workload
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import boot_id
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import load_in_local_processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.detached_load import LoadDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import load_spec, prepare_load
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.load_spec import LoadSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from load_world import World, final
from processes import traces

CLIENTS = 3


def request_of(world: World, **more: Any) -> LoadSpec:
    return LoadSpec.from_params(drive_workload.defaults({**world.options, **more}, load_spec.SUBMIT))


def sampled(world: World, **more: Any) -> dict[str, Any]:
    """Options of a load by several clients, of jobs that do not run: whoever sees them all has seen enough."""
    return {"clients": CLIENTS, "canary_rate": 10, **more}


def test_several_clients_send_the_plan_of_one_and_give_one_timeline(world: World, tmp_path: Path) -> None:
    load = sampled(world, count=61, arrival={"type": "poisson", "rate": 20}, seed=5)
    found = world.submit(**load)
    assert not found.get("failed"), found
    assert (found["counts"]["created"], found["counts"]["planned"], found["counts"]["unknown"]) == (61, 61, 0)
    assert [one["counts"]["created"] for one in found["clients"]] == [21, 20, 20]
    assert all(one["lateness"]["p99"] >= 0 for one in found["clients"]) and "by 3 clients" in found["msg"]
    alone = request_of(world, **{**load, "clients": 1, "point_dir": str(tmp_path / "alone")})
    prepare_load.write_plan_shared_by_clients(alone, 1)
    assert (tmp_path / "alone" / "plan.jsonl").read_bytes() == (world.point_dir / "plan.jsonl").read_bytes()
    attempts = world.rows("ledger", "attempt")
    assert set(final(attempts).values()) == {1} and len(final(attempts)) == 61 == len(world.names())
    client = 0
    for row in files.read_json_lines(world.point_dir / "ledger.jsonl"):
        client = row["client"] if row["type"] == "session" else client
        assert row["type"] != "attempt" or row["index"] % CLIENTS == client
    seen: dict[int, set[int]] = {}
    for row in files.read_json_lines(world.point_dir / "observations.jsonl"):
        client = row["client"] if row["type"] == "session" else client
        if row["type"] == "event":
            seen.setdefault(client, set()).add(row["index"] % CLIENTS)
    assert seen == {0: {0}, 1: {1}, 2: {2}}, "each client samples what it sent"
    table = timeline_builder.build_timeline_of_workloads(world.point_dir, world.run_id, "001")
    assert Counter(table.outcome) == {"unfinished": 61} and table.contradictions == {}
    for entry in table.header["clocks"]:
        low, high = entry["offset"]
        # The resolution of seconds since 1970 in a float is 0.24 µs.
        assert low <= 1e-6 and high >= -1e-6, "they run on one machine, so their clocks are the same"
    lease = world.client.kind("coordination.k8s.io/v1", "Lease")
    selector = f"{run_labels.RUN}={world.run_id}"
    assert world.client.list(lease, world.namespace, selector)[0] == [], "no Lease of the start or a canary is left"
    again = world.submit(**load)
    assert again["changed"] is False and again["counts"] == found["counts"]


def begun(world: World, load: dict[str, Any], workloads: int) -> tuple[subprocess.Popen[str], list[LoadDirectory]]:
    """Start a load; return its process and the directories of its clients once there are so many workloads."""
    call = world.start("submit", **load)
    parts = load_in_local_processes.client_directories(request_of(world, **load))
    deadline = time.monotonic() + 120
    while len(world.names()) < workloads:
        assert time.monotonic() < deadline and call.poll() is None, call.communicate()
        time.sleep(0.1)
    return call, parts


def kill_all(call: subprocess.Popen[str], parts: list[LoadDirectory]) -> None:
    """Kill the clients that are running and the process that started them."""
    os.killpg(call.pid, signal.SIGKILL)  # first, as it would start the others again
    call.wait(timeout=120)
    for process in filter(None, (one.living() for one in parts)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 120
    while any(traces(one.path) for one in parts):
        assert time.monotonic() < deadline, "a client or its sampler outlives SIGKILL"
        time.sleep(0.1)


@pytest.mark.parametrize("victim", ["client", "all"])
def test_a_killed_client_is_started_again_and_sends_each_workload_once(world: World, victim: str) -> None:
    load = sampled(world, count=90, arrival={"type": "constant", "rate": 15})
    call, parts = begun(world, load, 20)
    if victim == "client":
        process = parts[1].living()
        assert process is not None
        os.killpg(process.pid, signal.SIGKILL)
        found = drive_workload.result(call, 240)
        assert [one["sessions"] for one in found["clients"]] == [1, 2, 1], "the others were not disturbed"
    else:
        kill_all(call, parts)
        found = world.submit(**load)
    assert not found.get("failed"), found
    counts = found["counts"]
    assert counts["created"] + counts["already_mine"] == 90 == len(world.names()), found["msg"]
    assert set(final(world.rows("ledger", "attempt")).values()) == {1}


def test_a_client_ends_with_the_call_that_started_it(world: World) -> None:
    load = sampled(world, count=2000, arrival={"type": "constant", "rate": 5})
    call, parts = begun(world, load, 5)
    call.kill()
    call.wait(timeout=120)
    deadline = time.monotonic() + 120
    while any(one.living() for one in parts):
        assert time.monotonic() < deadline, "clients outlive their call"
        time.sleep(0.1)


def test_what_clients_can_not_send_is_refused_before_anything_is_created(world: World) -> None:
    with pytest.raises(InputError, match="a loop of one client"):
        prepare_load.write_plan_shared_by_clients(
            request_of(world, arrival={"type": "closed", "at_once": 2}, wait=True), 3
        )
    assert not world.names() and not (world.point_dir / "plan.jsonl").exists()


@pytest.mark.long
def test_a_client_that_continues_on_another_machine_sends_what_is_missing(world: World) -> None:
    load = sampled(world, count=90, arrival={"type": "constant", "rate": 15})
    call, parts = begun(world, load, 30)
    kill_all(call, parts)
    for name in ("ledger.jsonl", "observations.jsonl"):  # as if another machine had recorded what client 1 has
        path = parts[1].point / name
        path.write_text(path.read_text().replace(boot_id(), "00000000-another-machine"), encoding="utf-8")
    time.sleep(1.0)  # by the common schedule, each has a workload that is due
    resumed = time.time()
    found = world.submit(**load)
    assert found["counts"]["created"] + found["counts"]["already_mine"] == 90 == len(world.names()), found
    attempts = world.rows("ledger", "attempt")
    assert set(final(attempts).values()) == {1} and len(final(attempts)) == 90
    client, sessions, boots = 0, Counter[int](), dict[int, str]()
    first: dict[int, float] = {}
    for row in files.read_json_lines(world.point_dir / "ledger.jsonl"):
        if row["type"] == "session":
            client = row["client"]
            sessions[client] += 1
            boots[client] = row["anchor"]["boot"]
        elif row["type"] == "attempt" and sessions[client] == 2:
            first[client] = min(row["intended"], first.get(client, row["intended"]))
    assert set(sessions.values()) == {2} and set(boots.values()) == {boot_id()}
    assert first[1] > resumed, "no clock relates it to the start: it continues with the first missing workload"
    assert first[0] < resumed and first[2] < resumed, "the others follow the common schedule, and are late"
    table = timeline_builder.build_timeline_of_workloads(world.point_dir, world.run_id, "001")
    assert Counter(table.outcome) == {"unfinished": 90} and table.contradictions == {}
