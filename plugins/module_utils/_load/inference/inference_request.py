# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request and what became of it: from its due time to its line in requests.jsonl."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import encode
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json

from .event_stream import BrokenAnswer, EventStream, HttpAnswer
from .streamed_response import LearnedChunk, StreamedResponse, decode_json, error_text

SUCCEEDED, FAILED, REFUSED, LOST = "succeeded", "failed", "refused", "lost"
#: Statuses of servers that are overloaded: the same request may succeed later.
BUSY = frozenset((429, 503))
#: Most bytes of an answer, and of one that is kept as a whole. Times of 3 million tokens are a line that can be read.
MOST_RECEIVED, MOST_BODY = 1 << 27, 1 << 24
#: Nanoseconds in a second and in a microsecond.
SECOND, MICROSECOND = 1_000_000_000, 1_000


@dataclass(slots=True, eq=False)
class InferenceRequest:
    """A request. Moments in nanoseconds of the monotonic clock, 0: not yet.

    asked: tokens of the answer that are asked for. most: those that its body permits. closed_stream: number of the
    stream of a closed loop. refusals: how often it was sent again because the server had refused it. last_turn: whether
    no turn follows. count: counts the tokens of its answer.
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
    received: int = 0
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
    learned: LearnedChunk | None = None
    most: int = 0
    expected: LearnedChunk | None = None  # what was learned, if the next bytes begin a chunk

    def begin_attempt(self, now: int) -> None:
        """Forget an earlier attempt, but not when the first one was sent."""
        self.attempts += 1
        self.sent = self.sent or now
        self.headers = self.received = 0
        if self.attempts > 1 or self.keep_text or self.count is not None:
            self.http, self.events, self.body = HttpAnswer(), None, []
            self.answer = StreamedResponse(self.keep_text, self.count)
            self.learned = self.expected = None

    def sent_row(self, zero: float, now: int) -> str:
        """Return the line ``sent`` of requests.jsonl. zero: the wall clock's seconds at moment 0."""
        return (
            f'{{"type":"sent","index":{self.index},"due":{zero + self.due / SECOND:.6f}'
            f',"sent":{zero + now / SECOND:.6f}}}'
        )

    def take(self, data: bytes, moment: int, lag: int) -> None:
        """Take received bytes. Raises BrokenAnswer."""
        if moment < self.last_moment:
            moment = self.last_moment
        self.last_moment = moment
        self.received += len(data)
        if self.received > MOST_RECEIVED:
            raise BrokenAnswer(f"the answer has more than {MOST_RECEIVED >> 20} MiB")
        times = self.answer.times
        before = len(times)
        if self.expected is not None:
            texts, size = self.expected.texts_of(data)
            if texts:
                self.answer.take_texts(texts, moment)
                data = data[size:]
        if data:
            self._parse(data, moment)
        new = len(times) - before
        if new:
            if not before:
                self.lag = lag
            self.shared += new - 1

    def _parse(self, data: bytes, moment: int) -> None:
        http, answer = self.http, self.answer
        whole = self.events is not None and self.events.between_events and http.between_chunks
        self.expected = None
        body = http.feed(data)
        if not self.headers:
            if not http.status:
                return
            self.headers = moment
            if http.status == 200 and "text/event-stream" in http.headers.get("content-type", ""):
                self.events = EventStream()
        if self.events is None:
            if body:
                self.body.append(body)
                if self.received > MOST_BODY:
                    raise BrokenAnswer(f"the answer, which is no stream, has more than {MOST_BODY >> 20} MiB")
            return
        events = self.events.feed(body)
        if http.complete:
            events += self.events.end()
        text = None
        for event in events:
            text = answer.take(event, moment)
        if http.between_chunks and self.events.between_events:
            if self.learned is None and text is not None and whole and len(events) == 1:
                self.learned = LearnedChunk.learn(data, text)
            self.expected = self.learned

    def count_tokens(self) -> None:
        """Count the tokens of an answer that has ended; it fails with a count of the server that it can't have."""
        answer, most = self.answer, max(self.asked, self.most, self.received)
        if (claimed := answer.completion or 0) > most:
            answer.completion = None
            if self.outcome == SUCCEEDED:
                text = f"the server counted {claimed:,} tokens; {self.asked:,} were asked for"
                text += f", and the answer has {self.received:,} bytes"
                self.fail(FAILED, "error_event", text, self.ended)
        answer.count_tokens()

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
            self.retry_after = float(after) if after.isdecimal() and len(after) < 10 else None
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
        """Return the line of requests.jsonl as a dictionary."""
        record: dict[str, Any] = parse_json(self.row(clock))
        return record

    def row(self, clock: MonotonicWallClock) -> str:
        """Return the line of requests.jsonl, made from its parts: to encode a dictionary takes three times as long."""
        zero = clock.wall - clock.monotonic

        def at(moment: int) -> str:
            return f"{zero + moment / SECOND:.6f}" if moment else "null"

        answer = self.answer
        times = answer.times
        first = times[0] if times else 0
        later = [(moment - first) // MICROSECOND for moment in times[1:]]
        sizes = answer.chunk_tokens
        connect = "null" if self.connect is None else f"{self.connect / SECOND:.6f}"
        more = "" if sizes is None else f',"chunk_tokens":{encode(sizes)}'
        if answer.counted is not None and answer.completion is not None:
            more += f',"usage_tokens":{answer.completion}'
        return (
            f'{{"type":"request","index":{self.index},"name":{encode(self.name)},"model":{encode(self.model)},'
            f'"stream":{_json(self.streamed)},"conversation":{self.conversation},"turn":{self.turn},'
            f'"due":{at(self.due)},"sent":{at(self.sent)},"headers":{at(self.headers)},"first_token":{at(first)},'
            f'"last_token":{at(times[-1] if times else 0)},"ended":{at(self.ended)},"status":{self.http.status},'
            f'"outcome":"{self.outcome}","cause":{_json(self.cause)},"error":{_json(self.error)},'
            f'"attempts":{self.attempts},"retry_after":{_json(self.retry_after)},"asked_tokens":{self.asked},'
            f'"prompt_tokens":{_json(answer.prompt)},"output_tokens":{_json(answer.tokens)},'
            f'"cached_tokens":{_json(answer.cached)},'
            f'"tokens_from":"{answer.tokens_from}","chunks":{len(times)},'
            f'"times":{encode(later)},"shared":{self.shared},'
            f'"finish_reason":{_json(answer.finish_reason)},"connection":{self.connection},'
            f'"reused":{_json(self.reused)},"connect":{connect},"server":{self.server},'
            f'"lag_us":{self.lag // MICROSECOND}{more}}}'
        )


def _json(value: Any) -> str:
    """Return a value as JSON; most are null."""
    return "null" if value is None else encode(value)
