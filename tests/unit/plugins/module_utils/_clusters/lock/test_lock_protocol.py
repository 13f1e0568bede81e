"""The lock of a cluster: under every interleaving at most one run believes that it holds it, and all get their turn."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    OwnershipError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import boot_clock, boot_id
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.lock import (
    lock_protocol,
    lock_records,
    lock_session,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.lock.lock_records import (
    LeaseConflictError,
    LockLease,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from scripted_server import Asked, ScriptedServer, status_object

DURATION = 12
RUNS = 4


class Server:
    """What an API server promises of objects with versions; ``time`` is true time, which nobody else can read."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.kept: dict[str, LockLease] = {}
        self.count = itertools.count(1)

    def named(self, name: str) -> LockLease | None:
        return self.kept.get(name)

    def put(self, entry: LockLease) -> LockLease:
        there = self.kept.get(entry.name)
        if (there.version if there else "") != entry.version:
            raise LeaseConflictError(entry.name)
        uid = there.uid if there else f"uid-{next(self.count)}"
        created = there.created if there else f"{int(self.time):09d}"
        self.kept[entry.name] = replace(entry, uid=uid, created=created, version=str(next(self.count)))
        return self.kept[entry.name]

    def remove(self, entry: LockLease) -> None:
        there = self.kept.get(entry.name)
        if there is not None:
            if (there.uid, there.version) != (entry.uid, entry.version):
                raise LeaseConflictError(entry.name)
            del self.kept[entry.name]


class Run:
    """One run with a clock of its own, which goes ``rate`` times as fast as true time and began somewhere else."""

    def __init__(self, server: Server, name: str, rate: float, offset: float) -> None:
        self.server, self.name, self.rate, self.offset = server, name, rate, offset
        self.lose_answer = False
        self.alive = True
        self.view: lock_protocol.LockView | None = None
        self.holding: lock_protocol.HeldLock | None = None
        self.contender = lock_protocol.LockContender(
            self, lock_protocol.LockIdentity(name, duration=DURATION), self.clock, self.clock
        )

    def clock(self) -> float:
        return self.server.time * self.rate + self.offset

    def believes(self) -> bool:
        return self.alive and self.holding is not None and self.clock() <= self.holding.deadline

    # The store, whose answers may be lost on their way

    def look(self) -> list[LockLease]:
        return list(self.server.kept.values())

    def named(self, name: str) -> LockLease | None:
        return self.server.named(name)

    def put(self, entry: LockLease) -> LockLease:
        done = self.server.put(entry)
        if self.lose_answer:
            self.lose_answer = False
            raise AccessError("no answer")
        return done

    def remove(self, entry: LockLease) -> None:
        self.server.remove(entry)

    def approximate_server_time(self) -> float:
        return self.clock()


