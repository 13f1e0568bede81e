# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When each request is due: at planned times, when a stream is free, or when the turn before it has been answered.

A load can also look for the capacity at an objective: the rate of each of its steps follows from the answers before it.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count as counter
from math import log
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.capacity_search import (
    USUAL_HIGH,
    USUAL_LOW,
    USUAL_SHARE,
    CapacitySearch,
    SearchStep,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

from ..plan.random_draws import uniform_number_by_index
from .inference_request import LOST, SECOND, SUCCEEDED, InferenceRequest

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


#: Limits of an objective.
LIMITS = ("ttft", "tpot", "stall", "total")
#: Fewest requests of a step, and seconds before its first one.
_LEAST, _LEAD = 10, 0.1
#: How many times the permitted misses, and at least how many, end a step early: it has failed then.
_HOPELESS, _HOPELESS_LEAST = 4, 6


@dataclass(frozen=True)
class SearchSpec:
    """low, high: rates between which the capacity is looked for. step, timespan: seconds of a step, and of all.

    precision: how far the bounds of the capacity may be apart at the end, as a share. slo: limits in seconds, share.
    """

    low: float
    high: float
    step: float
    timespan: float
    precision: float
    slo: Mapping[str, float]

    @classmethod
    def from_params(cls, search: Mapping[str, Any], slo: Mapping[str, Any]) -> SearchSpec:
        """Check the options. Raises InputError."""
        values = {"low": USUAL_LOW, "high": USUAL_HIGH, "step": 20.0, "timespan": 600.0, "precision": 0.1}
        values |= {name: float(value) for name, value in search.items() if value is not None}
        limits = {name: float(value) for name, value in slo.items() if value is not None}
        if not limits.keys() & set(LIMITS):
            raise InputError("search needs an objective: slo with ttft, tpot, stall or total", setting="slo")
        for name, value in values.items():
            if value <= 0:
                raise InputError(f"search.{name} is {value:g}, it must be above 0", setting="search")
        if not 0 < limits.get("share", USUAL_SHARE) <= 1:
            raise InputError(f"slo.share is {limits['share']:g}, it must be above 0 and at most 1", setting="slo")
        if values["low"] >= values["high"]:
            text = f"search.low is {values['low']:g} and search.high {values['high']:g}: low must be below high"
            raise InputError(text, setting="search")
        if values["timespan"] < values["step"]:
            text = f"search.timespan is {values['timespan']:g} s, shorter than one step of {values['step']:g} s"
            raise InputError(text, setting="search")
        return cls(**values, slo=limits)

    @property
    def share(self) -> float:
        """Share of the requests that has to keep the limits."""
        return self.slo.get("share", USUAL_SHARE)


def has_kept_slo(record: Mapping[str, Any], slo: Mapping[str, float]) -> bool:
    """Return whether a request, as a line of requests.jsonl, has kept the limits of an objective."""
    if record["outcome"] != SUCCEEDED:
        return False
    times = [0, *(record.get("times") or [])]
    tokens = record.get("output_tokens") or 0
    seconds = {
        "ttft": record["first_token"] - record["due"],
        "tpot": (record["last_token"] - record["first_token"]) / (tokens - 1) if tokens > 1 else 0.0,
        "stall": max((b - a for a, b in zip(times, times[1:], strict=False)), default=0) / 1e6,
        "total": record["ended"] - record["due"],
    }
    return all(value <= slo[name] for name, value in seconds.items() if name in slo)


class SearchSchedule(RequestSchedule):
    """Requests at the rate of a step, at random times; the next step begins when all of them have ended."""

    def __init__(
        self,
        make: MakeRequest,
        first: int,
        seed: int,
        spec: SearchSpec,
        search: CapacitySearch,
        kept: Callable[[InferenceRequest], bool],
        begun: Callable[[int, float], None],
        spent: float = 0.0,
    ) -> None:
        """Make a schedule.

        Args:
            make: Makes a request.
            first: Index of the first request.
            seed: Of the times of requests.
            spec: What is looked for.
            search: With the steps of earlier sessions.
            kept: Whether a request that has ended kept the objective.
            begun: Is called with the first index and the rate of each step.
            spent: Seconds of earlier sessions.
        """
        super().__init__(make, iter(()))
        self._next, self._seed, self._spec, self._search = first, seed, spec, search
        self._kept, self._begun, self._spent = kept, begun, spent
        self._rate = 0.0
        self._left = self._sent = self._ended = self._good = 0
        self._due = 0

    @property
    def gives_up(self) -> bool:
        """Whether a long row of failures means that the servers are dead: above their capacity it does not."""
        return not self._search.kept

    def begin(self, start: int) -> None:
        """Begin the first step."""
        self._start = start
        self._begin_step(start)

    def _begin_step(self, now: int) -> None:
        passed = self._spent + (now - self._start) / SECOND
        if passed + self._spec.step > self._spec.timespan or self._search.estimate().is_within(self._spec.precision):
            return
        self._rate = self._search.next_rate()
        self._left = max(_LEAST, round(self._rate * self._spec.step))
        self._sent = self._ended = self._good = 0
        self._due = now + int(_LEAD * SECOND)
        self._begun(self._next, self._rate)
        self._take_upcoming()

    def _take_upcoming(self) -> None:
        self._upcoming = None
        if self._left:
            self._left -= 1
            gap = -log(1 - uniform_number_by_index(self._next, self._seed, "search")) / self._rate
            self._due += int(gap * SECOND)
            self._upcoming = self._make(self._next, self._due)
            self._next += 1

    def pop(self, now: int) -> InferenceRequest | None:
        """Return the next request if it is due, and forget it."""
        request = super().pop(now)
        if request is not None and not request.attempts:
            self._sent += 1
        return request

    def note_ended(self, request: InferenceRequest) -> None:
        """Take what a request has shown, and begin the next step after the last one."""
        self._ended += 1
        self._good += self._kept(request)
        allowed = (1 - self._spec.share) * (self._sent + self._left)
        if self._ended - self._good > max(_HOPELESS_LEAST, _HOPELESS * allowed) and self._upcoming is not None:
            # It was never sent, so the next step has its index.
            self._next, self._left, self._upcoming = self._upcoming.index, 0, None
        if self._upcoming is None and not self._left and self._ended == self._sent and request.outcome != LOST:
            self._search.take(SearchStep(self._rate, self._ended, self._good))
            self._begin_step(time.monotonic_ns())
