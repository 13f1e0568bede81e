"""Workloads that are stopped one by one when their lifetime is over."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import load_context_access
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.random_draws import draw_number_for_workload
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import (
    creation_ledger,
    object_creator,
    timed_requests,
)
from scripted_server import RESET, Asked, ScriptedServer, status_object

DELETED = (200, status_object(200, "", ""))
MISSING = (404, status_object(404, "NotFound", "not there"))
BUSY = (503, status_object(503, "ServiceUnavailable", "later"))
FORBIDDEN = (403, status_object(403, "Forbidden", "you may not"))
SOON = {"type": "uniform", "low": 0.05, "high": 0.4}


class Trial:
    """Lifetimes with a scripted server; ``rows`` is what the ledger would get."""

    def __init__(self, server: ScriptedServer, folder: Path, retry_time: float, lifetime: dict[str, Any]) -> None:
        self.rows: list[dict[str, Any]] = []
        self.clock = MonotonicWallClock.start()

        def write(text: str) -> None:
            row = json.loads(text)
            files.validate_schema_if_enabled("ledger/1", row)
            self.rows.append(row)

        access = load_context_access(server.kubeconfig(folder / "kubeconfig"))
        settings = object_creator.SenderSettings(access, self.clock, write, 2.0, retry_time, "test-run", "001")
        self.lifetimes = timed_requests.WorkloadLifetimeStopper(settings, lifetime, 7, self.find, stopped={9})

    @staticmethod
    def find(index: int) -> tuple[str, str, str]:
        return "StatefulSet", "/apis/apps/v1/namespaces/n/statefulsets", f"test-run-001-{index}"

    def wait(self) -> None:
        deadline = time.monotonic() + 120
        while self.lifetimes.left:
            assert time.monotonic() < deadline, "not all were stopped"
            self.lifetimes.check()
            time.sleep(0.01)


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function from answers (one a request, the last one repeated) to (requests, Trial)."""
    monkeypatch.setattr(timed_requests, "_PAUSE", 0.01)
    open_servers: list[ScriptedServer] = []
    trials: list[Trial] = []

    def make(*answers: Any, retry_time: float = 5.0, lifetime: Any = None) -> tuple[list[Asked], Trial]:
        asked: list[Asked] = []
        left, lock = list(answers), threading.Lock()

        def answer(request: Asked) -> Any:
            with lock:
                asked.append(request)
                return left.pop(0) if len(left) > 1 else left[0]

        server = ScriptedServer(answer).__enter__()
        open_servers.append(server)
        trials.append(Trial(server, tmp_path, retry_time, lifetime or SOON))
        return asked, trials[-1]

    yield make
    for one in trials:
        one.lifetimes.close(2.0)
    for server in open_servers:
        server.__exit__()


def test_each_workload_is_stopped_when_its_own_time_is_over(trial: Any) -> None:
    asked, one = trial(DELETED)
    since = {index: one.clock.now() for index in range(6)}
    one.lifetimes.note(since.items())
    assert one.lifetimes.left == 6
    one.wait()
    due = {
        index: since[index] + draw_number_for_workload(index, SOON, 7, timed_requests.LIFETIME_STREAM)
        for index in since
    }
    assert [row["index"] for row in one.rows] == sorted(due, key=lambda index: due[index]), "in the order of their ends"
    for row in one.rows:
        assert row["intended"] == pytest.approx(due[row["index"]], abs=1e-4)
        assert row["sent"] >= row["intended"] and row["type"] == "stop" and row["kind"] == "StatefulSet"
    assert {(request.method, request.path) for request in asked} == {
        ("DELETE", f"/apis/apps/v1/namespaces/n/statefulsets/test-run-001-{index}") for index in since
    }
    assert all(json.loads(request.body)["propagationPolicy"] == "Background" for request in asked)


def test_what_an_earlier_session_stopped_or_noted_twice_is_stopped_once_and_what_is_overdue_at_once(trial: Any) -> None:
    asked, one = trial(DELETED, lifetime={"type": "fixed", "mean": 3600})
    one.lifetimes.note([(9, 0.0), (1, one.clock.now() - 4000), (1, one.clock.now() - 4000)])
    one.wait()
    assert [request.path.rpartition("-")[2] for request in asked] == ["1"]
    assert one.lifetimes.stopped == {1, 9}


def test_a_server_that_is_busy_or_silent_is_asked_again_and_what_is_gone_is_stopped(trial: Any) -> None:
    _asked, one = trial(BUSY, RESET, MISSING)
    one.lifetimes.note([(0, one.clock.now())])
    one.wait()
    assert [row["status"] for row in one.rows] == [503, 0, 404]


def test_a_404_of_a_proxy_does_not_count_as_stopped(trial: Any) -> None:
    asked, one = trial((404, b"404 page not found"), DELETED)
    one.lifetimes.note([(0, one.clock.now())])
    one.wait()
    assert [row["status"] for row in one.rows] == [0, 200] and len(asked) == 2


@pytest.mark.parametrize(
    ("answer", "retry_time", "error"),
    [(FORBIDDEN, 5.0, ApiError), (BUSY, 0.0, ApiError), (RESET, 0.0, AccessError)],
)
def test_a_workload_that_cannot_be_stopped_ends_the_load(
    trial: Any, answer: Any, retry_time: float, error: type[Exception]
) -> None:
    _asked, one = trial(answer, retry_time=retry_time)
    one.lifetimes.note([(0, one.clock.now())])
    with pytest.raises(error, match=r"DELETE .*test-run-001-0"):
        one.wait()
    assert one.lifetimes.left == 1


def test_after_the_end_of_the_load_nothing_is_stopped(trial: Any) -> None:
    asked, one = trial(DELETED, lifetime={"type": "fixed", "mean": 0.3})
    one.lifetimes.note([(0, one.clock.now())])
    one.lifetimes.close(2.0)
    assert one.lifetimes.left == 1 and not asked
    one.lifetimes.check()


def test_a_resumed_load_knows_what_was_stopped() -> None:
    row = {"type": "stop", "index": 3, "name": "x", "kind": "StatefulSet"}
    past = creation_ledger.ResumeState()
    for index, status in ((3, 200), (4, 503), (5, 404), (6, 0)):
        past.take({**row, "index": index, "status": status})
    assert past.stopped == {3, 5}
