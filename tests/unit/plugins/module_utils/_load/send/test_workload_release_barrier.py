"""A barrier: workloads that wait until enough are ready, and are then released at their times."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import load_context_access
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import (
    creation_ledger,
    object_creator,
    workload_release_barrier,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.workload_release_barrier import (
    ReleaseBatch,
    ReleaseSpec,
)
from scripted_server import RESET, Asked, ScriptedServer, status_object

CLOSED = {"type": "closed"}
BUSY = (503, status_object(503, "ServiceUnavailable", "later"))
FORBIDDEN = (403, status_object(403, "Forbidden", "you may not"))


def spec(count: int = 4, **more: Any) -> ReleaseSpec:
    given = {"stage": "ready", "arrival": CLOSED, "required": "all", "timeout": 60.0, "abort": False, **more}
    return ReleaseSpec.from_params(given, count, 7)


def test_batches_follow_from_the_arrivals() -> None:
    assert spec(5).batches == (ReleaseBatch(5),)
    in_batches = {"type": "closed", "batch": 2, "delay": 3}
    assert spec(5, arrival=in_batches).batches == (ReleaseBatch(2), ReleaseBatch(4, None, 3), ReleaseBatch(5, None, 3))
    assert spec(4, arrival={"type": "closed", "batch": 2}).batches == (ReleaseBatch(2), ReleaseBatch(4))
    assert spec(3, arrival={"type": "constant", "rate": 2}).batches == (
        ReleaseBatch(1, 0.0),
        ReleaseBatch(2, 0.5),
        ReleaseBatch(3, 1.0),
    )
    bursts = spec(4, arrival={"type": "burst", "rate": 1, "size": 2}).batches
    assert [(one.until, one.offset) for one in bursts] == [(2, 0.0), (4, 2.0)], "one write for each burst"
    poisson = {"type": "poisson", "rate": 2}
    assert spec(9, arrival=poisson).batches == spec(9, arrival=poisson).batches, "drawn from the seed"


@pytest.mark.parametrize(
    ("text", "number"), [("all", 40), ("95 %", 38), ("95%", 38), ("99.9 %", 40), ("1", 1), ("40", 40), ("5 %", 2)]
)
def test_the_required_number(text: str, number: int) -> None:
    assert workload_release_barrier.required_ready_count(text, 40) == number


@pytest.mark.parametrize("text", ["", "none", "0", "41", "0 %", "101 %", "-3", "95 percent"])
def test_a_required_number_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"must be all, a percentage such as 95 %, or a number from 1 to 40"):
        workload_release_barrier.required_ready_count(text, 40)


def test_a_release_that_cannot_be_is_refused() -> None:
    given = {"stage": "redy", "arrival": CLOSED, "required": "all", "timeout": 1.0, "abort": False}
    with pytest.raises(InputError, match=r"no stage 'redy' \(did you mean ready\?\)|no stage 'redy'.*ready"):
        workload_release_barrier.check_release_is_possible(given, 3, 1, ["created", "ready"])
    with pytest.raises(InputError, match="at_once"):
        spec(3, arrival={"type": "closed", "at_once": 2})
    with pytest.raises(InputError, match="timeout is -1"):
        spec(3, timeout=-1.0)
    steps = {"type": "steps", "steps": [{"rate": 1, "duration": 2}]}
    with pytest.raises(InputError, match="2"):
        spec(3, arrival=steps)


class Trial:
    """Releases with a server that has the Lease; ``rows`` is what the ledger would get."""

    def __init__(self, folder: Path, what: ReleaseSpec, count: int, answers: list[Any], released: int = 0) -> None:
        self.rows: list[dict[str, Any]] = []
        self.asked: list[Asked] = []
        self.pods: list[dict[str, Any]] = []
        self._answers, self._version, self._lock = answers, 100, threading.Lock()
        self.server = ScriptedServer(self._answer).__enter__()

        def write(text: str) -> None:
            row = json.loads(text)
            files.validate_schema_if_enabled("ledger/1", row)
            self.rows.append(row)

        access = load_context_access(self.server.kubeconfig(folder / "kubeconfig"))
        settings = object_creator.SenderSettings(access, MonotonicWallClock.start(), write, 2.0, 1.0, "test-run", "001")
        self.releases = workload_release_barrier.WorkloadReleaser(settings, what, "n", count, released)

    def _answer(self, request: Asked) -> Any:
        with self._lock:
            self.asked.append(request)
            if request.method == "GET":
                return 200, {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": self.pods}
            if request.method == "PATCH" and self._answers:
                return self._answers.pop(0)
            self._version += 1
            labels = json.loads(request.body).get("metadata", {}).get("labels")
            metadata = {"name": "x", "labels": labels, "resourceVersion": str(self._version)}
            return 200, {"kind": "Lease", "metadata": metadata}

    @property
    def written(self) -> list[int]:
        return [json.loads(one.body)["spec"]["leaseTransitions"] for one in self.asked if one.method == "PATCH"]

    def wait(self) -> None:
        deadline = time.monotonic() + 120
        while self.releases.left:
            assert time.monotonic() < deadline, "not all were released"
            self.releases.check()
            time.sleep(0.01)


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(workload_release_barrier, "_PAUSE", 0.01)
    made: list[Trial] = []

    def make(what: ReleaseSpec, *answers: Any, count: int = 4, released: int = 0) -> Trial:
        made.append(Trial(tmp_path, what, count, list(answers), released))
        return made[-1]

    yield make
    for one in made:
        one.releases.close(2.0)
        one.server.__exit__()


def ready(*indices: int) -> list[tuple[int, str]]:
    return [(one, "ready") for one in indices]


def test_all_are_released_with_one_write_when_the_last_one_is_ready(trial: Any) -> None:
    one = trial(spec())
    one.releases.create()
    one.releases.note(ready(0, 1, 2, 3))
    assert one.releases.look() == "" and not one.written, "not before everything was created"
    one.releases.begin_timeout()
    assert one.releases.look() == ""
    one.wait()
    assert one.written == [4]
    posted = json.loads(next(asked.body for asked in one.asked if asked.method == "POST"))
    assert (
        posted["metadata"]["name"]
        == workload_release_barrier.release_lease_name("test-run", "001")
        == "test-run-001-release"
    )
    assert posted["metadata"]["labels"] == {"perfscale.seatrial/run": "test-run", "perfscale.seatrial/point": "001"}
    (row,) = one.rows
    assert (row["released"], row["status"], row["resource_version"]) == (4, 200, "102")
    assert row["intended"] <= row["sent"] <= row["answered"]


def test_the_barrier_waits_for_those_that_may_still_be_ready(trial: Any) -> None:
    one = trial(spec(required="50 %"))
    one.releases.begin_timeout()
    one.releases.note(ready(0, 1, 2))
    assert one.releases.look() == "" and not one.written
    one.releases.note([(3, "failed")])
    assert one.releases.look() == ""
    one.wait()
    assert one.written == [4]


def test_too_few_at_the_end_of_the_timeout_are_named_with_what_their_pods_say(trial: Any) -> None:
    one = trial(spec(timeout=0.0, required="3"))
    labels = {run_labels.RUN: "test-run", run_labels.POINT: "001", run_labels.INDEX: "1"}
    waiting = {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
    one.pods = [
        {"metadata": {"name": "p", "labels": labels}, "status": {"containerStatuses": [waiting]}},
        {"metadata": {"name": "of-others", "labels": {**labels, run_labels.INDEX: "x"}}, "status": {}},
    ]
    one.releases.begin_timeout()
    one.releases.note([*ready(0, 2), (3, "failed")])
    assert one.releases.look() == (
        "after 0 s 2 of 4 were ready and 3 are required; missing: "
        "test-run-001-1 (ErrImagePull: no such image), test-run-001-3 (failed)"
    )
    assert not one.written


def test_if_the_required_number_cannot_be_ready_the_load_ends_at_once(trial: Any) -> None:
    one = trial(spec())
    one.releases.begin_timeout()
    one.releases.note([*ready(0, 1), (2, "failed")])
    assert one.releases.look().startswith("2 of 4 were ready and 4 are required; missing: test-run-001-2 (failed)")


def test_at_the_timeout_those_that_are_ready_are_enough(trial: Any) -> None:
    one = trial(spec(timeout=0.0, required="3"))
    one.releases.begin_timeout()
    one.releases.note(ready(0, 1, 3))
    assert one.releases.look() == ""
    one.wait()
    assert one.written == [4]
    assert one.releases.absent == (
        "Not all were ready at the release: after 0 s 3 of 4 were ready and 3 are required; "
        "missing: test-run-001-2 (no pod)"
    )


def test_batches_are_written_in_order_and_the_ledger_has_when_they_were_due(trial: Any) -> None:
    one = trial(spec(arrival={"type": "constant", "rate": 20}))
    one.releases.begin_timeout()
    one.releases.note(ready(0, 1, 2, 3))
    one.releases.look()
    one.wait()
    assert one.written == [1, 2, 3, 4]
    intended = [row["intended"] for row in one.rows]
    assert [round(each - intended[0], 3) for each in intended] == [0.0, 0.05, 0.1, 0.15]
    assert len(one.releases.lateness) == 4 and min(one.releases.lateness) >= 0


def test_a_resumed_load_releases_only_the_others(trial: Any) -> None:
    one = trial(spec(arrival={"type": "constant", "rate": 20}), released=2)
    one.releases.begin_timeout()
    one.releases.note([*ready(2, 3), (0, "succeeded"), (1, "failed")])
    assert one.releases.look() == ""
    one.wait()
    assert one.written == [3, 4]


def test_a_server_that_is_busy_or_silent_is_asked_again(trial: Any) -> None:
    one = trial(spec(), BUSY, RESET)
    one.releases.begin_timeout()
    one.releases.note(ready(0, 1, 2, 3))
    one.releases.look()
    one.wait()
    assert [row["status"] for row in one.rows] == [503, 0, 200]
    assert [("resource_version" in row) for row in one.rows] == [False, False, True]


@pytest.mark.parametrize(("answer", "error"), [(FORBIDDEN, ApiError), (RESET, AccessError)])
def test_a_release_that_cannot_be_written_ends_the_load(
    trial: Any, monkeypatch: pytest.MonkeyPatch, answer: Any, error: type[Exception]
) -> None:
    one = trial(spec(), *([answer] * 1000))
    one.releases.begin_timeout()
    one.releases.note(ready(0, 1, 2, 3))
    one.releases.look()
    with pytest.raises(error):
        one.wait()


def test_with_abort_the_load_ends_when_too_many_have_failed(trial: Any) -> None:
    outcomes = [(0, "failed"), (1, "succeeded"), (2, "deleted")]
    for abort, said in ((False, ""), (True, "2 of 4 failed, and 3 are required to succeed")):
        one = trial(spec(required="3", abort=abort))
        one.releases.begin_timeout()
        one.releases.note(ready(0, 1, 2, 3))
        one.releases.look()
        one.wait()
        one.releases.note(outcomes)
        assert one.releases.look() == said


def test_a_ledger_tells_how_many_were_released(tmp_path: Path) -> None:
    row = {"type": "release", "name": "x", "intended": 1.0, "sent": 1.0, "answered": 2.0}
    rows = [{**row, "released": 2, "status": 200}, {**row, "released": 4, "status": 0}]
    (tmp_path / "ledger.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in rows), encoding="utf-8")
    assert creation_ledger.read_ledger_file(tmp_path / "ledger.jsonl").released == 2
