# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An S3 server that never ends its reply, or answers with more than fits into the memory, is an error."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3, s3_reply_limits

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n"
STOP = threading.Event()


def forever(first: bytes, again: bytes, pause: float = 0.02) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        connection.sendall(first)
        while not STOP.wait(pause):
            connection.sendall(again)

    return answer


@contextlib.contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Answer each connection with ``answer``, after its request; yield the address."""
    listener = socket.create_server(("127.0.0.1", 0))
    STOP.clear()

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(1 << 16)
            answer(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        STOP.set()
        listener.close()


def list_objects(address: str) -> list[dict[str, object]]:
    location = s3.S3Location("b", "p", endpoint=address, region="r", access_key="k", secret_key="s")
    with s3.s3_errors(location):
        return list(s3.list_pages(s3.create_s3_client(location, attempts=1), "b", "p"))


@pytest.mark.parametrize(
    "answer",
    [
        forever(HEAD + b"\r\n<", b" "),
        forever(b"HTTP/1.1 200 OK\r\n", b"X"),
        forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        forever(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        forever(HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n"),
    ],
    ids=["body", "header", "continue", "chunks", "trailer"],
)
def test_a_reply_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch, answer: Callable[..., None]) -> None:
    monkeypatch.setattr(s3_reply_limits, "REPLY_SECONDS", 1.0)
    with server(answer) as address, pytest.raises(AccessError):
        list_objects(address)


def test_a_list_that_would_fill_the_memory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_reply_limits, "REPLY_BYTES", 4 << 20)
    with server(forever(HEAD + b"\r\n<", b" " * (1 << 20), 0.0)) as address, pytest.raises(AccessError):
        list_objects(address)
    monkeypatch.setattr(s3_reply_limits, "DOCUMENT_BYTES", 100)
    page = b"<ListBucketResult><IsTruncated>false</IsTruncated>" + b" " * 100 + b"</ListBucketResult>"
    reply = HEAD + b"Content-Length: %d\r\n\r\n" % len(page) + page
    with server(lambda connection: connection.sendall(reply)) as address, pytest.raises(DataError, match="100 bytes"):
        list_objects(address)


def test_a_server_that_redirects_each_request_again_is_an_error() -> None:
    reply = b"HTTP/1.1 307 T\r\nLocation: http://127.0.0.1:9/b\r\nContent-Length: 0\r\n\r\n"
    with server(lambda connection: connection.sendall(reply)) as address, pytest.raises(AccessError):
        list_objects(address)
