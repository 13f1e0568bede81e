# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One HTTP/1.1 connection to the API server: plain sockets, TLS, nothing in between; and a watch's reply in lines.

Hand-written because it is the cheapest way to send a prepared request and to know when: measured against
http.client it halves the client's CPU time per request.

In a stream of lines, receiving bytes from the kernel and splitting them into lines are separate steps: the first must
be timely and is one system call for everything that has arrived; the second (TLS, chunked coding, lines) can handle
many bytes later.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections.abc import Iterator

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.mask_sent_credentials import (
    mask_sent_credentials,
)

from . import http1_replies
from .api_server_access import ApiServerAccess, Broken, open_proxy_tunnel
from .tls import TlsStream

JSON = "application/json"
#: Accept header for the metadata of objects only.
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

#: The maximum size of a TLS record; more would only allocate memory.
_BLOCK = 1 << 14
#: A connection that was idle for more seconds is checked before it is used again.
_STALE = 1.0
#: Most bytes and seconds of one reply, whatever the server sends, and most bytes of one event of a watch. The largest
#: reply is a page of 500 objects; etcd takes objects of up to 1.5 MiB, and those of a load have a few KiB.
MOST_BYTES, MOST_SECONDS, MOST_LINE = 1 << 29, 600.0, 32 << 20


class ApiReply:
    """Status, header block and body of one reply. Times are values of time.monotonic().

    ``sent`` was taken just before the request's first byte went out, ``answered`` just after the answer's
    first bytes came in.
    """

    __slots__ = ("status", "head", "body", "sent", "answered")

    def __init__(self, status: int, head: bytes, body: bytes, sent: float, answered: float) -> None:
        self.status = status
        self.head = head
        self.body = body
        self.sent = sent
        self.answered = answered

    def header(self, name: str) -> str | None:
        """Return the value of a header, or None."""
        return http1_replies.header_value(self.head, name.lower().encode())


def format_request_head(access: ApiServerAccess, method: str, path: str, accept: str = JSON) -> bytes:
    """Return the first lines of a request, without Authorization, Content-Type and Content-Length."""
    host = http1_replies.format_host_and_port(access.host, access.port)
    return (
        f"{method} {access.prefix}{path} HTTP/1.1\r\nHost: {host}\r\n"
        f"User-Agent: perfscale.seatrial\r\nAccept: {accept}\r\n"
    ).encode("ascii")


def add_credentials_to_head(access: ApiServerAccess, head: bytes, content_type: str = JSON) -> bytes:
    """Return ``head`` (of format_request_head()) with our credentials, without the length of the body."""
    return b"%b%bContent-Type: %b\r\nContent-Length: " % (
        head,
        _credential_lines(access),
        content_type.encode("ascii"),
    )


def request_bytes(access: ApiServerAccess, head: bytes, body: bytes = b"", content_type: str = JSON) -> bytes:
    """Return the complete request: ``head`` (of format_request_head()), our credentials, ``body``."""
    if not body:
        return b"%b%b\r\n" % (head, _credential_lines(access))
    return b"%b%d\r\n\r\n%b" % (add_credentials_to_head(access, head, content_type), len(body), body)


def _credential_lines(access: ApiServerAccess) -> bytes:
    authorization = access.authorization.strip()
    lines = [f"Authorization: {authorization}\r\n"] if authorization else []
    lines += [f"{name}: {value.strip()}\r\n" for name, value in access.impersonation]
    return "".join(lines).encode()