class Interleaved(RuleBasedStateMachine):
    """Runs whose steps are mixed in any order: between a look and what follows from it anything may happen."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.runs: list[Run] = []
        for number in range(RUNS):
            rate, offset = (1.0, 0.87, 1.13, 1.0)[number], number * 1e5
            self.runs.append(Run(self.server, f"run-{number:02d}", rate, offset))

    which = st.integers(0, RUNS - 1)

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0, 8.0, 13.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.server.time += seconds

    @rule(number=which)
    def look(self, number: int) -> None:
        run = self.runs[number]
        if run.alive and run.holding is None:
            run.view = run.contender.look()

    @rule(number=which)
    def act(self, number: int) -> None:
        run = self.runs[number]
        if run.alive and run.holding is None and run.view is not None:
            view, run.view = run.view, None
            try:
                run.holding = run.contender.act(view)
            except AccessError:
                pass

    @rule(number=which)
    def look_and_act(self, number: int) -> None:
        self.look(number)
        self.act(number)

    @rule()
    def everybody_looks_and_acts(self) -> None:
        for number in range(RUNS):
            self.look_and_act(number)

    @rule(number=which)
    def renew(self, number: int) -> None:
        run = self.runs[number]
        if run.alive and run.holding is not None:
            try:
                run.holding.renew()
            except lock_protocol.LockLost:
                run.holding = None
            except AccessError:
                pass

    @rule(number=which)
    def lose_the_next_answer(self, number: int) -> None:
        self.runs[number].lose_answer = True

    @rule(number=which)
    def release(self, number: int) -> None:
        run = self.runs[number]
        if run.alive and run.holding is not None:
            run.holding.release()
            run.holding = None

    @rule(number=which, really=st.sampled_from([True, False, False]))
    def die(self, number: int, really: bool) -> None:
        if not really:
            return
        self.runs[number].alive = False
        # Another run comes in its place: the machine never runs out of them.
        self.runs[number] = Run(self.server, f"run-{next(self.server.count):04d}", self.runs[number].rate, 5.0)

    @invariant()
    def at_most_one_believes(self) -> None:
        holders = [run.name for run in self.runs if run.believes()]
        assert len(holders) <= 1, f"{holders} hold the lock at once"


TestInterleaved = Interleaved.TestCase
TestInterleaved.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_every_run_that_lives_gets_its_turn_and_the_others_learn_of_those_that_died(seed: int) -> None:
    draw = random.Random(seed)
    server = Server()
    runs = [Run(server, f"run-{number:02d}", draw.uniform(0.87, 1.13), draw.uniform(-1e6, 1e6)) for number in range(8)]
    doomed = {run.name for run in draw.sample(runs, 3)}
    done: set[str] = set()
    for _round in range(500):
        for run in draw.sample(runs, len(runs)):
            server.time += draw.uniform(0.05, 0.4)
            if not run.alive or run.name in done:
                continue
            if run.holding is None:
                run.holding = step(run)
                if run.holding is not None:
                    run.contender.leave()
            elif run.name in doomed and draw.random() < 0.3:
                run.alive = False
            elif draw.random() < 0.2:
                run.holding.release()
                done.add(run.name)
            else:
                run.holding.renew()
            assert sum(one.believes() for one in runs if one.name not in done) <= 1
    assert done | {run.name for run in runs if not run.alive} == {run.name for run in runs}
    left = [entry for entry in server.kept.values() if entry.role == lock_records.WAITER]
    assert left == []


def two_runs() -> tuple[Server, Run, Run]:
    server = Server()
    first, second = Run(server, "run-one", 1.0, 0.0), Run(server, "run-two", 1.0, 7e5)
    first.holding = first.contender.act(first.contender.look())
    assert first.holding is not None
    return server, first, second


def step(run: Run) -> lock_protocol.HeldLock | None:
    run.view = run.contender.look()
    return run.contender.act(run.view)


def test_a_lock_is_not_broken_because_its_times_look_old_to_us() -> None:
    server, first, second = two_runs()
    entry = server.kept[lock_records.NAME]
    server.kept[lock_records.NAME] = replace(entry, acquired=1.0, renewed=1.0)
    assert step(second) is None
    server.time += DURATION - 1
    assert step(second) is None, "it was not watched for its whole duration"


def test_a_lock_that_was_abandoned_long_ago_is_broken_after_one_duration_of_watching() -> None:
    server, first, second = two_runs()
    server.time += 1e6
    assert step(second) is None
    server.time += DURATION + 0.1
    held = step(second)
    assert held is not None
    assert held.entry.transitions == 1
    with pytest.raises(lock_protocol.LockLost):
        first.holding.renew()  # type: ignore[union-attr]


def test_each_sign_of_life_begins_the_watch_anew() -> None:
    server, first, second = two_runs()
    for _turn in range(5):
        assert step(second) is None
        server.time += DURATION * 0.6
        assert first.holding is not None
        first.holding.renew()
    server.time += DURATION * 0.6
    assert step(second) is None


def test_waiters_come_in_the_order_in_which_they_came_and_know_their_place() -> None:
    server, first, second = two_runs()
    third = Run(server, "run-a-third", 1.0, 3.0)
    step(second)
    server.time += 2
    step(third)
    view = third.contender.look()
    assert (view.position("run-two"), view.position("run-a-third")) == (1, 2)
    assert "place 2 of 2" in lock_protocol.describe_place_in_queue(view, "run-a-third", "api.example.com")
    assert "run run-one holds it" in lock_protocol.describe_place_in_queue(view, "run-a-third", "api.example.com")
    assert first.holding is not None
    first.holding.release()
    assert step(third) is None, "it is not its turn"
    assert step(second) is not None


def test_a_newcomer_does_not_pass_those_who_wait() -> None:
    server, first, second = two_runs()
    step(second)
    assert first.holding is not None
    first.holding.release()
    assert step(Run(server, "run-new", 1.0, 1.0)) is None


def test_the_same_run_finds_its_lock_again_after_it_was_killed() -> None:
    server, first, _second = two_runs()
    again = Run(server, "run-one", 1.0, 99.0)
    held = step(again)
    assert held is not None
    assert held.entry.transitions == 0
    assert held.entry.acquired == first.holding.entry.acquired  # type: ignore[union-attr]


def test_two_processes_of_one_run_renew_its_lock_side_by_side() -> None:
    server, first, _second = two_runs()
    there = Run(server, "run-one", 1.1, 42.0)
    there.holding = step(there)
    for _turn in range(20):
        for one in (first, there):
            server.time += 1.0
            assert one.holding is not None
            one.holding.renew()  # it meets the other's renewal, looks, and renews that the next time
            one.holding.renew()
        assert first.believes() and there.believes()


def test_an_answer_that_was_lost_is_not_taken_for_the_lock_but_the_lock_is_found() -> None:
    server = Server()
    run = Run(server, "run-one", 1.0, 0.0)
    run.lose_answer = True
    with pytest.raises(AccessError):
        step(run)
    held = step(run)
    assert held is not None and held.at == run.clock()


def test_giving_back_twice_and_without_having_anything_is_fine() -> None:
    server, _first, second = two_runs()
    step(second)
    assert {one.role for one in lock_protocol.delete_leases_of_run(second, "run-one")} == {lock_records.HOLDER}
    assert {one.role for one in lock_protocol.delete_leases_of_run(second, "run-two")} == {lock_records.WAITER}
    assert lock_protocol.delete_leases_of_run(second, "run-two") == []
    assert server.kept == {}


def test_a_lease_that_changes_at_each_attempt_to_delete_it_is_not_released() -> None:
    server, _first, second = two_runs()
    second.remove = lambda entry: server.remove(replace(entry, version="old"))  # type: ignore[method-assign]
    with pytest.raises(WaitTimeout, match=f"Lease {lock_records.NAME} of run run-one is still there after 5 attempts"):
        lock_protocol.delete_leases_of_run(second, "run-one")
    assert list(server.kept) == [lock_records.NAME]


def test_a_waiter_of_others_with_a_lease_of_years_leaves_the_queue_after_minutes() -> None:
    server = Server()
    stranger = replace(lock_protocol.LockIdentity("x", duration=2**31 - 1).entry(lock_records.WAITER, 0.0), name="zz")
    server.put(stranger)
    run = Run(server, "run-one", 1.0, 0.0)
    assert step(run) is None
    for _minute in range(6):
        server.time += 60
        held = step(run)
    assert held is not None


def test_a_waiter_with_a_long_duration_renews_its_place_before_others_remove_it() -> None:
    server, _first, second = two_runs()
    second.contender.who = replace(second.contender.who, duration=7200)
    third = Run(server, "run-a-third", 1.0, 3.0)
    place = lock_records.waiter_lease_name("run-two")
    for _minute in range(20):
        step(second)
        step(third)
        assert place in server.kept
        server.time += 60


def test_a_holder_with_a_long_duration_is_watched_for_all_of_it() -> None:
    server, _first, second = two_runs()
    server.kept[lock_records.NAME] = replace(server.kept[lock_records.NAME], duration=7200)
    for _minute in range(20):
        assert step(second) is None
        server.time += 60


def record(**more: Any) -> dict[str, Any]:
    """A lock file's content."""
    process = {"pid": 1, "ticks": 1}
    stamp = "2026-11-21T10:00:00Z"
    return {
        "schema": "lock/1",
        "state": "held",
        "cluster": "api.example.com",
        "namespace": "default",
        "run": "t1121-abcdef",
        "owner": "",
        "purpose": "",
        "waited": 0.0,
        "duration": 60,
        "since": stamp,
        "renewed": stamp,
        "until": stamp,
        "deadline": boot_clock() + 60,
        "boot": boot_id(),
        "keeper": process,
        "caller": process,
        "lost": "",
        **more,
    }


