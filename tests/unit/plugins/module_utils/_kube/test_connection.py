"""The hand-written HTTP: answers in pieces of any size, and what a broken connection means."""

from __future__ import annotations

import socket
import ssl
import time
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import tls
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import (
    ApiServerConnection,
    Broken,
    format_request_head,
    request_bytes,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.http1_replies import ChunkedBodyDecoder
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import load_context_access
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_server import RESET, Asked, ScriptedServer, reply


def chunked(parts: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part) + b"0\r\n\r\n"


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 30), min_size=1, max_size=40))
def test_chunks_come_out_whole_however_they_are_cut(parts: list[bytes], cuts: list[int]) -> None:
    wire = chunked(parts)
    chunks, found, at, turn = ChunkedBodyDecoder(True), b"", 0, 0
    while at < len(wire):
        assert not chunks.ended
        size = cuts[turn % len(cuts)]
        found += chunks.feed(wire[at : at + size])
        at, turn = at + size, turn + 1
    assert chunks.ended and found == b"".join(parts)


def test_what_is_no_chunk_is_an_error() -> None:
    with pytest.raises(ValueError):
        ChunkedBodyDecoder(True).feed(b"zz\r\nabc\r\n")


def connect(server: ScriptedServer, folder: Path, timeout: float = 5.0) -> tuple[ApiServerConnection, bytes]:
    access = load_context_access(server.kubeconfig(folder / "kubeconfig", {"token": "t"}))
    return ApiServerConnection(access, timeout), request_bytes(access, format_request_head(access, "GET", "/x"))


def test_one_connection_serves_many_requests_and_carries_the_token(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: (200, asked.path.encode())) as server:
        connection, request = connect(server, tmp_path)
        before = time.monotonic()
        replies = [connection.exchange(request) for _ in range(3)]
        after = time.monotonic()
        connection.close()
    assert [(one.status, one.body) for one in replies] == [(200, b"/x")] * 3
    assert len(server._held) == 1
    assert all(one.headers["authorization"] == "Bearer t" for one in server.asked)
    times = [moment for one in replies for moment in (one.sent, one.answered)]
    assert [before, *times, after] == sorted([before, *times, after])


@pytest.mark.parametrize(
    "wire",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunked([b"he", b"llo"]),
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
    ],
)
def test_bodies_of_each_form_are_read(tmp_path: Path, wire: bytes) -> None:
    with ScriptedServer(lambda asked: wire) as server:
        connection, request = connect(server, tmp_path)
        assert [connection.exchange(request).body for _ in range(2)] == [b"hello"] * 2
        connection.close()


def test_a_reset_says_that_the_request_may_have_arrived(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: RESET) as server:
        connection, request = connect(server, tmp_path)
        with pytest.raises(Broken, match="no answer: the server closed the connection") as caught:
            connection.exchange(request)
    assert caught.value.sent is True
    with pytest.raises(Broken, match="can't be reached") as caught:
        connection.exchange(request)
    assert caught.value.sent is False


def test_silence_ends_with_the_timeout(tmp_path: Path) -> None:
    def silent(asked: Asked) -> bytes:
        time.sleep(1)
        return reply(200)

    with ScriptedServer(silent) as server:
        connection, request = connect(server, tmp_path, timeout=0.1)
        with pytest.raises(Broken, match="no data for 0.1 s"):
            connection.exchange(request)


def test_a_connection_that_the_server_closed_while_idle_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import connection as module

    monkeypatch.setattr(module, "_STALE", 0.0)
    with ScriptedServer(lambda asked: (200, b"x")) as server:
        connection, request = connect(server, tmp_path)
        connection.exchange(request)
        connection.exchange(request)
        assert len(server._held) == 1
        server._held[0].shutdown(2)
        assert connection.exchange(request).body == b"x"
        assert len(server._held) == 2
        connection.close()


def test_a_handshake_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "MOST_HANDSHAKE", -1.0)
    near, far = socket.socketpair()
    near.settimeout(10)
    with near, far, pytest.raises(ConnectionAbortedError, match="no TLS handshake within"):
        tls.TlsStream(near, ssl.create_default_context(), "api.lab", 10)
