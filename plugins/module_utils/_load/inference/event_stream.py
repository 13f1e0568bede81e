# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP/1.1 answers and server-sent events, parsed as their bytes arrive, in whatever pieces these arrive.

Only bytes are handled: text is decoded when an event is complete, so that a character may be split between two pieces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

#: Most bytes of the head of an answer, of one line of a chunked body, and of one event.
MOST_HEAD, MOST_LINE, MOST_EVENT = 1 << 16, 1 << 12, 1 << 23
#: Most digits of the length of a body.
_LENGTH_DIGITS = 15
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;.*)?\Z")
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: .*)?\Z")


class BrokenAnswer(Exception):
    """The bytes of a server are not an answer in HTTP/1.1."""


@lru_cache(maxsize=64)  # in a load, the heads of most answers in a second are the same
def _parse_head(head: bytes) -> tuple[int, bool, Mapping[str, str]]:
    """Return status, whether it is HTTP/1.1, and headers of an answer. Raises BrokenAnswer."""
    lines = head.split(b"\r\n")
    match = _STATUS.match(lines[0])
    if match is None:
        raise BrokenAnswer(f"the server does not speak HTTP/1.1: it sent {lines[0][:40]!r}")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon:
            raise BrokenAnswer(f"header {line[:40]!r} has no colon")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return int(match[2]), match[1] == b"1", headers


class HttpAnswer:
    """One answer. ``feed`` returns the bytes of its body; ``complete`` says whether it has ended.

    ``reusable``: whether the connection may carry another request after it. ``headers``: by name in lower case.
    """

    __slots__ = ("_buffer", "_feed", "_left", "_trailers", "complete", "headers", "reusable", "status")
    #: Takes bytes of the part that is expected. A function, not a method: a method would refer back to the answer, and
    #: such a cycle stays in memory until a collection, which a load does not have.
    _feed: Callable[[HttpAnswer, bytes], bytes]

    def __init__(self) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.complete = False
        self.reusable = True
        self._buffer = b""
        self._left = 0  # bytes that are missing of the body or of a chunk; -1: the line break after a chunk
        self._trailers = False
        self._feed = HttpAnswer._feed_head

    def feed(self, data: bytes) -> bytes:
        """Take bytes; return those of the body. Raises BrokenAnswer."""
        return self._feed(self, data)

    @property
    def between_chunks(self) -> bool:
        """Whether a chunk of the body has ended and the next has not begun."""
        return self._feed is HttpAnswer._feed_chunks and not (self._buffer or self._left or self._trailers)

    def on_connection_closed(self) -> None:
        """Take the end of the connection. Raises BrokenAnswer if the answer is not complete."""
        if not self.complete and self._feed is HttpAnswer._feed_until_end:
            self.complete = True
        if not self.complete:
            raise BrokenAnswer("the server closed the connection in the middle of the answer")

    def _feed_head(self, data: bytes) -> bytes:
        rest = self._buffer + data
        status = 100
        while 100 <= status < 200:  # an interim answer: the final one follows
            head, end, after = rest.partition(b"\r\n\r\n")
            if not end:
                if len(rest) > MOST_HEAD or not rest.startswith(b"HTTP/1."[: len(rest)]):
                    raise BrokenAnswer(f"the server does not speak HTTP/1.1: it sent {rest[:40]!r}")
                self._buffer = rest
                return b""
            rest = after
            status, keeps, headers = _parse_head(head)
        self._buffer = b""
        self.status = status
        self.headers = headers
        self._choose_body(keeps)
        return self._feed(self, rest) if rest or self.complete else b""

    def _choose_body(self, keeps: bool) -> None:
        connection = self.headers.get("connection", "").lower()
        self.reusable = "close" not in connection and (keeps or "keep-alive" in connection)
        self._feed = HttpAnswer._feed_until_end
        if self.status in (204, 304):
            self.complete = True
            self._feed = HttpAnswer._feed_after_end
        elif "chunked" in self.headers.get("transfer-encoding", "").lower():
            self._feed = HttpAnswer._feed_chunks
        elif "content-length" in self.headers:
            length = self.headers["content-length"].split(",")[0].strip()
            if not length.isdecimal() or len(length) > _LENGTH_DIGITS:
                raise BrokenAnswer(f"content-length is '{length[:40]}'")
            self._left = int(length)
            self._feed = HttpAnswer._feed_counted
            self.complete = self._left == 0
        else:
            self.reusable = False

    def _feed_until_end(self, data: bytes) -> bytes:
        return data

    def _feed_after_end(self, data: bytes) -> bytes:
        if data:  # more than the answer has
            self.reusable = False
        return b""

    def _feed_counted(self, data: bytes) -> bytes:
        body = data[: self._left]
        self._left -= len(body)
        if not self._left:
            self.complete = True
            self._feed = HttpAnswer._feed_after_end
            self._feed_after_end(data[len(body) :])
        return body

    def _feed_chunks(self, data: bytes) -> bytes:
        if data[-2:] == b"\r\n" and not self._buffer and not self._left and not self._trailers:
            end = data.find(b"\r\n", 0, 10)  # usually data is one whole chunk
            if end > 0 and (line := data[:end]).isalnum():
                try:
                    size = int(line, 16)
                except ValueError:
                    size = 0
                if size and end + size + 4 == len(data):
                    return data[end + 2 : -2]
        buffer = self._buffer + data if self._buffer else data
        position, size, left = 0, len(buffer), self._left
        parts: list[bytes] = []
        while position < size:
            if left > 0:
                part = buffer[position : position + left]
                parts.append(part)
                position += len(part)
                left = left - len(part) or -1
                continue
            end = buffer.find(b"\r\n", position)
            if end < 0:
                if size - position > MOST_LINE:
                    raise BrokenAnswer("a line of the chunked body does not end")
                break
            line = buffer[position:end]
            position = end + 2
            if self._trailers:
                if not line:
                    self.complete = True
                    self._feed = HttpAnswer._feed_after_end
                    self._feed_after_end(buffer[position:])
                    position = size
            elif left == -1:
                if line:
                    raise BrokenAnswer(f"a chunk is longer than it says: {line[:40]!r} follows it")
                left = 0
            else:
                match = _CHUNK_SIZE.match(line)
                if match is None:
                    raise BrokenAnswer(f"the size of a chunk is {line[:40]!r}")
                left = int(match[1], 16)
                self._trailers = left == 0
        self._left = left
        self._buffer = buffer[position:]
        return parts[0] if len(parts) == 1 else b"".join(parts)