class ApiServerConnection:
    """A connection that opens on first use, and again after it broke. Not thread-safe."""

    def __init__(self, access: ApiServerAccess, timeout: float = 60.0) -> None:
        self.access = access
        self.timeout = timeout
        self._channel: TlsStream | None = None
        self._used = 0.0

    def exchange(self, request: bytes) -> ApiReply:
        """Send a request and return its reply. Raises Broken, after closing the connection."""
        held = self._ready()
        sent = time.monotonic()
        try:
            held.sendall(request)
            reply = self._read(held, sent, request.startswith(b"HEAD "))
        except (OSError, ValueError) as error:
            self.close()
            raise Broken(
                f"{self.access.server}: no answer: {describe_socket_error(error, self.timeout)}", sent=True
            ) from error
        self._used = reply.answered
        return reply

    def close(self) -> None:
        """Close the socket, if any."""
        held, self._channel = self._channel, None
        if held is not None:
            with contextlib.suppress(OSError):
                held.close()

    def interrupt(self) -> None:
        """End reads at once, also one that blocks another thread; received data can still be read."""
        held = self._channel
        if held is not None:
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)

    def _ready(self) -> TlsStream:
        held = self._channel
        if held is not None and time.monotonic() - self._used > _STALE and not self._alive(held):
            self.close()
            held = None
        return held if held is not None else self._open()

    def _alive(self, held: TlsStream) -> bool:
        """Return whether an idle connection is still open: it must have nothing to read, not even its end."""
        try:
            held.setblocking(False)
            held.recv(1)
            return False
        except BlockingIOError:
            held.settimeout(self.timeout)
            return True
        except OSError:
            return False

    def _open(self) -> TlsStream:
        access = self.access
        plain: socket.socket | None = None
        access.renew()
        try:
            nearest = access.proxy or access
            plain = socket.create_connection((nearest.host, nearest.port), self.timeout)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if access.proxy:
                open_proxy_tunnel(plain, access.proxy, access.host, access.port)
            held = TlsStream(plain, access.context, access.server_name or access.host, self.timeout)
        except ssl.SSLCertVerificationError as error:
            _close_socket(plain)
            raise AccessError(
                f"{access.server}: its certificate is not trusted ({error.verify_message}); "
                f"check certificate-authority and tls-server-name in {access.source}",
                permanent=True,
            ) from error
        except OSError as error:
            _close_socket(plain)
            reason = describe_socket_error(error, self.timeout)
            raise Broken(f"{access.server} ({access.source}) can't be reached: {reason}", sent=False) from error
        self._channel = held
        self._used = time.monotonic()
        return held

    def _read(self, held: TlsStream, sent: float, no_body: bool) -> ApiReply:
        head, rest, answered = self._read_head(held)
        body = self._read_body(held, head, rest, no_body)
        if b"onnection:" in head and (http1_replies.header_value(head, b"connection") or "").lower() == "close":
            self.close()
        return self._reply(http1_replies.parse_status_code(head), head, body, sent, answered)

    def _reply(self, status: int, head: bytes, body: bytes, sent: float, answered: float) -> ApiReply:
        if status >= 300:
            body = mask_sent_credentials(body, self.access.held or "")
        return ApiReply(status, head, body, sent, answered)

    def _read_head(self, held: TlsStream) -> tuple[bytes, bytes, float]:
        data = held.recv(_BLOCK)
        answered = time.monotonic()
        while (end := data.find(b"\r\n\r\n")) < 0:
            more = held.recv(_BLOCK) if data else b""
            if not more:
                raise ConnectionResetError("the server closed the connection")
            data += more
            self._check_limits(len(data), answered, http1_replies.MOST_HEAD)
        return data[:end], data[end + 4 :], answered

    def _read_body(self, held: TlsStream, head: bytes, rest: bytes, no_body: bool) -> bytes:
        length, began = http1_replies.parse_content_length(head), time.monotonic()
        if length and length <= len(rest):
            return rest
        if no_body or http1_replies.parse_status_code(head) in (204, 304):
            return b""
        if length is not None:
            missing = length - len(rest)
            parts = [rest]
            while missing > 0:
                more = held.recv(_BLOCK)
                if not more:
                    raise ConnectionResetError("the server closed the connection during its reply")
                parts.append(more)
                missing -= len(more)
                self._check_limits(length - missing, began)
            return b"".join(parts)
        chunks = http1_replies.ChunkedBodyDecoder(
            (http1_replies.header_value(head, b"transfer-encoding") or "").lower() == "chunked"
        )
        parts = [chunks.feed(rest)]
        received = len(rest)
        while not chunks.ended:
            more = held.recv(_BLOCK)
            if not more:
                if chunks.chunked:
                    raise ConnectionResetError("the server closed the connection during its reply")
                self.close()
                break
            parts.append(chunks.feed(more))
            received += len(more)
            self._check_limits(received, began)
        return b"".join(parts)

    def _check_limits(self, received: int, began: float, most: int = 0) -> None:
        """Raise ValueError for a reply that is too large or takes too long: a server may send for ever."""
        most = most or MOST_BYTES
        if received > most:
            raise ValueError(f"its reply has more than {most} bytes")
        longest = max(MOST_SECONDS, self.timeout)
        if time.monotonic() - began > longest:
            raise ValueError(f"its reply was not complete after {longest:g} s")


def _close_socket(held: socket.socket | None) -> None:
    if held is not None:
        held.close()


