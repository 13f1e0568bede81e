"""Following a kind through ends, breaks and histories that the server no longer has."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample import kind_follower
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.watch_multiplexer import (
    Item,
    WatchMultiplexer,
)
from scripted_server import RESET, Asked, ScriptedServer, status_object

PODS = ServedKind("v1", "Pod", "pods", True)


def event(kind: str, version: int, **more: Any) -> dict[str, Any]:
    return {"type": kind, "object": {"metadata": {"resourceVersion": str(version), "uid": "u"}, **more}}


GONE = {"type": "ERROR", "object": status_object(410, "Expired", "too old resource version: 5 (20)")}


def stream(*events: dict[str, Any], cut: bool = False) -> bytes:
    """A watch's answer that ends after ``events``: in order, or cut off."""
    lines = [json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in events]
    body = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in lines)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + (b"" if cut else b"0\r\n\r\n")


def listing(version: int, *uids: str) -> tuple[int, Any]:
    items = [{"metadata": {"uid": uid, "name": uid}} for uid in uids]
    return 200, {"metadata": {"resourceVersion": str(version)}, "items": items}


class Play:
    """A server that answers lists and watches from two scripts; what it was asked is kept as (list|watch, version)."""

    def __init__(self, lists: list[Any], watches: list[Any]) -> None:
        self.asked: list[tuple[str, str]] = []
        self.lists, self.watches = list(lists), list(watches)
        self.server = ScriptedServer(self.answer)

    def answer(self, asked: Asked) -> Any:
        query = parse_qs(urlsplit(asked.path).query)
        watching = "watch" in query
        self.asked.append(("watch" if watching else "list", query.get("resourceVersion", [""])[0]))
        script = self.watches if watching else self.lists
        said = script.pop(0) if script else stream(event("BOOKMARK", 99))
        if isinstance(said, bytes) and not said.endswith(b"0\r\n\r\n"):
            self.server._held[-1].sendall(said)
            return RESET
        return said

    def run(self, folder: Path, until: Any) -> list[kind_follower.Item]:
        """Follow until ``until(items)``; return what the reader was told."""
        out = WatchMultiplexer()
        items: list[Item] = []
        deadline = time.monotonic() + 120
        with self.server, Client.from_kubeconfig(self.server.kubeconfig(folder / "k"), timeout=5) as client:
            follower = kind_follower.KindFollower(7, client, PODS, "n", "a=b", out, json.loads)
            follower.start()
            while not until(items):
                assert time.monotonic() < deadline, items
                items += out.take(0.1)
            follower.close()
            while follower.is_alive():
                assert time.monotonic() < deadline, "it does not end"
                list(out.take(0.1))
            out.close()
        return items


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind_follower, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(kind_follower, "_PAUSE_AFTER_ERROR", 0.01)


def whats(items: list[Item]) -> list[str]:
    return [item[1] for item in items]


def test_a_watch_begins_where_the_list_ended_and_goes_on_where_it_ended_itself(tmp_path: Path) -> None:
    play = Play(
        [listing(5, "a")],
        [stream(event("ADDED", 6), event("BOOKMARK", 9)), stream(event("MODIFIED", 12)), stream(event("DELETED", 15))],
    )
    items = play.run(tmp_path, lambda items: whats(items).count("watch") == 3)
    assert play.asked[:4] == [("list", ""), ("watch", "5"), ("watch", "9"), ("watch", "12")]
    assert whats(items) == ["list", "listed", "watching", "watch", "watch", "watch"]
    assert items[1][3] == ("list", "5") and items[2][3] == "5"
    assert [item[3][0]["type"] for item in items[3:]] == ["ADDED", "MODIFIED", "DELETED"]
    assert [item[2] for item in items] == sorted(item[2] for item in items)


def test_a_watch_that_breaks_goes_on_after_its_last_event(tmp_path: Path) -> None:
    play = Play([listing(5)], [stream(event("ADDED", 6), cut=True), stream(event("MODIFIED", 8))])
    items = play.run(tmp_path, lambda items: whats(items).count("watch") == 2)
    assert play.asked[:3] == [("list", ""), ("watch", "5"), ("watch", "6")]
    assert "gap" not in whats(items)


