# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One thread reads all watches: bytes are received and timestamped soon, and decoded in batches.

Waking up is a large part of the cost of an event. A single event is processed at once. During a burst, bytes are
received from the kernel after pauses and later decrypted, parsed and written together. The kernel records when the last
of the bytes of a receive arrived; the receive time is late by at most one pause, and it remains an upper bound. The
pause is as long as the API server takes to answer a write, within limits: the other bounds are no closer than that.
"""

from __future__ import annotations

import contextlib
import queue
import select
import socket
import time
from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias

from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import Broken, LineStream
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.tls import BLOCK

#: An item: (number of the follower, what, time.monotonic(), payload), see kind_follower.
Item: TypeAlias = tuple[int, str, float, Any]
#: Maximum distance of events in a burst, seconds.
_BURST_GAP = 0.1
#: Minimum and maximum interval between two receives in a burst, seconds.
_SHORTEST, _LONGEST = 0.02, 0.05
#: Weight of one answer in the mean duration of answers.
_WEIGHT = 0.1
#: Maximum time that the events of a burst are gathered, seconds: usually, and where the load acts on them.
GATHER, GATHER_BRIEFLY = 0.25, 0.1
#: Maximum number of bytes that are received before they are decoded, to limit memory.
_MAX_BYTES = 1 << 20
#: Interval between two checks for silent streams, seconds.
_SILENCE_CHECK_INTERVAL = 1.0


class StreamLineListener(Protocol):
    """Receives the lines of a stream, in the thread that reads."""

    def hear(self, at: float, line: bytes, items: list[Item]) -> None:
        """Process a line that was received at ``at`` (time.monotonic()); add items to ``items``."""

    def over(self, error: Broken | None) -> None:
        """The stream ended, or it broke. No further line follows."""


class WatchMultiplexer:
    """Any thread may attach streams and put items; take() and close() are for one thread.

    gather: maximum time that the events of a burst are gathered, seconds.
    """

    def __init__(self, gather: float = GATHER) -> None:
        self._gather = gather
        self._queue: queue.SimpleQueue[Item | tuple[StreamLineListener, LineStream]] = queue.SimpleQueue()
        self._woken, self._wake = socket.socketpair()
        for end in (self._woken, self._wake):
            end.setblocking(False)
        self._nudged = self._woken.fileno()
        self._poll = select.poll()
        self._poll.register(self._nudged, select.POLLIN)
        self._streams: dict[int, tuple[StreamLineListener, LineStream]] = {}
        self._heard: dict[int, float] = {}  # file descriptor -> time of the last bytes
        self._next_look = 0.0
        self._last = 0.0  # time of the last decoding
        self._answer = 0.0  # mean duration of recent answers of the API server, seconds

    def put(self, item: Item) -> None:
        """Let take() return ``item`` after earlier items, and before lines of streams that are attached later."""
        self._queue.put(item)
        self._nudge()

    def attach(self, listener: StreamLineListener, stream: LineStream) -> None:
        """Pass the lines of an open stream to ``listener``, and call its over() at the end."""
        self._queue.put((listener, stream))
        self._nudge()

    def record_answer_time(self, seconds: float) -> None:
        """Take how long the API server took to answer a write. For one thread."""
        self._answer += (seconds - self._answer) * _WEIGHT

    @property
    def pause(self) -> float:
        """Interval between two receives in a burst, seconds."""
        return min(max(self._answer, _SHORTEST), _LONGEST)

    def take(self, timeout: float) -> Iterator[Item]:
        """Wait up to ``timeout`` seconds for the first item, and return an iterator over the items in order.

        It decodes bytes while it is consumed, block by block, so that events are processed while they are in the
        processor's cache. It must be consumed to its end.
        """
        now = time.monotonic()
        return self._items(self._receive(now + timeout, now), now)

    def _items(self, taken: list[tuple[int, float, bytes | Broken]], now: float) -> Iterator[Item]:
        items: list[Item] = []
        for number, at, data in taken:
            self._lines(number, at, data, items)
            yield from items
            items.clear()
        self._drain(items)
        if taken:
            self._last = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _SILENCE_CHECK_INTERVAL
            self._look(now)
        yield from items

    def close(self) -> None:
        """Close all streams."""
        for number in list(self._streams):
            self._end(number, None)
        for end in (self._woken, self._wake):
            end.close()

    def _receive(self, deadline: float, now: float) -> list[tuple[int, float, bytes | Broken]]:
        """Return (stream, time.monotonic(), bytes): a first piece at once, or the pieces of a burst."""
        taken: list[tuple[int, float, bytes | Broken]] = []
        until, size = deadline, 0
        busy = False
        while True:
            ready = self._poll.poll(max(0.0, until - now) * 1000)
            now = time.monotonic()
            nudged = full = False
            for number, _what in ready:
                if number == self._nudged:
                    nudged = True
                    continue
                try:
                    received = self._streams[number][1].receive()
                except Broken as error:
                    taken.append((number, now, error))
                    nudged = True
                    continue
                if received is None:
                    continue
                at, data = received
                taken.append((number, at, data))
                size += len(data)
                if len(data) == BLOCK:
                    full = True  # more is available
                elif not data:
                    nudged = True  # the end of a stream, which remains readable
            if taken and not busy:
                busy = taken[0][1] < self._last + _BURST_GAP
            if nudged or now >= until or size > _MAX_BYTES or (taken and not busy):
                return taken
            if taken:
                until = taken[0][1] + self._gather
                if not full:
                    pause = self.pause
                    time.sleep(pause)
                    now += pause

    def _lines(self, number: int, at: float, data: bytes | Broken, items: list[Item]) -> None:
        """Pass the lines that were received to the listener of the stream."""
        entry = self._streams.get(number)
        if entry is None:
            return
        listener, stream = entry
        self._heard[number] = at
        try:
            if isinstance(data, Broken):
                raise data
            for line in stream.take(data):
                listener.hear(at, line, items)
        except Broken as error:
            self._end(number, error)
            return
        if stream.ended:
            self._end(number, None)

    def _drain(self, items: list[Item]) -> None:
        """Take the items of other threads."""
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)
        while not self._queue.empty():
            item = self._queue.get()
            if len(item) == 4:
                items.append(item)
            else:
                self._begin(*item, items)

    def _begin(self, listener: StreamLineListener, stream: LineStream, items: list[Item]) -> None:
        try:
            number = stream.fileno()
            self._streams[number] = (listener, stream)
            now = self._heard[number] = time.monotonic()
            for line in stream.first():
                listener.hear(now, line, items)
        except Broken as error:
            listener.over(error)
            return
        if stream.ended:
            self._end(number, None)
        else:
            self._poll.register(number, select.POLLIN)

    def _end(self, number: int, error: Broken | None) -> None:
        entry = self._streams.pop(number, None)
        if entry is not None:
            with contextlib.suppress(KeyError, OSError, ValueError):
                self._poll.unregister(number)
            del self._heard[number]
            entry[1].close()
            entry[0].over(error)

    def _look(self, now: float) -> None:
        for number, at in list(self._heard.items()):
            if now - at > self._streams[number][1].silence:
                self._end(number, self._streams[number][1].silent())

    def _nudge(self) -> None:
        with contextlib.suppress(OSError):  # the buffer is full of wake-ups, or the reader has closed
            self._wake.send(b"\0")