def describe_socket_error(error: Exception, timeout: float) -> str:
    """Return the cause of a socket error, in words."""
    if isinstance(error, TimeoutError):
        return f"no data for {timeout:g} s"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


class LineStream(ApiServerConnection):
    """One reply in lines. Opened by one thread, read by one; any thread may interrupt it."""

    def __init__(self, access: ApiServerAccess, timeout: float = 60.0) -> None:
        super().__init__(access, timeout)
        #: Seconds without data after which a stream counts as broken.
        self.silence = timeout
        self.ended = False
        self._answered = 0.0
        self._rest = b""  # bytes received with the head
        self._chunks = http1_replies.ChunkedBodyDecoder(False)
        self._pending: list[bytes] = []  # the parts of an incomplete line, and its bytes so far
        self._pending_bytes = 0

    def open(self, request: bytes, silence: float) -> ApiReply:
        """Send a request and return the head of its reply; with an error status the Reply has the body.

        Raises Broken.
        """
        self.silence = silence
        self.close()
        held = self._open()
        sent = time.monotonic()
        try:
            held.settimeout(silence)
            held.sendall(request)
            head, self._rest, self._answered = self._read_head(held)
            status = http1_replies.parse_status_code(head)
            if status != 200:
                body = self._read_body(held, head, self._rest, False)
                self.ended = True
                return self._reply(status, head, body, sent, self._answered)
            held.settimeout(0.0)
            held.date_arrivals()
        except (OSError, ValueError) as error:
            self.close()
            raise Broken(
                f"{self.access.server}: no answer: {describe_socket_error(error, silence)}", sent=True
            ) from error
        self.ended, self._pending, self._pending_bytes = False, [], 0
        self._chunks = http1_replies.ChunkedBodyDecoder(
            (http1_replies.header_value(head, b"transfer-encoding") or "").lower() == "chunked"
        )
        return ApiReply(status, head, b"", sent, self._answered)

    def first(self) -> list[bytes]:
        """Return the lines that arrived with the head. Call it once, before receive()."""
        rest, self._rest = self._rest, b""
        return self._lines(rest + self._held().decrypt(b""))

    def fileno(self) -> int:
        """Return the socket's number, for poll()."""
        return self._held().fileno()

    def receive(self) -> tuple[float, bytes] | None:
        """Return received bytes for take() and when they had arrived, time.monotonic(), without waiting.

        Return None if there are none. Raises Broken.
        """
        channel = self._channel or self._held()
        try:
            return channel.receive()
        except BlockingIOError:
            return None
        except OSError as error:
            raise self._broken(describe_socket_error(error, self.silence)) from error

    def take(self, data: bytes) -> list[bytes]:
        """Return the lines, without their ends, that ``data`` completes. ``ended``: whether these are the last.

        Raises Broken if the server closed the connection during the reply.
        """
        if data:
            return self._lines(self._held().decrypt(data))
        if self._chunks.chunked:
            raise self._broken("the server closed the connection")
        self.ended = True
        return []

    def lines(self) -> Iterator[tuple[float, bytes]]:
        """Yield (time.monotonic() of arrival, line), waiting for each, until the end of the reply.

        Raises Broken if the connection fails or no data arrive for ``silence`` seconds.
        """
        for line in self.first():
            yield self._answered, line
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        while not self.ended:
            if not poll.poll(self.silence * 1000):
                raise self.silent()
            received = self.receive()
            if received is not None:
                at, data = received
                for line in self.take(data):
                    yield at, line
        self.close()

    def silent(self) -> Broken:
        """Close the connection and return the error for a silent stream."""
        return self._broken(f"no data for {self.silence:g} s")

    def _held(self) -> TlsStream:
        if self._channel is None:
            raise Broken(f"{self.access.server}: the watch broke: it is closed", sent=True)
        return self._channel

    def _broken(self, reason: str) -> Broken:
        self.close()
        return Broken(f"{self.access.server}: the watch broke: {reason}", sent=True)

    def _lines(self, text: bytes) -> list[bytes]:
        try:
            *lines, rest = self._chunks.feed(text).split(b"\n")
            if lines:
                lines[0] = b"".join([*self._pending, lines[0]])
                self._pending, self._pending_bytes = [], 0
            if rest:
                self._pending.append(rest)
                self._pending_bytes += len(rest)
            if self._pending_bytes > MOST_LINE:
                raise ValueError(f"a line has more than {MOST_LINE} bytes")
        except (OSError, ValueError) as error:
            raise self._broken(describe_socket_error(error, self.silence)) from error
        self.ended = self._chunks.ended
        return lines
