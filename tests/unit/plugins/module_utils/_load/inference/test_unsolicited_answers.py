"""Answers that nobody asked for never count as those of a request."""

from __future__ import annotations

import json
import select
import socket
import ssl
import threading
import time

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.inference_request import (
    InferenceRequest,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.request_connection import (
    ConnectionLost,
    InferenceServer,
    RequestConnection,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.request_engine import (
    EngineLimits,
    RequestEngine,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.request_schedule import RequestSchedule


def answer(text: str) -> bytes:
    body = json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def connect(listener: socket.socket, number: int = 1) -> tuple[InferenceServer, RequestConnection, socket.socket]:
    """Return a server, an open connection to it, and the other end of the connection."""
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = InferenceServer.from_url(0, url, ssl.create_default_context())
    connection = RequestConnection(server, number)
    far, _address = listener.accept()
    assert select.select([], [connection.fd], [], 10)[1]
    connection.on_writable()
    return server, connection, far


@pytest.mark.parametrize("arrived", [answer("stale"), b"", b"HTTP/1.1 408 Request Timeout\r\n\r\n"])
def test_a_request_is_not_sent_on_a_connection_with_an_answer_that_nobody_asked_for(arrived: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server, connection, far = connect(listener)
        far.sendall(arrived)
        if not arrived:
            far.close()
        assert select.select([connection.fd], [], [], 10)[0] and not connection.is_quiet()

        def serve() -> None:
            fresh, _address = listener.accept()
            fresh.recv(100)
            fresh.sendall(answer("fresh"))

        threading.Thread(target=serve, daemon=True).start()
        clock = MonotonicWallClock.start()
        engine = RequestEngine([server], EngineLimits(5, 5, 0, 10), lambda *_: b"GET / HTTP/1.1\r\n\r\n", clock)
        engine._connections[connection.fd] = connection
        engine._idle[0].append(connection)
        request = InferenceRequest(0, "r", "m", 1, time.monotonic_ns(), streamed=False, keep_text=True)
        schedule = RequestSchedule(lambda _index, _due: request, iter([(0, 0.0)]))
        schedule.begin(request.due)
        try:
            engine.run(schedule, lambda: None)
        finally:
            engine.close()
        assert (request.outcome, request.answer.text, request.reused) == ("succeeded", ["fresh"], False)
        far.close()


def test_a_quiet_connection_carries_the_next_request() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        _server, connection, far = connect(listener)
        assert connection.is_quiet() and connection.all_sent
        connection.send(b"x" * (1 << 25))  # nobody reads
        assert not connection.all_sent
        connection.close()
        far.close()


def test_an_answer_before_the_request_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        _server, connection, far = connect(listener)
        connection.pending = b"GET / HTTP/1.1\r\n\r\n"
        far.sendall(answer("early"))
        assert select.select([connection.fd], [], [], 10)[0]
        with pytest.raises(ConnectionLost, match="the server answered before it was asked"):
            connection.read()
        connection.close()
        far.close()
