# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An answer that comes in lines over time (a watch), on a connection of its own.

Taking bytes from the kernel and making lines of them are apart: the first has a time to keep and is one system call
for all that has come; the second (TLS, the chunked coding, lines) can be done for many bytes together, later.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import coding
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.access import Access
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import (
    Broken,
    Connection,
    Reply,
    why,
)

#: Bytes taken from the kernel at once; text of one TLS record at most, so that no larger block is asked for.
BLOCK = 1 << 16
_RECORD = 1 << 14


class Channel:
    """A connected socket, under TLS or plain, with the reading of bytes and their decryption apart.

    recv, sendall, settimeout and close are those of a socket, for the beginning of a conversation.
    """

    def __init__(self, plain: socket.socket, context: ssl.SSLContext | None, server_name: str) -> None:
        """Shake hands. Raises OSError, ssl.SSLCertVerificationError."""
        self._plain = plain
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=server_name) if context is not None else None
        while self._tls is not None:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                self._more()
        self._flush()

    def recv(self, size: int) -> bytes:
        """Return what has come, waiting for it; nothing at the end."""
        if self._tls is None:
            return self._plain.recv(size)
        while True:
            try:
                return self._tls.read(size)
            except ssl.SSLWantReadError:
                self._more()

    def sendall(self, data: bytes) -> None:
        """Send all of ``data``."""
        if self._tls is None:
            self._plain.sendall(data)
        else:
            self._tls.write(data)
            self._flush()

    def receive(self) -> bytes:
        """Return bytes as they came from the network, for decrypt(); nothing at the end."""
        return self._plain.recv(BLOCK)

    def decrypt(self, data: bytes) -> Iterator[bytes]:
        """Yield the text of what receive() gave, and of what was left over before, record by record."""
        if self._tls is None:
            if data:
                yield data
            return
        held = self._in
        held.write(data)
        read = self._tls.read
        try:
            # A record is taken from the buffer whole, so that an empty one says there is no other.
            while held.pending:
                text = read(_RECORD)
                if not text:
                    return  # the server said goodbye
                yield text
        except ssl.SSLWantReadError:
            pass  # the rest of a record is still to come
        if self._out.pending:
            self._flush()

    def fileno(self) -> int:
        """Return the socket's number, for poll()."""
        return self._plain.fileno()

    def settimeout(self, timeout: float | None) -> None:
        """Set how long (seconds) recv() and sendall() may take."""
        self._plain.settimeout(timeout)

    def shutdown(self) -> None:
        """Make reads end at once."""
        self._plain.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket."""
        self._plain.close()

    def _more(self) -> None:
        data = self._plain.recv(BLOCK)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        self._in.write(data)

    def _flush(self) -> None:
        if self._out.pending:
            self._plain.sendall(self._out.read())


class Stream(Connection):
    """One answer in lines. Opened by one thread, then read by one; interrupted by any."""

    def __init__(self, access: Access, timeout: float = 60.0) -> None:
        super().__init__(access, timeout)
        #: Seconds after which a stream that says nothing at all counts as broken.
        self.silence = timeout
        self.ended = False
        self._channel: Channel | None = None
        self._answered = 0.0
        self._rest = b""  # what came with the head
        self._chunks = coding.Chunks(False)
        self._pending = b""  # the beginning of a line

    def open(self, request: bytes, silence: float) -> Reply:
        """Send a request and return its answer's head; an error status has its body in the Reply, and no lines.

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
            status = coding.status(head)
            if status != 200:
                body = self._read_body(held, head, self._rest, False)
                self.ended = True
                return Reply(status, head, body, sent, self._answered)
            held.settimeout(0.0)
        except (OSError, ValueError) as error:
            self.close()
            raise Broken(f"{self.access.server}: no answer: {why(error, silence)}", sent=True) from error
        self.ended, self._pending = False, b""
        self._chunks = coding.Chunks((coding.header(head, b"transfer-encoding") or "").lower() == "chunked")
        return Reply(status, head, b"", sent, self._answered)

    def first(self) -> list[bytes]:
        """Return the lines that came with the answer's head. To be called once, before anything is received."""
        rest, self._rest = self._rest, b""
        return self._lines(chain((rest,), self._held().decrypt(b"")))

    def fileno(self) -> int:
        """Return the socket's number, for poll()."""
        return self._held().fileno()

    def receive(self) -> bytes | None:
        """Return bytes that came, for take(), without waiting; None when there are none. Raises Broken."""
        try:
            return self._held().receive()
        except BlockingIOError:
            return None
        except OSError as error:
            raise self._broken(why(error, self.silence)) from error

    def take(self, data: bytes) -> list[bytes]:
        """Return the lines, without their ends, that ``data`` completes. ``ended`` tells when there will be no more.

        Raises Broken when the server ended in mid-answer.
        """
        if data:
            return self._lines(self._held().decrypt(data))
        if self._chunks.chunked:
            raise self._broken("the server closed the connection")
        self.ended = True
        return []

    def lines(self) -> Iterator[tuple[float, bytes]]:
        """Yield (time.monotonic() of arrival, line), waiting for each, until the server ends the answer.

        Raises Broken when the connection fails or nothing at all came for ``silence`` seconds.
        """
        for line in self.first():
            yield self._answered, line
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        while not self.ended:
            if not poll.poll(self.silence * 1000):
                raise self.silent()
            data = self.receive()
            at = time.monotonic()
            for line in self.take(data) if data is not None else ():
                yield at, line
        self.close()

    def silent(self) -> Broken:
        """Close the connection and return the error that nothing has come for too long."""
        return self._broken(f"nothing came for {self.silence:g} s")

    def close(self) -> None:
        """Close the socket; harmless when there is none."""
        self._channel = None
        super().close()

    def interrupt(self) -> None:
        """Make reads end at once; what has come before can still be read."""
        held = self._channel
        if held is not None:
            with contextlib.suppress(OSError):
                held.shutdown()

    def _secure(self, plain: socket.socket) -> Any:
        access = self.access
        self._channel = Channel(plain, access.context, access.server_name or access.host)
        return self._channel

    def _held(self) -> Channel:
        if self._channel is None:
            raise Broken(f"{self.access.server}: the watch broke: it is closed", sent=True)
        return self._channel

    def _broken(self, reason: str) -> Broken:
        self.close()
        return Broken(f"{self.access.server}: the watch broke: {reason}", sent=True)

    def _lines(self, pieces: Iterable[bytes]) -> list[bytes]:
        lines: list[bytes] = []
        pending, chunks = self._pending, self._chunks
        try:
            for piece in pieces:
                body = chunks.feed(piece)
                end = body.find(b"\n")
                if end < 0:
                    pending += body
                elif end == len(body) - 1:  # mostly one event comes whole
                    lines.append(pending + body[:-1])
                    pending = b""
                else:
                    *whole, pending = (pending + body).split(b"\n")
                    lines += whole
        except (OSError, ValueError) as error:
            raise self._broken(why(error, self.silence)) from error
        self._pending, self.ended = pending, chunks.ended
        return lines