def test_a_lock_counts_as_lost_when_its_keeper_said_so_or_stopped_renewing(tmp_path: Path) -> None:
    path = tmp_path / "lock-sutest.json"
    assert lock_records.describe_lost_lock(tmp_path) == ""
    lock_records.write_lock_record(path, record())
    assert lock_records.describe_lost_lock(tmp_path) == ""
    lock_records.write_lock_record(path, record(deadline=boot_clock() - 1))
    assert "was not renewed since 2026-11-21T10:00:00Z" in lock_records.describe_lost_lock(tmp_path)
    lock_records.write_lock_record(path, record(state="released", lost="run t1121-others holds it"))
    assert "run t1121-others holds it" in lock_records.describe_lost_lock(tmp_path)
    lock_records.write_lock_record(path, record(deadline=0.0, boot="another machine"))
    assert lock_records.describe_lost_lock(tmp_path) == ""


def test_times_of_leases_are_read_as_the_server_writes_them() -> None:
    assert (
        lock_records.parse_micro_time("2026-11-21T10:00:00.250000Z")
        - lock_records.parse_micro_time("2026-11-21T10:00:00Z")
        == 0.25
    )
    assert lock_records.parse_micro_time(lock_records.format_micro_time(1.5e9)) == 1.5e9
    assert lock_records.parse_micro_time(None) == lock_records.parse_micro_time("soon") == 0.0


