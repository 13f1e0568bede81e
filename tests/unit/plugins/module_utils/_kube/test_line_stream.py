"""Answers that come in lines over time, plain and under TLS, cut anywhere."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import connection, http1_replies, tls
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import (
    Broken,
    LineStream,
    format_request_head,
    request_bytes,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import load_context_access
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.tls import TlsStream
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_server import RESET, Asked, ScriptedServer
from tls_responder import certificate

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(parts: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part) + b"0\r\n\r\n"


def connect(server: ScriptedServer, folder: Path) -> tuple[LineStream, bytes]:
    access = load_context_access(server.kubeconfig(folder / "kubeconfig", {"token": "t"}))
    return LineStream(access, 5.0), request_bytes(access, format_request_head(access, "GET", "/x"))


def test_a_stream_gives_whole_lines_with_growing_times_and_ends(tmp_path: Path) -> None:
    wire = HEAD + chunked([b'{"a"', b":1}\n{", b'"b":2}\n'])
    with ScriptedServer(lambda asked: wire) as server:
        stream, request = connect(server, tmp_path)
        assert stream.open(request, 5.0).status == 200
        found = list(stream.lines())
    assert [line for _at, line in found] == [b'{"a":1}', b'{"b":2}'] and stream.ended
    assert [at for at, _line in found] == sorted(at for at, _line in found)


def test_a_refusal_has_its_body_and_no_lines(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: (410, b"too old")) as server:
        stream, request = connect(server, tmp_path)
        reply = stream.open(request, 5.0)
        assert (reply.status, reply.body) == (410, b"too old")
        assert stream.ended
        stream.close()


@pytest.mark.parametrize("way", ["cut", "silent", "interrupted"])
def test_a_stream_that_does_not_end_itself_is_broken_after_what_had_come(tmp_path: Path, way: str) -> None:
    def answer(asked: Asked) -> bytes | str:
        server._held[-1].sendall(HEAD + b"2\r\na\n\r\n")
        if way != "cut":
            over.wait(120)
        return RESET

    over = threading.Event()
    with ScriptedServer(answer) as server:
        stream, request = connect(server, tmp_path)
        stream.open(request, 0.2 if way == "silent" else 5.0)
        lines = stream.lines()
        assert next(lines)[1] == b"a"
        if way == "interrupted":
            stream.interrupt()
        with pytest.raises(Broken, match="no data for 0.2 s" if way == "silent" else "the watch broke"):
            next(lines)
        over.set()


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's and a client's, of one authority."""
    folder = tmp_path_factory.mktemp("tls")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate(folder))
    return server, ssl.create_default_context(cafile=str(folder / "ca.pem"))


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 40_000), min_size=1, max_size=6), st.lists(st.integers(1, 30_000), min_size=1))
def test_text_under_tls_comes_out_whole_however_its_bytes_are_cut(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], sizes: list[int], cuts: list[int]
) -> None:
    said = [bytes([97 + number]) * size for number, size in enumerate(sizes)]
    near, far = socket.socketpair()

    def serve() -> None:
        with contexts[0].wrap_socket(far, server_side=True) as secured:
            assert secured.recv(100) == b"go"
            for one in said:
                secured.sendall(one)

    thread = threading.Thread(target=serve)
    thread.start()
    channel = TlsStream(near, contexts[1], "127.0.0.1")
    channel.sendall(b"go")
    found, turn = b"", 0
    while data := channel.receive()[1]:
        while data:
            size = cuts[turn % len(cuts)]
            found += channel.decrypt(data[:size])
            data, turn = data[size:], turn + 1
    thread.join()
    channel.close()
    assert found == b"".join(said)