@pytest.mark.parametrize("refusal", [stream(GONE), (410, status_object(410, "Expired", "too old"))])
def test_a_history_that_is_gone_is_listed_anew_and_the_gap_begins_with_the_last_event(
    tmp_path: Path, refusal: Any
) -> None:
    play = Play([listing(5), listing(30, "a")], [stream(event("ADDED", 6)), refusal, stream(event("MODIFIED", 31))])
    items = play.run(tmp_path, lambda items: whats(items).count("watch") == 2)
    assert play.asked[:5] == [("list", ""), ("watch", "5"), ("watch", "6"), ("list", ""), ("watch", "30")]
    assert whats(items) == ["list", "listed", "watching", "watch", "relist", "listed", "gap", "watch"]
    gap = items[6]
    assert gap[3][0] == items[3][2], "the gap does not begin with the last event before it"
    assert gap[3][1].startswith("relisted: ")
    assert gap[2] >= items[5][2]


def test_what_is_not_allowed_is_told_at_the_start(tmp_path: Path) -> None:
    play = Play([(403, status_object(403, "Forbidden", "pods is forbidden"))], [])
    items = play.run(tmp_path, lambda items: bool(items))
    assert whats(items) == ["failed"] and isinstance(items[0][3], ApiError)


def test_what_was_allowed_before_is_asked_for_again(tmp_path: Path) -> None:
    """An API server that has just started refuses until it has read who may do what."""
    refusal = (403, status_object(403, "Forbidden", "not yet"))
    play = Play([listing(5)], [stream(event("ADDED", 6)), refusal, refusal, stream(event("MODIFIED", 8))])
    items = play.run(tmp_path, lambda items: whats(items).count("watch") == 2)
    assert "failed" not in whats(items)


def test_a_long_break_is_told_when_it_is_sure_that_nothing_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind_follower, "_SHORTEST_GAP", 0.0)
    busy = (503, b"")
    lost = Play([listing(5), listing(30)], [stream(event("ADDED", 6), cut=True), busy, stream(GONE)])
    items = lost.run(tmp_path, lambda items: "gap" in whats(items))
    gaps = [item for item in items if item[1] == "gap"]
    assert gaps[0][3][1].startswith("relisted"), "it said that nothing was lost before that was known"
    kept = Play([listing(5)], [stream(event("ADDED", 6), cut=True), busy, stream(event("MODIFIED", 8))])
    items = kept.run(tmp_path, lambda items: "gap" in whats(items))
    gap = next(item for item in items if item[1] == "gap")
    assert gap[3][1].startswith("resumed") and gap[3][0] == items[3][2]


@pytest.mark.parametrize(
    "line",
    [
        event("WEIRD", 6),
        {"type": "MODIFIED", "object": {"metadata": {"resourceVersion": 6, "uid": "u"}}},
        {"type": "ERROR", "object": {"code": float("inf")}},
        {"type": "ERROR", "object": {"code": "410"}},
    ],
)
def test_an_event_that_no_api_server_sends_ends_the_watch_and_changes_nothing(tmp_path: Path, line: Any) -> None:
    play = Play([listing(5)], [stream(line), stream(event("MODIFIED", 8))])
    items = play.run(tmp_path, lambda items: "watch" in whats(items))
    assert play.asked[:3] == [("list", ""), ("watch", "5"), ("watch", "5")]
    assert [item[3][0]["object"]["metadata"]["resourceVersion"] for item in items if item[1] == "watch"] == ["8"]


@pytest.mark.parametrize("said", [stream(), stream(GONE), (410, status_object(410, "Expired", "too old"))])
def test_watches_that_end_at_once_are_opened_less_and_less_often(
    tmp_path: Path, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    wait = threading.Event.wait

    def pause(self: threading.Event, timeout: float | None = None) -> bool:
        if timeout is not None and threading.current_thread().name == "watch Pod":
            pauses.append(timeout)
        return wait(self, timeout)

    monkeypatch.setattr(threading.Event, "wait", pause)
    play = Play([listing(5)] * 20, [said] * 9)
    play.run(tmp_path, lambda _items: sum(what == "watch" for what, _version in play.asked) > 9)
    assert len(pauses) >= 6 and pauses[:6] == sorted(pauses[:6]) and pauses[5] > 4 * pauses[0]
