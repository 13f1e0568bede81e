# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reply that arrives line by line (a watch), on a separate connection.

Receiving bytes from the kernel and splitting them into lines are separate steps: the first must be timely and is one
system call for everything that has arrived; the second (TLS, chunked coding, lines) can handle many bytes later.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator

from . import http1_codec
from .api_credentials import Access
from .connection import Broken, Connection, Reply, why
from .tls_stream import TlsStream


class LineStream(Connection):
    """One reply in lines. Opened by one thread, read by one; any thread may interrupt it."""

    def __init__(self, access: Access, timeout: float = 60.0) -> None:
        super().__init__(access, timeout)
        #: Seconds without data after which a stream counts as broken.
        self.silence = timeout
        self.ended = False
        self._answered = 0.0
        self._rest = b""  # bytes received with the head
        self._chunks = http1_codec.Chunks(False)
        self._pending = b""  # an incomplete line

    def open(self, request: bytes, silence: float) -> Reply:
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
            status = http1_codec.status(head)
            if status != 200:
                body = self._read_body(held, head, self._rest, False)
                self.ended = True
                return Reply(status, head, body, sent, self._answered)
            held.settimeout(0.0)
            held.date_arrivals()
        except (OSError, ValueError) as error:
            self.close()
            raise Broken(f"{self.access.server}: no answer: {why(error, silence)}", sent=True) from error
        self.ended, self._pending = False, b""
        self._chunks = http1_codec.Chunks((http1_codec.header(head, b"transfer-encoding") or "").lower() == "chunked")
        return Reply(status, head, b"", sent, self._answered)

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
            raise self._broken(why(error, self.silence)) from error

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
            found = self.receive()
            if found is not None:
                at, data = found
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
            *lines, self._pending = (self._pending + self._chunks.feed(text)).split(b"\n")
        except (OSError, ValueError) as error:
            raise self._broken(why(error, self.silence)) from error
        self.ended = self._chunks.ended
        return lines