@pytest.mark.parametrize("renewed", ["9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+14:00", 5, ["x"], "NaN"])
@pytest.mark.parametrize("duration", [None, 2**31 - 1, 10**30, -5])
def test_times_that_another_has_written_are_shown_and_break_nothing(renewed: Any, duration: Any) -> None:
    spec = {"holderIdentity": "other", "renewTime": renewed, "acquireTime": renewed, "leaseDurationSeconds": duration}
    lease = lock_records.LockLease.of({"metadata": {"name": lock_records.NAME}, "spec": spec})
    assert 1 <= lease.duration < 2**31
    assert lock_protocol.describe_lock_holder(lease).startswith("run other holds it since ")
    assert lease.manifest("ns")["spec"]["acquireTime"].endswith("Z")
    assert lease.summary()["until"] <= "9999-12-31T23:59:59Z"


@pytest.mark.parametrize("lease", [{}, [], {"metadata": {"name": "a"}, "spec": {"leaseDurationSeconds": "x"}}])
def test_a_lease_of_another_form_is_the_error_of_the_server(lease: Any) -> None:
    with pytest.raises(AccessError, match="Lease: the answer has an unexpected form"):
        lock_records.LockLease.of(lease)


def test_the_record_of_a_lock_whose_lease_is_still_there_stays_held(tmp_path: Path) -> None:
    lease = LockLease(lock_records.NAME, lock_records.HOLDER, "run-one", 60, uid="u", version="1").manifest("default")

    def answer(asked: Asked) -> Any:
        if asked.method == "DELETE":
            return 409, status_object(409, "Conflict", "it changed")
        return 200, {"metadata": {}, "items": [lease]}

    path = tmp_path / "lock-a.json"
    lock_records.write_lock_record(path, record(run="run-one"))
    with ScriptedServer(answer) as server:
        options = {"context": "", "namespace": "default", "run_id": "run-one", "owner": "", "purpose": ""}
        options |= {"kubeconfig": server.kubeconfig(tmp_path / "kubeconfig"), "duration": 60, "timeout": 0.0}
        spec = lock_session.LockSpec.of({**options, "lock_file": path, "caller_pid": 0}, 1)
        with pytest.raises(
            AccessError, match="^run run-one still holds its lock, which expires by itself.*still there"
        ):
            lock_session.release_cluster_lock(spec)
        assert (lock_records.read_lock_record(path) or {})["state"] == lock_records.HELD
        result = lock_session.release_cluster_lock(spec, server_required=False)
        assert "still holds its lock" in result["warning"] and result["lock"]["state"] == lock_records.HELD