class EventStream:
    """Server-sent events. ``feed`` returns the data of each event that is complete, as bytes.

    Lines end with LF, CR LF or CR. Comments, such as pings, and fields other than ``data`` are skipped.
    """

    __slots__ = ("_buffer", "_return")

    def __init__(self) -> None:
        self._buffer = bytearray()  # of an event: what is added to it is not copied again
        self._return = False  # whether the last byte was CR, so that LF may still belong to it

    def feed(self, body: bytes) -> list[bytes]:
        """Take bytes of the body. Raises BrokenAnswer for an event without an end."""
        if body[:6] == b"data: " and body[-2:] == b"\n\n" and not self._buffer and not self._return:
            end = len(body) - 2  # usually body is one whole event
            if body.find(b"\n") == end and body.find(b"\r") < 0:
                return [body[6:end]]
        if self._return and body:
            self._return = False
            body = body.removeprefix(b"\n")
        if b"\r" in body:
            self._return = body.endswith(b"\r")
            body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        buffer = self._buffer
        searched = max(0, len(buffer) - 1)
        buffer += body
        if buffer.find(b"\n\n", searched) < 0:
            if len(buffer) > MOST_EVENT:
                raise BrokenAnswer(f"an event of the stream has more than {MOST_EVENT >> 20} MiB")
            return []
        *events, rest = bytes(buffer).split(b"\n\n")
        self._buffer = bytearray(rest)
        return [data for event in events if (data := _event_data(event)) is not None]

    @property
    def between_events(self) -> bool:
        """Whether an event has ended and the next has not begun."""
        return not self._buffer and not self._return

    def end(self) -> list[bytes]:
        """Take the end of the stream; return the data of an event without an empty line after it."""
        event, self._buffer = bytes(self._buffer), bytearray()
        data = _event_data(event)
        return [] if data is None else [data]


def _event_data(event: bytes) -> bytes | None:
    """Return the data of an event, None if it has none."""
    if event.startswith(b"data: ") and b"\n" not in event:
        return event[6:]
    parts = []
    for line in event.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        name, _colon, value = line.partition(b":")
        if name == b"data":
            parts.append(value.removeprefix(b" "))
    return b"\n".join(parts) if parts else None
