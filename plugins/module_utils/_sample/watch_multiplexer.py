# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One thread that reads all watches: bytes are taken and stamped soon, and made into events many at a time.

Most of what an event costs is to wake up for it. When events come singly each is taken at once. When they follow one
another, what has come is taken from the kernel every few milliseconds (its receive time is then too late by so much at
most; it stays an upper bound), and decrypted, parsed and written together.
"""

from __future__ import annotations

import contextlib
import queue
import select
import socket
import time
from typing import Any, Protocol, TypeAlias

from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import Broken
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.line_stream import LineStream
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.tls_stream import BLOCK

#: What happened: (number of the follower, what, time.monotonic(), payload).
Item: TypeAlias = tuple[int, str, float, Any]
#: Events that come so soon (seconds) after others are gathered, for so long, and then made into rows together.
_SOON, _TOGETHER = 0.04, 0.1
#: Seconds between two looks at what has come meanwhile: as long as few bytes come in a second, and when many do.
_FEW, _MANY = 0.004, 0.016
_FLOW = 900_000
#: Bytes that are taken before they are made into events, at most: a burst should not take memory.
_MUCH = 1 << 20
#: Seconds between two looks whether a stream has been silent for too long.
_LOOK = 1.0


class Listener(Protocol):
    """Who hears the lines of a stream; called by the thread that reads."""

    def hear(self, at: float, line: bytes, items: list[Item]) -> None:
        """Take a line that was received at ``at`` (time.monotonic()); add what is to be told to ``items``."""

    def over(self, error: Broken | None) -> None:
        """The stream has ended, or it broke. Nothing more is heard of it."""


class WatchMultiplexer:
    """Streams are attached and items put by any thread; take() and close() are for one."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Item | tuple[Listener, LineStream]] = queue.SimpleQueue()
        self._woken, self._wake = socket.socketpair()
        for end in (self._woken, self._wake):
            end.setblocking(False)
        self._nudged = self._woken.fileno()
        self._poll = select.poll()
        self._poll.register(self._nudged, select.POLLIN)
        self._streams: dict[int, tuple[Listener, LineStream]] = {}
        self._heard: dict[int, float] = {}  # file number -> when something came last
        self._next_look = 0.0
        self._last = 0.0  # when something was made into events
        self._flow = 0.0  # bytes a second, lately
        self.cpu = 0.0  # seconds of processor time that it took to make lines of bytes

    def put(self, item: Item) -> None:
        """Have take() return ``item`` after what was put before, and before lines of streams attached later."""
        self._queue.put(item)
        self._nudge()

    def attach(self, listener: Listener, stream: LineStream) -> None:
        """Have the lines of an open stream heard by ``listener``, whose over() is called in the end."""
        self._queue.put((listener, stream))
        self._nudge()

    def take(self, timeout: float) -> list[Item]:
        """Return what has come, in order; wait up to ``timeout`` seconds when nothing has."""
        now = time.monotonic()
        items: list[Item] = []
        taken = self._receive(now + timeout, now)
        began = time.thread_time()
        for number, at, data in taken:
            self._lines(number, at, data, items)
        self.cpu += time.thread_time() - began
        self._drain(items)
        if taken:
            self._last = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK
            self._look(now)
        return items

    def close(self) -> None:
        """Let go of everything."""
        for number in list(self._streams):
            self._end(number, None)
        for end in (self._woken, self._wake):
            end.close()

    def _receive(self, deadline: float, now: float) -> list[tuple[int, float, bytes | Broken]]:
        """Return what came by (stream, time.monotonic()): a first piece at once, or several that follow one another."""
        taken: list[tuple[int, float, bytes | Broken]] = []
        until, size = deadline, 0
        busy = False
        pause = _MANY if self._flow > _FLOW else _FEW
        while True:
            ready = self._poll.poll(max(0.0, until - now) * 1000)
            now = time.monotonic()
            nudged = full = False
            for number, _what in ready:
                if number == self._nudged:
                    nudged = True
                    continue
                try:
                    data: bytes | Broken | None = self._streams[number][1].receive()
                except Broken as error:
                    data = error
                if data is not None:
                    # Not the time of before: what came in between is in it, and nothing may be dated before it came.
                    taken.append((number, time.monotonic(), data))
                if isinstance(data, bytes) and data:
                    size += len(data)
                    full = full or len(data) == BLOCK  # there is more
                elif data is not None:
                    nudged = True  # its end, which makes a stream ready for ever
            if taken and not busy:
                busy = taken[0][1] < self._last + _SOON
            if nudged or now >= until or size > _MUCH or (taken and not busy):
                self._flow = size / max(now - self._last, _SOON)
                return taken
            if taken:
                until = min(until, taken[0][1] + _TOGETHER)
                if not full:
                    time.sleep(pause)
                    now += pause

    def _lines(self, number: int, at: float, data: bytes | Broken, items: list[Item]) -> None:
        found = self._streams.get(number)
        if found is None:
            return
        listener, stream = found
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
        """Take what other threads have put."""
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)
        while not self._queue.empty():
            one = self._queue.get()
            if len(one) == 4:
                items.append(one)
            else:
                self._begin(*one, items)

    def _begin(self, listener: Listener, stream: LineStream, items: list[Item]) -> None:
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
        found = self._streams.pop(number, None)
        if found is not None:
            with contextlib.suppress(KeyError, OSError, ValueError):
                self._poll.unregister(number)
            del self._heard[number]
            found[1].close()
            found[0].over(error)

    def _look(self, now: float) -> None:
        for number, at in list(self._heard.items()):
            if now - at > self._streams[number][1].silence:
                self._end(number, self._streams[number][1].silent())

    def _nudge(self) -> None:
        with contextlib.suppress(OSError):  # enough of them wait to be read, or nobody will
            self._wake.send(b"\0")
