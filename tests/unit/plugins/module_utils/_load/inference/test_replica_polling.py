# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the looks at the servers write."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import read_json_lines, session_line
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference import replica_polling
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.replica_polling import (
    SCHEMA,
    ReplicaChanges,
    ReplicaPollingSpec,
)
from scripted_server import Asked, ScriptedServer


def pod(name: str, node: str = "", running: bool = False, ready: bool = False, deleted: bool = False) -> dict[str, Any]:
    labels = {"app": "s"}
    meta = {
        "name": name,
        "uid": f"uid-{name}",
        "labels": labels,
        **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}),
    }
    state = {"running": {}} if running else {"waiting": {}}
    status = {
        "containerStatuses": [{"name": "server", "state": state}] if node else [],
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}, "status": status}


def deployment(replicas: int) -> dict[str, Any]:
    return {"metadata": {"name": "servers", "labels": {"app": "s"}}, "spec": {"replicas": replicas}}


def stages(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(record["pod"], record["stage"]) for record in records if record["type"] == "pod"]


def test_a_change_lies_between_the_begin_of_the_look_before_and_the_end_of_the_one_that_shows_it() -> None:
    changes = ReplicaChanges()
    first = changes.take([pod("a", "n", True, True)], [deployment(1)], 10.0, 10.05)
    assert {record["since"] for record in first} == {None} and len(first) == 5
    second = changes.take([pod("a", "n", True, True), pod("b")], [deployment(2)], 10.2, 10.25)
    assert second == [
        {"type": "desired", "name": "servers", "replicas": 2, "at": 10.25, "since": 10.0},
        {"type": "pod", "pod": "b", "stage": "created", "at": 10.25, "since": 10.0},
    ]
    for record in [*first, *second]:
        files.validate_schema_if_enabled(SCHEMA, record)


def test_each_stage_of_a_pod_is_written_once() -> None:
    changes = ReplicaChanges()
    states = [pod("a"), pod("a", "n"), pod("a", "n"), pod("a", "n", True), pod("a", "n", True, True)]
    found = [stages(changes.take([state], [], at, at)) for at, state in enumerate(states)]
    assert found == [[("a", "created")], [("a", "scheduled")], [], [("a", "started")], [("a", "ready")]]
    assert changes.take([states[-1]], [], 9, 9) == []


def test_a_pod_that_is_deleted_is_gone_once_and_one_that_is_not_ready_may_be_again() -> None:
    changes = ReplicaChanges()
    ready, unready = pod("a", "n", True, True), pod("a", "n", True, False)
    looks = [[ready], [unready], [ready], [pod("a", "n", True, True, deleted=True)], [], []]
    found = [stages(changes.take(look, [], at, at)) for at, look in enumerate(looks)]
    assert found[1:] == [[("a", "unready")], [("a", "ready")], [("a", "gone")], [], []]
    assert stages(changes.take([pod("b")], [], 7, 7)) == [("b", "created")]
    assert stages(changes.take([], [], 8, 8)) == [("b", "gone")]


def watched(tmp_path: Path, answer: Callable[[Asked], Any], body: Callable[[], None]) -> list[dict[str, Any]]:
    """Run ``body`` while the servers of a cluster are watched; return the records."""
    with ScriptedServer(answer) as server:
        spec = ReplicaPollingSpec(str(server.kubeconfig(tmp_path / "kubeconfig")), "", "ns", "app=s")
        session = session_line(SCHEMA, "t1126-abcdef", "001", MonotonicWallClock.start())
        with replica_polling.poll_replicas(spec, tmp_path / "scale.jsonl", session, lambda: None):
            body()
    return list(read_json_lines(tmp_path / "scale.jsonl"))


def one_server(asked: Asked) -> Any:
    """Answer as an API server with one Deployment and one pod."""
    path = asked.path.partition("?")[0]
    if path in ("/api/v1", "/apis/apps/v1"):
        kind = "Pod" if path == "/api/v1" else "Deployment"
        return 200, {"resources": [{"kind": kind, "name": f"{kind.lower()}s", "namespaced": True}]}
    item = pod("a", "n", True, True) if path.endswith("/pods") else deployment(1)
    return 200, {"items": [item], "metadata": {}}


def test_a_watcher_that_died_ends_the_load_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forked: list[int] = []
    fork = os.fork

    def note() -> int:
        forked.append(fork())
        return forked[-1]

    monkeypatch.setattr(os, "fork", note)
    with pytest.raises(ProcessError, match=r"not watched to the end: it ended with status -9"):
        watched(tmp_path, one_server, lambda: os.kill(forked[0], signal.SIGKILL))


def test_looks_that_fail_are_written_with_the_time_since_the_last_that_did_not(tmp_path: Path) -> None:
    broken = threading.Event()
    answered = {True: threading.Event(), False: threading.Event()}

    def answer(asked: Asked) -> Any:
        if not asked.path.partition("?")[0].endswith("/deployments"):
            return one_server(asked)
        fails = broken.is_set()
        answered[fails].set()
        return (500, {"message": "no leader"}) if fails else one_server(asked)

    def break_for_a_moment() -> None:
        broken.set()
        assert answered[True].wait(30)
        answered[False].clear()
        broken.clear()
        assert answered[False].wait(30)

    records = watched(tmp_path, answer, break_for_a_moment)
    for record in records:
        files.validate_schema_if_enabled(SCHEMA, record)
    failed = [record for record in records if record["type"] == "failed"]
    (blind,) = (record for record in records if record["type"] == "blind")
    assert "no leader" in failed[0]["error"] and {record["since"] for record in failed} == {blind["since"]}
    assert blind["since"] < failed[0]["at"] <= failed[-1]["at"] < blind["at"]
