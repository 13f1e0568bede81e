"""What a sender makes of answers that a real server gives rarely: busy, gone, silent, contradicting itself."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import load_context_access
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.rendered_workload_templates import (
    RenderedTemplate,
    WorkloadDocument,
    WorkloadTemplate,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.workload_plan import PlannedWorkload
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import object_creator
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.creation_ledger import ResumeState
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.plan_dispatcher import ObjectSendDispatcher
from scripted_server import RESET, Asked, ScriptedServer, reply, status_object

BUSY = (429, status_object(429, "TooManyRequests", "later"))
EXISTS = (409, status_object(409, "AlreadyExists", "it exists"))
MISSING = (404, status_object(404, "NotFound", "not there"))


def document(kind: str = "ConfigMap") -> WorkloadDocument:
    names = ["test-run-001-", ""]
    path = f"/api/v1/namespaces/n/{kind.lower()}s"
    return WorkloadDocument("v1", kind, [""], names, [b'{"n":', b"}"], None, [path])


def held(index: int, **changed: str) -> tuple[int, Any]:
    """The metadata that the server holds of an object."""
    metadata = {"name": f"test-run-001-{index}", "uid": "u-held", "resourceVersion": "99"}
    return 200, {
        "metadata": {**metadata, "labels": {**run_labels.workload_labels("test-run", "001", index), **changed}}
    }


def created(number: int) -> tuple[int, Any]:
    return 201, {
        "kind": "PartialObjectMetadata",
        "metadata": {"name": "x", "uid": f"u-{number}", "resourceVersion": "7"},
    }


class Trial:
    """A sender with a scripted server; ``rows`` is what the ledger would get."""

    def __init__(
        self, server: ScriptedServer, folder: Path, retry_time: float = 5.0, user: dict[str, Any] | None = None
    ) -> None:
        self.rows: list[dict[str, Any]] = []
        access = load_context_access(server.kubeconfig(folder / "kubeconfig", user))
        self.halt = threading.Event()

        def write(text: str) -> None:
            row = json.loads(text)
            files.validate_schema_if_enabled("ledger/1", row)
            self.rows.append(row)

        self.settings = object_creator.SenderSettings(
            access, MonotonicWallClock.start(), write, 2.0, retry_time, "test-run", "001"
        )

    def create(self, index: int = 3, due: float | None = None) -> str:
        return object_creator.ObjectSender(self.settings, 0, self.halt).create(document(), index, due)[0]

    def told(self) -> list[tuple[int, int, str]]:
        return [(row["attempt"], row["status"], row["outcome"]) for row in self.rows]


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns a function from answers (one a request, the last one repeated) to (server, Trial)."""
    monkeypatch.setattr(object_creator, "_FIRST_PAUSE", 0.001)
    open_servers: list[ScriptedServer] = []

    def make(*answers: Any, **settings: Any) -> tuple[ScriptedServer, Trial]:
        def answer(asked: Asked) -> Any:
            number = min(len(server.asked), len(answers)) - 1
            return answers[number]

        server = ScriptedServer(answer)
        server.__enter__()
        open_servers.append(server)
        return server, Trial(server, tmp_path, **settings)

    yield make
    for one in open_servers:
        one.__exit__()


Make = Callable[..., tuple[ScriptedServer, Trial]]


def test_a_created_object_is_told_with_its_identity(trial: Make) -> None:
    headers = {"X_Kubernetes_Pf_Flowschema_Uid": "fs-1", "X_Kubernetes_Pf_Prioritylevel_Uid": "pl-1"}
    answer = reply(201, created(1)[1], **headers)
    server, one = trial(answer)
    assert one.create(index=12) == "created"
    (row,) = one.rows
    assert (row["uid"], row["resource_version"], row["name"]) == ("u-1", "7", "test-run-001-12")
    assert (row["flow_schema"], row["priority_level"]) == ("fs-1", "pl-1")
    assert row["sent"] <= row["answered"] and row["intended"] == row["sent"]
    assert (server.asked[0].method, server.asked[0].body) == ("POST", b'{"n":12}')


def test_a_busy_server_is_asked_again_and_each_attempt_is_told(trial: Make) -> None:
    _server, one = trial(BUSY, (503, b""), created(1))
    assert one.create() == "created"
    assert one.told() == [(1, 429, "retry"), (2, 503, "retry"), (3, 201, "created")]
    assert one.rows[0]["reason"] == "TooManyRequests"


def test_a_server_that_stays_busy_has_refused_when_the_time_is_up(trial: Make) -> None:
    _server, one = trial(BUSY, retry_time=0.05)
    assert one.create() == "refused"
    assert one.told()[-1][1:] == (429, "refused") and len(one.rows) > 1


