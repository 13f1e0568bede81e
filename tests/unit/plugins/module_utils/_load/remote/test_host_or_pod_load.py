"""A remote load is started once, followed over a connection that breaks, fetched, and removed; its record says so."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    InputError,
    ProcessError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import host_or_pod_load
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.host_or_pod_load import (
    ConnectionRetry,
    LoadOnHost,
)

DONE = {"ok": True, "result": {"changed": True, "msg": "all"}}


class Lost(Exception):
    """What a connection plugin raises."""


class Host:
    """The other host: answers as the module would, and breaks the connection at chosen calls."""

    def __init__(self, folder: Path, outcome: dict[str, Any] | None = None) -> None:
        self.folder = folder
        self.calls: list[str] = []
        self.lines: list[str] = []
        self.breaks: list[str] = []  # states whose next call breaks
        self.state = "absent"
        self.ends = ["running", "ended"]  # states that the following calls find
        self.outcome = outcome or DONE
        self.ledger = folder / "there.jsonl"
        self.ledger.write_text('{"type": "session"}\n', encoding="utf-8")

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(arguments["state"])
        if arguments["state"] in self.breaks:
            self.breaks.remove(arguments["state"])
            raise Lost("reset by peer")
        if arguments["state"] == "present":
            found, self.state = self.state != "absent", "running"
            return {"found": found}
        if arguments["state"] == "absent":
            there, self.state = self.state != "absent", "absent"
            return {"changed": there}
        if self.state != "absent":
            self.state = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        files = {"files": [str(self.ledger)], "step_files": [], "outcome": self.outcome}
        return {"load_state": self.state, "lines": [f"line {arguments.get('offset')}"], "offset": 7, **files}

    def fetch(self, path: str, aside: str) -> None:
        if "fetch" in self.breaks:
            self.breaks.remove("fetch")
            raise Lost("reset by peer")
        Path(aside).write_bytes(Path(path).read_bytes())

    def load(self, monkeypatch: pytest.MonkeyPatch, patience: float = 60.0) -> LoadOnHost:
        monkeypatch.setattr(host_or_pod_load, "_PAUSE", 0.0)
        monkeypatch.setattr(host_or_pod_load.time, "sleep", lambda _seconds: None)
        retry = ConnectionRetry("bastion", "test-run", patience, self.lines.append, lambda one: isinstance(one, Lost))
        kubeconfig = {"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}
        kubeconfig |= {"clusters": [{"name": "c", "cluster": {"server": "https://api.x:6443"}}]}  # type: ignore[dict-item]
        kubeconfig |= {"users": [{"name": "u", "user": {"token": "t"}}]}  # type: ignore[dict-item]
        path = self.folder / "kubeconfig"
        path.write_text(json.dumps(kubeconfig), encoding="utf-8")
        given = {"run_id": "test-run", "point": "001", "kubeconfig": str(path)}
        return LoadOnHost(given, lambda: {"count": 3}, self.call, self.fetch, retry)


def test_a_lost_connection_is_retried_and_the_load_started_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, point = Host(tmp_path), tmp_path / "points" / "001"
    host.breaks = ["status", "status", "fetch", "absent"]
    result = host_or_pod_load.run_remote_load(host.load(monkeypatch), point, None)
    assert result == {**DONE["result"], "found": False}  # type: ignore[dict-item]
    assert host.calls == ["present", "status", "status", "status", "status", "absent", "absent"]
    assert sum("no connection while" in line for line in host.lines) == 3 and "line 7" in host.lines
    assert (point / "there.jsonl").read_bytes() == host.ledger.read_bytes()
    assert (host_or_pod_load.read_load_record(point) or {})["state"] == "fetched"
    host.calls.clear()
    again = host_or_pod_load.run_remote_load(host.load(monkeypatch), point, None)
    assert again == {**DONE["result"], "changed": False, "found": True} and not host.calls  # type: ignore[dict-item]


def test_a_later_session_finds_the_load_or_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for state in ("running", "absent"):
        host, point = Host(tmp_path), tmp_path / state
        point.mkdir()
        host_or_pod_load.write_load_record(point, "bastion", "", host_or_pod_load.STARTED)
        host.state = state
        assert host_or_pod_load.run_remote_load(host.load(monkeypatch), point, None)["found"] is (state == "running")
        assert host.calls.count("present") == (state == "absent")


def test_a_load_that_failed_or_died_is_reported_with_its_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, point = Host(tmp_path, {"ok": False, "msg": "403 everywhere"}), tmp_path / "failed"
    with pytest.raises(ProcessError, match="bastion: 403 everywhere"):
        host_or_pod_load.run_remote_load(host.load(monkeypatch), point, None)
    assert host_or_pod_load.read_load_record(point) is None and host.calls[-1] == "absent"
    host = Host(tmp_path, {"ok": False, "error": "AccessError", "msg": "no cluster"})
    with pytest.raises(AccessError, match="bastion: no cluster"):
        host_or_pod_load.run_remote_load(host.load(monkeypatch), tmp_path / "unreachable", None)
    host.ends = ["died"]
    with pytest.raises(ProcessError, match="died without a result: it left no log"):
        host_or_pod_load.run_remote_load(host.load(monkeypatch), tmp_path / "died", None)
    assert (host_or_pod_load.read_load_record(tmp_path / "died") or {})["state"] == "started", "cleanup has to find it"


def test_wrong_input_leaves_no_record_and_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def request() -> dict[str, Any]:
        raise InputError("no template")

    host = Host(tmp_path)
    load = LoadOnHost({"run_id": "test-run"}, request, host.call, host.fetch, host.load(monkeypatch).retry)
    with pytest.raises(InputError, match="no template"):
        host_or_pod_load.run_remote_load(load, tmp_path / "p", None)
    assert not host.calls and host_or_pod_load.read_load_record(tmp_path / "p") is None


def test_removing_makes_one_attempt_and_deletes_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, point = Host(tmp_path), tmp_path / "p"
    point.mkdir()
    host_or_pod_load.write_load_record(point, "bastion", "", host_or_pod_load.STARTED)
    host.state, host.breaks = "running", ["absent"]
    with pytest.raises(Lost):
        host_or_pod_load.end_and_delete_load(host.load(monkeypatch), point)
    assert host_or_pod_load.read_load_record(point), "it may still run"
    assert host_or_pod_load.end_and_delete_load(host.load(monkeypatch), point) == {"changed": True}
    assert host_or_pod_load.end_and_delete_load(host.load(monkeypatch), point) == {"changed": False}
    assert host_or_pod_load.read_load_record(point) is None


def test_a_connection_that_stays_lost_is_an_error_that_says_how_to_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(tmp_path)
    host.breaks = ["present"] * 1000
    with pytest.raises(AccessError, match=r"bastion could not be reached again .*test-run"):
        host_or_pod_load.run_remote_load(host.load(monkeypatch, patience=0.0), tmp_path / "p", None)


def test_what_is_appended_is_not_read_into_the_memory(tmp_path: Path) -> None:
    def fetch(aside: Path) -> None:
        with open(aside, "wb") as stream:
            stream.truncate(64 << 20)

    (tmp_path / "log").write_bytes(b"before")
    tracemalloc.start()
    try:
        ConnectionRetry("the host", "r", 1.0, str, lambda _error: False).fetch(fetch, tmp_path / "log", append=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / "log").stat().st_size == (64 << 20) + 6 and peak < 8 << 20


def test_a_load_that_reports_facts_sets_no_variable(tmp_path: Path) -> None:
    facts = {"ansible_facts": {"discovered_interpreter_python": "/tmp/python"}, "_ansible_no_log": True, "msg": "all"}
    host_or_pod_load.write_load_record(tmp_path, "h", "r", host_or_pod_load.FETCHED, facts, removed=True)
    result = host_or_pod_load.run_remote_load(None, tmp_path, None)
    assert result == {"msg": "all", "changed": False, "found": True}
