"""Narrowing by an audit log: correct for any server clock; the log is ignored where it cannot be trusted."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import audit_and_creation_times
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.audit_and_creation_times import (
    SeparateEtcd,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from split_point import WrongClock

EPOCH = 1_795_000_000.0
KEY = ("jobs", "n", "test-run-001-0")


def line(verb: str, received: float, answered: float, **more: Any) -> str:
    def text(at: float) -> str:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    record = {
        "stage": "ResponseComplete",
        "verb": verb,
        "requestURI": "/apis/batch/v1/namespaces/n/jobs",
        "objectRef": {"resource": "jobs", "namespace": "n", "name": "test-run-001-0"},
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": text(received),
        "stageTimestamp": text(answered),
    }
    return json.dumps({**record, **more}) + "\n"


def test_only_writes_that_were_done_count(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text(
        line("create", EPOCH, EPOCH + 0.01)
        + line("update", EPOCH + 1, EPOCH + 1.02)
        + line("patch", EPOCH + 2, EPOCH + 2.01, responseStatus={"code": 409})
        + line("create", EPOCH - 5, EPOCH - 4, requestURI="/apis/batch/v1/namespaces/n/jobs?dryRun=All")
        + line("get", EPOCH + 3, EPOCH + 3.01)
        + line("update", EPOCH + 4, EPOCH + 4.01, stage="RequestReceived")
        + line("update", EPOCH + 5, EPOCH + 5.1).replace("test-run", "other-run")
        + line("update", EPOCH + 6, EPOCH + 6.1)[:-9]
    )
    log = audit_and_creation_times.read_audit_log([path], "test-run")
    assert {key: len(found) for key, found in log.writes.items()} == {KEY: 2}
    assert log.creates[KEY] == pytest.approx(EPOCH, abs=1e-5)


MOMENTS = st.floats(0, 100)
WINDOWS = st.lists(st.tuples(MOMENTS, st.floats(0, 3)).map(lambda one: (one[0], one[0] + one[1])), max_size=8)


@settings(deadline=None)
@given(WINDOWS, MOMENTS, st.floats(0, 20))
def test_what_is_cut_off_holds_no_write(windows: list[tuple[float, float]], earliest: float, width: float) -> None:
    latest = earliest + width
    found = audit_and_creation_times.AuditLog({KEY: windows}).narrow(KEY, earliest, latest)
    meet = [one for one in windows if one[0] <= latest and one[1] >= earliest]
    assert (found is None) == (not meet)
    if found is not None:
        assert earliest <= found[0] <= found[1] <= latest
        for begin, end in meet:
            assert found[0] <= max(begin, earliest) and found[1] >= min(end, latest)


@settings(deadline=None)
@given(
    st.builds(WrongClock, st.floats(-3600, 3600), st.floats(-0.009, 0.009)),
    st.lists(st.tuples(MOMENTS, st.floats(0.001, 0.5), st.floats(0, 1)), min_size=1, max_size=20),
    st.lists(MOMENTS, max_size=5),
)
def test_a_write_lies_within_its_bounds_on_our_clock_for_any_clock_of_the_server(
    server: WrongClock, creates: list[tuple[float, float, float]], others: list[float]
) -> None:
    """The server received each create between our sending and its answer; its clock may also run wrong."""
    log = audit_and_creation_times.AuditLog()
    sent = []
    truth = {}
    for number, (at, took, share) in enumerate(creates):
        key = ("jobs", "n", str(number))
        truth[key] = EPOCH + at + took * share, EPOCH + at + took
        log.creates[key] = server.shows(truth[key][0])
        sent.append((key, EPOCH + at, EPOCH + at + took))
    for number, at in enumerate(others):
        truth["pods", "n", str(number)] = EPOCH + at, EPOCH + at + 0.01
    log.writes = {key: [(server.shows(begin), server.shows(end))] for key, (begin, end) in truth.items()}
    ours = audit_and_creation_times.map_server_clock_to_ours(log, sent)
    assert ours is not None
    moved = audit_and_creation_times.convert_to_client_clock(log, ours)
    for key, (begin, end) in truth.items():
        ((earliest, latest),) = moved.writes[key]
        assert earliest <= begin + 2e-6 and latest >= end - 2e-6


def test_clocks_that_contradict_each_other_leave_the_log_out() -> None:
    log = audit_and_creation_times.AuditLog(creates={("jobs", "n", "0"): 10.0, ("jobs", "n", "1"): 25.0})
    sent = [(("jobs", "n", "0"), 10.0, 10.1), (("jobs", "n", "1"), 20.0, 20.1)]
    assert (
        audit_and_creation_times.map_server_clock_to_ours(log, sent) is None
        and audit_and_creation_times.map_server_clock_to_ours(log, []) is None
    )


@settings(deadline=None)
@given(
    st.floats(-3600, 3600),
    st.lists(st.tuples(MOMENTS, st.floats(0.001, 0.5)), min_size=1, max_size=20),
    MOMENTS,
)
def test_a_second_that_the_server_states_holds_the_moment_on_our_clock(
    offset: float, creates: list[tuple[float, float]], at: float
) -> None:
    def stated(moment: float) -> str:
        return datetime.fromtimestamp(int(EPOCH + moment + offset), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    found: list[tuple[float, float]] = []
    separate = SeparateEtcd()
    separate.keep(lambda _row, first, last: found.append((first, last)), 0, EPOCH - 5, EPOCH + 200, stated(at))
    for begin, took in creates:
        separate.created(stated(begin + took / 2), EPOCH + begin, EPOCH + begin + took)
    separate.settle()
    ((first, last),) = found
    assert first - 1e-5 <= EPOCH + at <= last + 1e-5
    near = min(abs(begin - at) for begin, _took in creates)
    assert last - first <= 3.1 + 2 * 0.0101 * (near + 3)  # in between the clocks may drift