def test_the_time_that_the_server_asks_for_is_waited(trial: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    _server, one = trial(reply(429, b"{}", Retry_After="3"), created(1))
    waits: list[float] = []
    monkeypatch.setattr(one.halt, "wait", lambda seconds: waits.append(seconds) or False)
    assert one.create() == "created"
    assert len(waits) == 1 and 3.0 <= waits[0] < 3.1


def test_a_conflict_with_our_labels_is_ours(trial: Make) -> None:
    _server, one = trial(EXISTS, held(3))
    assert one.create() == "already_mine"
    assert one.told() == [(1, 409, "already_mine")]
    # The version that the GET shows may be a later write's: it must not be taken for the create's.
    assert one.rows[0]["uid"] == "u-held" and "resource_version" not in one.rows[0]


@pytest.mark.parametrize("label", [run_labels.RUN, run_labels.POINT, run_labels.INDEX])
def test_a_conflict_with_any_other_label_is_not_ours(trial: Make, label: str) -> None:
    _server, one = trial(EXISTS, held(3, **{label: "other"}))
    assert one.create() == "refused"
    assert "does not carry this load's labels" in one.rows[0]["message"]


def test_a_lost_answer_is_resolved_by_looking_before_sending_again(trial: Make) -> None:
    server, one = trial(RESET, held(3))
    assert one.create() == "already_mine"
    assert one.told() == [(1, 0, "ambiguous"), (2, 200, "already_mine")]
    assert [asked.method for asked in server.asked] == ["POST", "GET"]


def test_a_lost_request_is_sent_again_when_the_object_is_not_there(trial: Make) -> None:
    server, one = trial(RESET, MISSING, created(1))
    assert one.create() == "created"
    assert [asked.method for asked in server.asked] == ["POST", "GET", "POST"]
    assert one.told() == [(1, 0, "ambiguous"), (2, 201, "created")]


def test_a_request_that_arrives_after_its_resend_was_decided_is_found(trial: Make) -> None:
    """The first POST is slow: not there when we look, there when the second one comes."""
    _server, one = trial(RESET, MISSING, EXISTS, held(3))
    assert one.create() == "already_mine"
    assert one.told() == [(1, 0, "ambiguous"), (2, 409, "already_mine")]


def test_an_object_that_is_being_deleted_is_created_when_it_is_gone(trial: Make) -> None:
    _server, one = trial(EXISTS, MISSING, created(1))
    assert one.create() == "created"
    assert one.told() == [(1, 409, "retry"), (2, 201, "created")]


def test_a_refusal_is_final_and_keeps_what_was_said(trial: Make) -> None:
    server, one = trial((422, status_object(422, "Invalid", "spec.x: " + "y" * 5000)))
    assert one.create() == "refused"
    assert len(server.asked) == 1
    assert one.rows[0]["reason"] == "Invalid" and one.rows[0]["message"].startswith("spec.x: y")
    assert len(one.rows[0]["message"]) == 1000


def test_a_silent_server_ends_the_load_and_says_what_to_do(trial: Make) -> None:
    _server, one = trial(RESET, retry_time=0.05)
    with pytest.raises(AccessError, match="Run the same again: what is missing will be created"):
        one.create()
    assert {row["outcome"] for row in one.rows} == {"ambiguous"}


def test_a_stop_during_a_pause_leaves_the_object_to_the_next_call(trial: Make) -> None:
    _server, one = trial(BUSY)
    one.halt.set()
    with pytest.raises(object_creator.LoadHaltedError):
        one.create()
    assert one.told() == [(1, 429, "retry")]


def test_refused_credentials_end_the_load(trial: Make) -> None:
    _server, one = trial((401, b""))
    with pytest.raises(AccessError, match="refuses our credentials"):
        one.create()


FORBIDDEN = (403, status_object(403, "Forbidden", 'x is forbidden: User "me" cannot create resource "x"'))


def test_a_server_that_has_just_started_is_asked_again_until_it_knows_who_may_what(trial: Make) -> None:
    _server, one = trial(FORBIDDEN, FORBIDDEN, created(1))
    assert one.create() == "created"
    assert one.told() == [(1, 403, "retry"), (2, 403, "retry"), (3, 201, "created")]
    assert one.settings.permissions.refused_since is None


def test_a_permission_that_is_taken_away_is_a_refusal_after_a_while(
    trial: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_creator, "RBAC_STARTUP_TIME", 0.05)
    _server, one = trial(FORBIDDEN)
    assert one.create() == "refused" and len(one.rows) > 1
    # From then on nobody waits again.
    rows = len(one.rows)
    assert one.create(index=4) == "refused" and len(one.rows) == rows + 1


def test_a_quota_is_no_forgetful_server(trial: Make) -> None:
    _server, one = trial((403, status_object(403, "Forbidden", 'x "y" is forbidden: exceeded quota: q')))
    assert one.create() == "refused" and len(one.rows) == 1


def test_an_expired_token_is_read_anew_once_and_the_load_goes_on(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    valid = ["new"]

    def answer(asked: Asked) -> Any:
        return created(1) if asked.headers.get("authorization") == f"Bearer {valid[0]}" else (401, {})

    with ScriptedServer(answer) as server:
        one = Trial(server, tmp_path, user={"tokenFile": str(token)})
        token.write_text("new")
        load_ = dispatch(one, ["ConfigMap"], 30)
        load_.start()
        assert load_.done.wait(120) and load_.error is None
        assert load_.outcomes == {"created": 30}
        refused = [row for row in one.rows if row["status"] == 401]
        # Each of the three senders at most once: whoever comes later finds the new token there.
        assert 1 <= len(refused) <= 3 and {row["outcome"] for row in refused} == {"retry"}
        assert load_.repeats_by_status == {401: len(refused)}
        valid[0] = "newer still"
        token.write_text("not that either")
        with pytest.raises(AccessError, match="refuses our credentials"):
            one.create()


def test_batches_wait_for_each_other_and_pause(tmp_path: Path) -> None:
    under_way: list[int] = []
    most: list[int] = []

    def answer(asked: Asked) -> Any:
        under_way.append(1)
        most.append(len(under_way))
        time.sleep(0.01)
        under_way.pop()
        return created(1)

    with ScriptedServer(answer) as server:
        one = Trial(server, tmp_path)
        load_ = dispatch(one, ["ConfigMap"], 12, loop={"batch": 2, "delay": 0.05})
        load_.start()
        assert load_.done.wait(120)
    assert max(most) <= 2
    rows = sorted(one.rows, key=lambda row: row["index"])
    for first, second in zip(rows[1::2], rows[2::2], strict=False):
        assert second["sent"] - first["answered"] >= 0.049


def test_no_more_workloads_exist_at_once_than_the_loop_allows(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: created(1)) as server:
        one = Trial(server, tmp_path)
        load_ = dispatch(one, ["ConfigMap"], 10, loop={"at_once": 4})
        load_.before = 1
        load_.start()
        for ended in range(8):
            deadline = time.monotonic() + 120
            while len(one.rows) < 3 + ended and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(0.01)
            assert len(one.rows) == 3 + ended, "it sent what there was no room for, or did not use the room"
            load_.note_ended(ended + 1)
        assert load_.done.wait(120) and load_.outcomes == {"created": 10}


def test_a_loop_that_waits_for_room_can_be_stopped(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: created(1)) as server:
        one = Trial(server, tmp_path)
        load_ = dispatch(one, ["ConfigMap"], 10, loop={"at_once": 2})
        load_.start()
        load_.stop(5.0)
        assert load_.done.wait(120)
    assert len(one.rows) <= 2


def test_identity_is_read_from_any_order_of_fields() -> None:
    owner = {"ownerReferences": [{"uid": "of-another"}], "resourceVersion": "5", "uid": "own"}
    partial = {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"uid": "own", "resourceVersion": "5"},
    }
    for body in (
        json.dumps({"apiVersion": "x/v1", "kind": "X", "metadata": owner}).encode(),
        json.dumps(partial, separators=(",", ":")).encode(),
    ):
        assert object_creator.parse_uid_and_version(body) == ("own", "5")


def dispatch(
    one: Trial,
    kinds: list[str],
    count: int,
    past: ResumeState | None = None,
    rate: float | None = None,
    loop: dict[str, Any] | None = None,
) -> ObjectSendDispatcher:
    rendered = RenderedTemplate(WorkloadTemplate("t", ""), [document(kind) for kind in kinds], "n")
    past = past or ResumeState()
    todo = [
        PlannedWorkload(index, f"test-run-001-{index}", None if rate is None else index / rate, "t")
        for index in range(count)
        if (kinds[-1], f"test-run-001-{index}") not in past.outcomes
    ]
    return ObjectSendDispatcher(one.settings, {"t": rendered}, todo, past, 3, loop)


def test_a_workload_whose_related_object_was_refused_is_not_sent(tmp_path: Path) -> None:
    def answer(asked: Asked) -> Any:
        if "configmaps" in asked.path and asked.body in (b'{"n":1}', b'{"n":2}'):
            return 403, status_object(403, "Forbidden", "quota")
        return created(1)

    with ScriptedServer(answer) as server:
        one = Trial(server, tmp_path)
        past = ResumeState(
            outcomes={("ConfigMap", "test-run-001-4"): "created", ("ConfigMap", "test-run-001-5"): "refused"}
        )
        load_ = dispatch(one, ["ConfigMap", "Secret"], 6, past)
        load_.start()
        assert load_.done.wait(120)
    assert load_.error is None
    assert (load_.submitted, load_.outcomes, load_.blocked) == (6, {"created": 3}, 3)
    assert sorted(row["index"] for row in one.rows if row["kind"] == "Secret") == [0, 3, 4]
    # What an earlier session created is not sent again.
    assert sorted(row["index"] for row in one.rows if row["kind"] == "ConfigMap") == [0, 1, 2, 3]


def test_nothing_is_sent_before_its_time_and_lateness_is_what_the_ledger_says(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: created(1)) as server:
        one = Trial(server, tmp_path)
        load_ = dispatch(one, ["ConfigMap"], 20, rate=200.0)
        start = load_.start()
        assert load_.done.wait(120)
    begin = one.settings.clock.from_monotonic(start)
    by_index = {row["index"]: row for row in one.rows}
    for index, row in by_index.items():
        assert row["intended"] == pytest.approx(begin + index / 200.0, abs=2e-6)
        assert row["sent"] >= row["intended"] - 2e-6
    told = sorted(row["sent"] - row["intended"] for row in one.rows)
    assert sorted(load_.lateness) == pytest.approx(told, abs=5e-6)


def test_a_schedule_that_was_interrupted_goes_on_where_it_stood(tmp_path: Path) -> None:
    done = {("ConfigMap", f"test-run-001-{index}"): "created" for index in range(1000)}
    with ScriptedServer(lambda asked: created(1)) as server:
        one = Trial(server, tmp_path)
        load_ = dispatch(one, ["ConfigMap"], 1004, ResumeState(outcomes=done), rate=100.0)
        load_.start()
        assert load_.done.wait(120), "it waited for times that had passed long ago"
    assert sorted(row["index"] for row in one.rows) == [1000, 1001, 1002, 1003]
    times = [row["intended"] for row in sorted(one.rows, key=lambda row: row["index"])]
    assert [later - times[0] for later in times] == pytest.approx([0, 0.01, 0.02, 0.03], abs=1e-5)


def test_the_first_error_stops_all_senders(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: (401, b"")) as server:
        one = Trial(server, tmp_path)
        load_ = dispatch(one, ["ConfigMap"], 500)
        load_.start()
        assert load_.done.wait(120)
    assert isinstance(load_.error, AccessError)
    assert len(server.asked) < 500


def test_a_program_that_gives_no_credentials_for_a_while_is_run_again_and_the_load_goes_on(tmp_path: Path) -> None:
    version = "client.authentication.k8s.io/v1"
    program = tmp_path / "login"
    program.write_text(
        '#!/bin/sh\nd=$(dirname "$0"); echo x >> "$d/calls"; n=$(wc -l < "$d/calls")\n'
        '[ "$n" -gt 1 ] && [ "$n" -lt 4 ] && exit 1\n'
        f'printf \'{{"apiVersion":"{version}","kind":"ExecCredential","status":{{"token":"t%s"}}}}\' $n\n'
    )
    program.chmod(0o755)
    shown: list[str] = []

    def answer(asked: Asked) -> Any:
        shown.append(asked.headers.get("authorization", ""))
        return (401, {}) if shown[-1] == "Bearer t1" else created(1)

    user = {"exec": {"apiVersion": version, "command": str(program), "interactiveMode": "Never"}}
    with ScriptedServer(answer) as server:
        one = Trial(server, tmp_path, user=user)
        assert one.create() == "created"
    assert shown == ["Bearer t1"] * 3 + ["Bearer t4"]
    assert one.told() == [(1, 401, "retry"), (2, 401, "retry"), (3, 401, "retry"), (4, 201, "created")]
    assert "'exec' returned no credentials" in one.rows[0]["message"]


def test_what_was_sent_and_not_answered_is_lost_and_the_rest_unsent(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: BUSY) as server:
        one = Trial(server, tmp_path)
        load_ = dispatch(one, ["ConfigMap"], 50)
        load_.start()
        deadline = time.monotonic() + 60
        while len({row["index"] for row in list(one.rows)}) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        load_.stop(2.0)
    assert load_.lost == len({row["index"] for row in one.rows}) == 3
    assert load_.outcomes == {}