def test_a_channel_waits_no_longer_than_it_was_told(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    near, far = socket.socketpair()
    over = threading.Event()

    def serve() -> None:
        with contexts[0].wrap_socket(far, server_side=True) as secured:
            over.wait(120)
            secured.sendall(b"late")

    thread = threading.Thread(target=serve)
    thread.start()
    channel = TlsStream(near, contexts[1], "127.0.0.1", 0.05)
    with pytest.raises(TimeoutError):
        channel.recv(100)
    channel.setblocking(False)
    with pytest.raises(BlockingIOError):
        channel.recv(100)
    channel.settimeout(5.0)
    over.set()
    assert channel.recv(100) == b"late"
    thread.join()
    channel.close()


@pytest.fixture
def dated() -> Iterator[tuple[TlsStream, socket.socket]]:
    """A plain channel over TCP that dates arrivals, and the far end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _address = server.accept()
    channel = TlsStream(near, None, "", 10.0)
    channel.date_arrivals()
    yield channel, far
    channel.close()
    far.close()


def test_bytes_that_are_received_late_are_dated_by_their_arrival(dated: tuple[TlsStream, socket.socket]) -> None:
    channel, far = dated
    found = []
    for _turn in range(20):  # the system may interrupt a reading of the two clocks: then the time of receiving counts
        began = time.monotonic()
        far.sendall(b"x")
        select.select([channel], [], [])
        arrived = time.monotonic()
        time.sleep(0.01)
        at, data = channel.receive()
        assert data == b"x" and began <= at
        found.append(at <= arrived + tls._SAME)
    assert any(found)


def test_a_clock_that_is_set_meanwhile_dates_no_byte_before_it_was_sent(
    dated: tuple[TlsStream, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    channel, far = dated
    true = time.time
    for step in (5.0, -5.0):
        began = time.monotonic()
        far.sendall(b"x")
        select.select([channel], [], [])
        monkeypatch.setattr("time.time", lambda step=step: true() + step)
        at, data = channel.receive()
        assert data == b"x" and began <= at <= time.monotonic()


@pytest.mark.parametrize("block", [b"%x\r\n%b\r\n" % (1 << 16, b"a" * (1 << 16)), b"1\r\na\r\n" * 4096])
def test_an_endless_line_breaks_the_stream_at_a_limit(tmp_path: Path, block: bytes) -> None:
    """It is not copied again with each piece of it: that would take hours."""

    def answer(asked: Asked) -> str:
        server._held[-1].sendall(HEAD)
        with contextlib.suppress(OSError):
            while True:
                server._held[-1].sendall(block)
        return RESET

    with ScriptedServer(answer) as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "MOST_LINE", 4 << 20 if len(block) > 1 << 15 else 1 << 16)
        stream, request = connect(server, tmp_path)
        stream.open(request, 5.0)
        with pytest.raises(Broken, match="a line has more than .* bytes"):
            list(stream.lines())


@pytest.mark.parametrize(
    ("wire", "message"),
    [
        (HEAD + b"10000\r\n" + b"a" * 65536 + b"\r\n", "its reply has more than"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b"a" * 65536, "its reply has more than"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * 65536, "its reply has more than"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 10_000, "its reply has more than"),
        (HEAD + b"a" * 65536, "a line of the reply has more than"),
        (HEAD + b"0\r\n" + b"a: b\r\n" * 10_000, "a line of the reply has more than"),
        (HEAD + b"-9\r\nabcdefghijkl\r\n", "a chunk of the reply has a negative size"),
    ],
    ids=["chunks", "length", "until closed", "head", "size of a chunk", "trailer", "negative"],
)
def test_an_endless_reply_is_broken_at_a_limit(tmp_path: Path, wire: bytes, message: str) -> None:
    def answer(asked: Asked) -> str:
        server._held[-1].sendall(wire)
        over.wait(60)
        return RESET

    over = threading.Event()
    with ScriptedServer(answer) as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "MOST_BYTES", 20_000)
        patch.setattr(connection, "MOST_SECONDS", 30.0)
        patch.setattr(http1_replies, "MOST_HEAD", 20_000)
        access = load_context_access(server.kubeconfig(tmp_path / "kubeconfig", {"token": "t"}))
        held = connection.ApiServerConnection(access, 5.0)
        with pytest.raises(Broken, match=message):
            held.exchange(request_bytes(access, format_request_head(access, "GET", "/x")))
        over.set()


def test_a_reply_that_trickles_is_broken_after_a_time(tmp_path: Path) -> None:
    def answer(asked: Asked) -> str:
        server._held[-1].sendall(HEAD)
        with contextlib.suppress(OSError):
            while not over.wait(0.02):
                server._held[-1].sendall(b"1\r\na\r\n")
        return RESET

    over = threading.Event()
    with ScriptedServer(answer) as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "MOST_SECONDS", 0.1)
        access = load_context_access(server.kubeconfig(tmp_path / "kubeconfig", {"token": "t"}))
        held = connection.ApiServerConnection(access, 0.2)
        with pytest.raises(Broken, match="its reply was not complete after 0.2 s"):
            held.exchange(request_bytes(access, format_request_head(access, "GET", "/x")))
        over.set()