class LeaseServer:
    """Leases on an API server whose webhook takes the labels from what is created or updated.

    creations, updates: whether it takes them from these.
    """

    def __init__(self, creations: bool, updates: bool) -> None:
        self.creations, self.updates = creations, updates
        self.leases: dict[str, dict[str, Any]] = {}
        self.count = itertools.count(1)

    def answer(self, asked: Asked) -> Any:
        name = asked.path.partition("?")[0].rpartition("/leases")[2].removeprefix("/")
        body = json.loads(asked.body) if asked.body else {}
        if asked.method == "GET":
            return 200, {"metadata": {}, "items": list(self.leases.values())}
        if asked.method == "POST" and body["metadata"]["name"] in self.leases:
            return 409, status_object(409, "AlreadyExists", name)
        if asked.method == "DELETE":
            version = body["preconditions"].get("resourceVersion")
            there = self.leases[name]["metadata"]
            if body["preconditions"]["uid"] != there["uid"] or version not in (None, there["resourceVersion"]):
                return 409, status_object(409, "Conflict", name)
            return 200, self.leases.pop(name)
        metadata = {"uid": f"u{next(self.count)}", **body["metadata"], "resourceVersion": str(next(self.count))}
        if self.creations if asked.method == "POST" else self.updates:
            metadata["labels"] = {}
        self.leases[metadata["name"]] = {**body, "metadata": metadata}
        return 200, self.leases[metadata["name"]]


def contender_at(server: ScriptedServer, tmp_path: Path, run: str) -> lock_protocol.LockContender:
    client = Client.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig"))
    return lock_protocol.LockContender(
        lock_records.ServerStore(client, "default"), lock_protocol.LockIdentity(run, duration=60)
    )


def test_a_lease_that_has_lost_its_label_is_released_by_its_name(tmp_path: Path) -> None:
    leases = LeaseServer(creations=False, updates=True)
    leases.leases["other"] = {"metadata": {"name": "other", "uid": "o"}, "spec": {"holderIdentity": "run-one"}}
    with ScriptedServer(leases.answer) as server:
        contender = contender_at(server, tmp_path, "run-one")
        held = contender.act(contender.look())
        assert held is not None
        held.renew()
        assert contender.store.look() == [] and lock_records.NAME in leases.leases
        assert lock_protocol.delete_leases_of_run(contender.store, "run-two") == []
        held.release()
    assert list(leases.leases) == ["other"], "that one has another name"


def test_a_place_in_the_queue_that_has_lost_its_label_is_left(tmp_path: Path) -> None:
    leases = LeaseServer(creations=False, updates=False)
    with ScriptedServer(leases.answer) as server:
        first, second = (contender_at(server, tmp_path, run) for run in ("run-one", "run-two"))
        assert first.act(first.look()) is not None and second.act(second.look()) is None
        leases.leases[lock_records.waiter_lease_name("run-two")]["metadata"]["labels"] = {}
        second.leave()
    assert list(leases.leases) == [lock_records.NAME]


def test_a_lock_whose_label_a_webhook_takes_at_once_is_refused_and_not_left(tmp_path: Path) -> None:
    leases = LeaseServer(creations=True, updates=True)
    with ScriptedServer(leases.answer) as server:
        contender = contender_at(server, tmp_path, "run-one")
        with pytest.raises(OwnershipError, match="takes the label .*Lease default/perfscale-seatrial.*removed again"):
            contender.act(contender.look())
    assert leases.leases == {}
