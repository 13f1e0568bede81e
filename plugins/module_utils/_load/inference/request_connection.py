# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A connection that never blocks and knows when its bytes arrived: the kernel's time of each received piece.

The kernel stamps bytes when they arrive (SO_TIMESTAMPNS), however late this process reads them. The difference between
both is the lag of the client. Of several pieces in one read only the last is stamped.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import SplitResult, urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import read_both_clocks

from .inference_request import InferenceRequest

#: Of Linux; Python's socket module has no name for it.
SO_TIMESTAMPNS = 35
_STAMP = struct.Struct("@qq")
_read_stamp = _STAMP.unpack_from  # looked up once, not for each token
ROOM = socket.CMSG_SPACE(_STAMP.size)
BYTES = 1 << 16
#: Nanoseconds that a stamp may seem to be in the future, and the longest time that bytes wait to be read.
_TOLERANCE, _LONGEST_LAG = 1_000_000, 60_000_000_000
_WAITING = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EINPROGRESS)

READ, WRITE = select.EPOLLIN | select.EPOLLRDHUP, select.EPOLLOUT


class KernelStamps:
    """Converts the kernel's stamps, which are of the wall clock, to the monotonic clock. Nanoseconds.

    Both clocks run at the same rate, so their difference changes only when somebody sets the wall clock.
    """

    def __init__(self) -> None:
        self.difference = 0
        self.measure()

    def measure(self) -> None:
        """Measure the difference of the clocks."""
        monotonic, wall = read_both_clocks()
        self.difference = wall - monotonic

    def moment(self, stamp: int, now: int) -> int:
        """Return the moment of a stamp that was read ``now``."""
        moment = stamp - self.difference
        if moment > now + _TOLERANCE or moment < now - _LONGEST_LAG:
            self.measure()  # the wall clock was set
            moment = stamp - self.difference
            if moment < now - _LONGEST_LAG:
                return now
        return min(moment, now)


STAMPS = KernelStamps()


class ConnectionLost(Exception):
    """The connection broke. ``cause``: of the request, as in requests.jsonl."""

    def __init__(self, cause: str, text: str) -> None:
        super().__init__(text)
        self.cause = cause


def split_url(url: str) -> tuple[SplitResult, str, int]:
    """Return a base URL, its host and its port. Raises InputError for another URL."""
    if "@" in url:  # before all other errors, which show the address
        text = "urls: an address contains a user name or a password; give the key as api_key"
        raise InputError(text, setting="urls")
    shown = url.partition("?")[0]
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InputError(f"urls: '{shown}' is not a URL: {error}", setting="urls") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        text = f"urls: '{shown}' must be http:// or https://, a host, and perhaps a port and a path"
        raise InputError(text, setting="urls")
    return parts, parts.hostname, port or (443 if parts.scheme == "https" else 80)


@dataclass(frozen=True)
class InferenceServer:
    """A server: its address, resolved once, and the path before ``/v1``."""

    number: int
    url: str
    host: str
    authority: str
    path: str
    family: int
    address: Any
    tls: ssl.SSLContext | None

    @classmethod
    def from_url(cls, number: int, url: str, context: ssl.SSLContext) -> InferenceServer:
        """Resolve the address of a base URL. Raises InputError for another URL, AccessError without an address."""
        return cls._from_addresses(number, url, context)[0]

    @classmethod
    def each_from_url(cls, number: int, url: str, context: ssl.SSLContext) -> list[InferenceServer]:
        """Resolve all addresses of a base URL, of one family; return each as a server, numbered from ``number`` on.

        Their order is that of the addresses, so that all clients number them alike.
        """
        servers = sorted(cls._from_addresses(number, url, context), key=lambda server: server.address)
        return [replace(server, number=number + i) for i, server in enumerate(servers)]

    @classmethod
    def _from_addresses(cls, number: int, url: str, context: ssl.SSLContext) -> list[InferenceServer]:
        parts, host, port = split_url(url)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise AccessError(f"{url}: the name {host} has no address: {error.strerror}") from error
        path = parts.path.rstrip("/").removesuffix("/v1")
        secure = context if parts.scheme == "https" else None
        family = found[0][0]
        addresses = dict.fromkeys(entry[4] for entry in found if entry[0] == family)
        return [cls(number, url, host, parts.netloc, path, family, address, secure) for address in addresses]


