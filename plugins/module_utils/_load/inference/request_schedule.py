# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When each request is due: at planned times, when a stream is free, or when the turn before it has been answered."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count as counter

from .inference_request import SECOND, SUCCEEDED, InferenceRequest

#: Makes the request with an index that is due at a moment.
MakeRequest = Callable[[int, int], InferenceRequest]


class RequestSchedule:
    """The requests that are still to be sent. Moments in nanoseconds of the monotonic clock.

    A conversation is ``turns`` requests in a row. In the open model the first of each is due at its offset. In the
    closed model each of ``streams`` begins a conversation when its last one has ended.
    """

    def __init__(
        self,
        make: MakeRequest,
        conversations: Iterator[tuple[int, float | None]],
        turns: int = 1,
        streams: int = 0,
        think: Callable[[int], float] = lambda _index: 0.0,
        duration: float = 0.0,
    ) -> None:
        """Make a schedule.

        Args:
            make: Makes a request.
            conversations: Index of the first request of each conversation, and its offset in the open model.
            turns: Requests of a conversation.
            streams: Number of streams; 0: the open model.
            think: Seconds between an answer and the next request with an index, in a stream and in a conversation.
            duration: Seconds after which streams begin nothing more; 0: no limit.
        """
        self._make = make
        self._conversations = conversations
        self._turns = turns
        self._streams = streams
        self._think = think
        self._duration = int(duration * SECOND)
        self._until = 0
        self._start = 0
        self._heap: list[tuple[int, int, InferenceRequest]] = []
        self._order = counter()
        self._upcoming: InferenceRequest | None = None  # the next one of the open model

    @property
    def gives_up(self) -> bool:
        """Whether a long row of failures means that the servers are dead."""
        return True

    def begin(self, start: int) -> None:
        """Fix the moment to which offsets are relative."""
        self._start = start
        self._until = start + self._duration if self._duration else 0
        if self._streams:
            for stream in range(self._streams):
                self._begin_conversation(stream, start)
        else:
            self._take_upcoming()

    def _take_upcoming(self) -> None:
        index, offset = next(self._conversations, (-1, None))
        due = self._start + int((offset or 0.0) * SECOND)
        self._upcoming = None if index < 0 else self._make(index, due)

    def _begin_conversation(self, stream: int, due: int) -> None:
        if self._until and due >= self._until:
            return
        index = next(self._conversations, (-1, None))[0]
        if index >= 0:
            request = self._make(index, due)
            request.closed_stream = stream
            self._push(request, due)

    def _push(self, request: InferenceRequest, moment: int) -> None:
        heapq.heappush(self._heap, (moment, next(self._order), request))

    def next_moment(self) -> int | None:
        """Return when the next request is to be sent, None if none is known."""
        first = self._heap[0][0] if self._heap else None
        if self._upcoming is not None and (first is None or self._upcoming.due <= first):
            return self._upcoming.due
        return first

    def peek(self) -> InferenceRequest | None:
        """Return the request that is sent next."""
        moment = self.next_moment()
        if moment is None:
            return None
        if self._upcoming is not None and self._upcoming.due == moment:
            return self._upcoming
        return self._heap[0][2]

    def pop(self, now: int) -> InferenceRequest | None:
        """Return the next request if it is due, and forget it."""
        moment = self.next_moment()
        if moment is None or moment > now:
            return None
        if self._upcoming is not None and self._upcoming.due == moment:
            request = self._upcoming
            self._take_upcoming()
            return request
        return heapq.heappop(self._heap)[2]

    def send_again(self, request: InferenceRequest, moment: int) -> None:
        """Send a request that was refused once more."""
        self._push(request, moment)

    def note_ended(self, request: InferenceRequest) -> None:
        """Schedule what follows a request that has ended."""
        later = request.ended + int(self._think(request.index) * SECOND)
        if not request.last_turn and request.outcome == SUCCEEDED:
            following = self._make(request.index + 1, later)
            following.closed_stream = request.closed_stream
            self._push(following, later)
        elif request.closed_stream is not None:
            self._begin_conversation(request.closed_stream, later)
