# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits for events of connections, and receives the tokens among them.

To wake for each token costs more than to read it, and to parse tokens of an answer together costs half. So with many
open requests, tokens are collected for a moment, received, and put aside. Their times are the kernel's, so they stay
exact.
"""

from __future__ import annotations

import select
import time
from array import array
from collections.abc import Mapping, Sequence

from .inference_request import SECOND, InferenceRequest
from .request_connection import BYTES, ROOM, RequestConnection, received_bytes_and_times

#: Wait, in nanoseconds, that leaves the time to prepare the next request. Half of it is how imprecise epoll's timer is.
PRECISE = 2_000_000
#: select() has a more precise timer than epoll, but for file descriptors below this number only.
_MOST_SELECTED = 1024
_NOTHING: tuple[int, ...] = ()
#: Open requests from which on what arrives is collected for a moment before it is read. The kernel's times are exact
#: only for tokens of an answer that are further apart. Two reads are this part of the time between two of them apart,
#: within these limits in nanoseconds.
_MANY_OPEN, _PART_OF_GAP, _LEAST_COLLECTING, _MOST_COLLECTING = 8, 8, 300_000, 1_000_000
#: Pieces that are put aside of one answer. To parse more at once would delay what arrives meanwhile.
_MOST_ASIDE = 8


class ConnectionEvents:
    """The events that connections wait for (``wants``)."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._waits = (self._epoll.fileno(),)
        self._gap = 0  # between two tokens of an answer, smoothed, nanoseconds
        self._collecting = _LEAST_COLLECTING
        #: When was read last, monotonic, nanoseconds. Collecting counts from then, not from what arrives, so that a
        #: token that arrives while others are parsed, or before a request is sent, does not wait for both.
        self._last_read = 0

    def register(self, connection: RequestConnection) -> None:
        """Wait for what the connection wants."""
        if connection.registered != connection.wants:
            if connection.registered:
                self._epoll.modify(connection.fd, connection.wants)
            else:
                self._epoll.register(connection.fd, connection.wants)
            connection.registered = connection.wants

    def unregister(self, connection: RequestConnection) -> None:
        """Wait for nothing of the connection any more."""
        self._epoll.unregister(connection.fd)

    def wait(self, until: int, open_requests: int) -> list[tuple[int, int]]:
        """Return file descriptors and their events; none at the moment ``until`` (monotonic, nanoseconds)."""
        now = time.monotonic_ns()
        left = until - now
        if left <= 0:
            self._last_read = now
            return self._epoll.poll(0)
        if self._epoll.fileno() >= _MOST_SELECTED:
            arrived = bool(self._epoll.poll(max(0, left - PRECISE // 2) / SECOND))
        else:
            arrived = bool(select.select(self._waits, _NOTHING, _NOTHING, left / SECOND)[0])
        if arrived and open_requests >= _MANY_OPEN:
            left = min(until, self._last_read + self._collecting) - time.monotonic_ns()
            if left > 0:
                time.sleep(left / SECOND)
        now = time.monotonic_ns()
        if not arrived or now >= until:  # first what is due: reading takes longer than sending
            return []
        self._last_read = now
        return self._epoll.poll(0)

    def learn_gap(self, times: Sequence[int]) -> None:
        """Adapt how long tokens are collected, at once to answers that are faster and slowly to slower ones."""
        if len(times) > 1:
            longer = (times[-1] - times[0]) // (len(times) - 1) - self._gap
            self._gap += longer // 32 if longer > 0 else longer // 2
            self._collecting = min(max(self._gap // _PART_OF_GAP, _LEAST_COLLECTING), _MOST_COLLECTING)

    def close(self) -> None:
        """Close the file descriptor of the events."""
        self._epoll.close()


def receive_tokens_unparsed(
    connections: Mapping[int, RequestConnection], events: Sequence[tuple[int, int]]
) -> list[tuple[RequestConnection, int]]:
    """Receive the tokens among the events, without parsing them; return the connections with something else.

    This is all that happens to most tokens when they arrive.
    """
    clock, others = time.monotonic_ns, []
    for fd, mask in events:
        connection = connections.get(fd)
        if connection is None:
            continue
        request = connection.request
        if mask == select.EPOLLIN and connection.plain and request is not None and request.expected is not None:
            try:
                received = connection.receive(BYTES, ROOM)
            except OSError:  # the engine meets it again
                others.append((connection, mask))
                continue
            ends = not received[0].endswith(request.expected.after)
            if not ends and len(connection.aside) < _MOST_ASIDE:
                connection.aside.append((received, clock()))
                continue
            connection.unread = received
        others.append((connection, mask))
    return others


def parse_received_tokens(connection: RequestConnection, request: InferenceRequest, lags: array[int]) -> None:
    """Parse what was put aside of an answer, and append the lag of each piece, in nanoseconds. Raises BrokenAnswer."""
    pieces, connection.aside = connection.aside, []
    for received, now in pieces:
        data, moment, lag = received_bytes_and_times(received, now)
        lags.append(lag)
        request.take(data, moment, lag)
