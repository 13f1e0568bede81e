# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request and what became of it: from its due time to its line in requests.jsonl."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock

from .event_stream import EventStream, HttpAnswer
from .streamed_response import StreamedResponse, decode_json, error_text

SUCCEEDED, FAILED, REFUSED, LOST = "succeeded", "failed", "refused", "lost"
#: Statuses of servers that are overloaded: the same request may succeed later.
BUSY = frozenset((429, 503))
#: Nanoseconds in a second and in a microsecond.
SECOND, MICROSECOND = 1_000_000_000, 1_000


@dataclass(slots=True, eq=False)
class InferenceRequest:
    """A request. Moments in nanoseconds of the monotonic clock, 0: not yet.

    asked: tokens of the answer that are asked for. closed_stream: number of the stream of a closed loop. refusals: how
    often it was sent again because the server had refused it. last_turn: whether no turn follows. count: counts the
    tokens of its answer.
    """

    index: int
    name: str
    model: str
    asked: int
    due: int
    conversation: int = 0
    turn: int = 0
    last_turn: bool = True
    closed_stream: int | None = None
    streamed: bool = True
    keep_text: bool = False
    count: Callable[[str], int] | None = None
    server: int = 0
    attempts: int = 0
    refusals: int = 0
    sent: int = 0
    headers: int = 0
    ended: int = 0
    last_moment: int = 0
    lag: int = 0
    connect: int | None = None
    shared: int = 0
    connection: int = 0
    reused: bool = False
    retry_after: float | None = None
    outcome: str = ""
    cause: str | None = None
    error: str | None = None
    http: HttpAnswer = field(default_factory=HttpAnswer)
    events: EventStream | None = None
    answer: StreamedResponse = field(default_factory=StreamedResponse)
    body: list[bytes] = field(default_factory=list)

    def begin_attempt(self, now: int) -> None:
        """Forget an earlier attempt, but not when the first one was sent."""
        self.attempts += 1
        self.sent = self.sent or now
        self.headers = 0
        self.http, self.events, self.body = HttpAnswer(), None, []
        self.answer = StreamedResponse(self.keep_text, self.count)

    def take(self, data: bytes, moment: int, lag: int) -> None:
        """Take received bytes. Raises BrokenAnswer."""
        http, answer = self.http, self.answer
        body = http.feed(data)
        if moment < self.last_moment:
            moment = self.last_moment
        self.last_moment = moment
        if not self.headers:
            if not http.status:
                return
            self.headers = moment
            if http.status == 200 and "text/event-stream" in http.headers.get("content-type", ""):
                self.events = EventStream()
        if self.events is None:
            if body:
                self.body.append(body)
            return
        events = self.events.feed(body)
        if http.complete:
            events += self.events.end()
        before = len(answer.times)
        for event in events:
            answer.take(event, moment)
        new = len(answer.times) - before
        if new:
            if not before:
                self.lag = lag
            self.shared += new - 1

    def decide_outcome(self, moment: int) -> None:
        """Decide the outcome of a complete answer."""
        self.ended = moment
        http, answer = self.http, self.answer
        if http.status != 200:
            body = b"".join(self.body)
            try:
                text = error_text(decode_json(body))
            except ValueError:
                text = body[:200].decode("utf-8", "replace")
            after = http.headers.get("retry-after", "")
            self.retry_after = float(after) if after.isdecimal() else None
            outcome = REFUSED if http.status in BUSY else FAILED
            self.fail(outcome, "status", f"HTTP {http.status}: {text}" if text else f"HTTP {http.status}", moment)
            return
        if self.events is None:
            answer.take(b"".join(self.body), moment)
            if answer.error or not answer.times:
                self.fail(FAILED, "error_event" if answer.error else "not_stream", answer.error or "no text", moment)
            elif self.streamed:
                self.fail(
                    FAILED, "not_stream", "the server answered as a whole, although a stream was asked for", moment
                )
            else:
                self.outcome = SUCCEEDED
        elif answer.error:
            self.fail(FAILED, "error_event", answer.error, moment)
        elif not answer.done and answer.finish_reason is None:
            self.fail(FAILED, "truncated", "the stream ended without finish_reason and [DONE]", moment)
        elif not answer.times:
            self.fail(FAILED, "empty", "the answer has no text", moment)
        else:
            self.outcome = SUCCEEDED

    def fail(self, outcome: str, cause: str, text: str, moment: int) -> None:
        """End without success."""
        self.outcome, self.cause, self.error, self.ended = outcome, cause, text, moment

    def record(self, clock: MonotonicWallClock) -> dict[str, Any]:
        """Return the line of requests.jsonl."""
        zero = clock.wall - clock.monotonic

        def at(moment: int) -> float | None:
            return round(zero + moment / SECOND, 6) if moment else None

        answer = self.answer
        times = answer.times
        first = times[0] if times else 0
        line = {
            "type": "request",
            "index": self.index,
            "name": self.name,
            "model": self.model,
            "stream": self.streamed,
            "conversation": self.conversation,
            "turn": self.turn,
            "due": at(self.due),
            "sent": at(self.sent),
            "headers": at(self.headers),
            "first_token": at(first),
            "last_token": at(times[-1] if times else 0),
            "ended": at(self.ended),
            "status": self.http.status,
            "outcome": self.outcome,
            "cause": self.cause,
            "error": self.error,
            "attempts": self.attempts,
            "retry_after": self.retry_after,
            "asked_tokens": self.asked,
            "prompt_tokens": answer.prompt,
            "output_tokens": answer.tokens,
            "cached_tokens": answer.cached,
            "tokens_from": answer.tokens_from,
            "chunks": len(times),
            "times": [(moment - first) // MICROSECOND for moment in times[1:]],
            "shared": self.shared,
            "finish_reason": answer.finish_reason,
            "connection": self.connection,
            "reused": self.reused,
            "connect": None if self.connect is None else round(self.connect / SECOND, 6),
            "server": self.server,
            "lag_us": self.lag // MICROSECOND,
        }
        sizes = answer.chunk_tokens
        if sizes is not None:
            line["chunk_tokens"] = sizes
        if answer.counted is not None and answer.completion is not None:
            line["usage_tokens"] = answer.completion
        return line