def _why_no_tls(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message.rstrip(".")
        return f"its certificate is not accepted ({reason}); ca_file names the authorities that are trusted"
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return "the server does not speak TLS; the URL of such a server begins with http://"
    return f"TLS: {getattr(error, 'reason', '') or error}"


#: What recvmsg() returns: bytes, the kernel's stamp, flags, no address.
Received = tuple[bytes, list[tuple[int, int, bytes]], int, Any]


def received_bytes_and_times(received: Received, now: int) -> tuple[bytes, int, int]:
    """Return bytes that were received ``now``, when they arrived, and how long before that."""
    data, ancillary, _flags, _address = received
    if not ancillary:
        return data, now, 0
    seconds, nanoseconds = _read_stamp(ancillary[0][2])
    moment = seconds * 1_000_000_000 + nanoseconds - STAMPS.difference
    if not 0 <= now - moment <= _LONGEST_LAG:
        moment = STAMPS.moment(moment + STAMPS.difference, now)
    return data, moment, now - moment


class RequestConnection:
    """One connection to a server. Methods raise ConnectionLost.

    Attributes:
        receive: Receives bytes, without decryption.
        aside: What was received of an answer and not parsed yet, and when: tokens in the middle of it, without TLS.
        unread: What was received and must be read first.
        plain: Whether it is without TLS.
    """

    __slots__ = (
        *("_handshaken", "_incoming", "_out", "_outgoing", "_sock", "_tls"),
        *(
            "aside",
            "carried",
            "connected",
            "fd",
            "number",
            "opened",
            "pending",
            "plain",
            "ready",
            "receive",
            "registered",
        ),
        *("request", "server", "unread", "wants"),
    )

    def __init__(self, server: InferenceServer, number: int) -> None:
        """Begin to connect."""
        self.server = server
        self.number = number
        self.opened = time.monotonic_ns()
        self.connected = False
        self.ready = False  # whether a request can be sent at once
        self.request: InferenceRequest | None = None
        self.carried = 0  # requests so far
        self.pending = b""  # a request that waits for the connection
        self.registered = 0  # events that the loop waits for
        self._out = b""
        self._sock = socket.socket(server.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self.receive = self._sock.recvmsg
        self.aside: list[tuple[Received, int]] = []
        self.unread: Received | None = None
        self.fd = self._sock.fileno()
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._tls: ssl.SSLObject | None = None
        self.plain = self._handshaken = server.tls is None
        if server.tls is not None:
            self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            self._tls = server.tls.wrap_bio(self._incoming, self._outgoing, server_hostname=server.host)
        self.wants = WRITE
        code = self._sock.connect_ex(server.address)
        if code and code not in _WAITING:
            self._sock.close()
            raise ConnectionLost("connect", f"{server.url}: {os.strerror(code)}")

    def send(self, data: bytes) -> None:
        """Send bytes of a request as soon as the connection permits."""
        if self._tls is not None and self._handshaken:
            self._tls.write(data)
            self._out += self._outgoing.read()
        elif self._tls is not None:
            raise ConnectionLost("tls", "the handshake is not complete")
        else:
            self._out = self._out + data if self._out else data
        if self.connected:
            self._flush()

    def on_writable(self) -> None:
        """Continue to connect or to send."""
        if not self.connected:
            code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise ConnectionLost("connect", f"{self.server.url}: {os.strerror(code)}")
            self.connected = True
            self.ready = self._tls is None
            if self._tls is not None:
                self._shake_hands(self._tls)
        self._flush()

    def _shake_hands(self, tls: ssl.SSLObject) -> None:
        try:
            tls.do_handshake()
            self._handshaken = self.ready = True
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLError, OSError) as error:
            raise ConnectionLost("tls", f"{self.server.url}: {_why_no_tls(error)}") from error
        self._out += self._outgoing.read()

    def _flush(self) -> None:
        while self._out:
            try:
                sent = self._sock.send(self._out)
            except BlockingIOError:
                break
            except OSError as error:
                raise ConnectionLost("reset", f"the connection broke: {error.strerror}") from error
            self._out = self._out[sent:]
        self.wants = READ | WRITE if self._out else READ

    @property
    def all_sent(self) -> bool:
        """Whether no byte of a request waits to be sent."""
        return not (self._out or self.pending)

    def is_quiet(self) -> bool:
        """Return whether an idle connection is open, and nothing has arrived that nobody asked for."""
        try:
            self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def read(self) -> tuple[bytes, int, int]:
        """Return bytes, when they arrived (monotonic, nanoseconds), and how long ago that is; no bytes: the end.

        Raises BlockingIOError if there is nothing to be read yet.
        """
        if self.unread is not None:
            received, self.unread = self.unread, None
        else:
            try:
                received = self.receive(BYTES, ROOM)
            except BlockingIOError:
                raise
            except OSError as error:
                raise ConnectionLost("reset", f"the connection broke: {error.strerror}") from error
        data, moment, lag = received_bytes_and_times(received, time.monotonic_ns())
        if self._tls is not None and data:
            data = self._decrypt(self._tls, data)
            if not data:
                raise BlockingIOError
        if data and self.pending:
            raise ConnectionLost("not_http", f"{self.server.url}: the server answered before it was asked")
        return data, moment, lag

    def _decrypt(self, tls: ssl.SSLObject, data: bytes) -> bytes:
        self._incoming.write(data)
        if not self._handshaken:
            self._shake_hands(tls)
            self._flush()
            if not self._handshaken:
                return b""
        parts = []
        try:
            while part := tls.read(BYTES):
                parts.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            pass  # the end of the connection follows
        except (ssl.SSLError, OSError) as error:
            raise ConnectionLost("tls", f"{self.server.url}: TLS: {getattr(error, 'reason', error)}") from error
        renewal = self._outgoing.read()
        if renewal:  # an answer to a renewal of keys
            self._out += renewal
            self._flush()
        return b"".join(parts)

    def close(self) -> None:
        """Close the connection."""
        self._sock.close()


def take_quiet_connection(
    idle: list[RequestConnection], drop: Callable[[RequestConnection], None]
) -> RequestConnection | None:
    """Take an idle connection on which a request can be sent, and drop those that are closed, or have an answer.

    Such an answer would count as that of the next request. Return None if there is no other connection.
    """
    while idle:
        connection = idle.pop()
        if connection.is_quiet():
            return connection
        drop(connection)
    return None
