"""A chunk that is recognised by its bytes means what parsing it would say, and whatever else arrives is parsed."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from typing import Any
from unittest import mock

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.event_stream import BrokenAnswer
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.inference_request import (
    InferenceRequest,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.request_connection import (
    InferenceServer,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.request_engine import (
    EngineLimits,
    RequestEngine,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.request_schedule import (
    RequestSchedule,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.streamed_response import LearnedChunk
from hypothesis import given, settings
from hypothesis import strategies as st

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
CLOCK = MonotonicWallClock(1000.0, 0.0)
TEXT = st.one_of(
    st.sampled_from(
        [" a", "the", "0", ",", ":", "content", "x", "null", "assistant", 'say "hi"', "\\", "\n", "\u200b"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=0, max_size=6),
    st.text(st.characters(codec="ascii"), min_size=1, max_size=90),
)


def chunk(body: bytes, upper: bool = False) -> bytes:
    return b"%s\r\n%s\r\n" % ((b"%X" if upper else b"%x") % len(body), body)


def content(text: str, **more: Any) -> dict[str, Any]:
    return {"id": "x", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **more}


EVENTS = st.one_of(
    TEXT.map(content),
    TEXT.map(content),
    TEXT.map(lambda text: {"choices": [{"text": text, "delta": None}], "model": "content"}),
    TEXT.map(lambda text: {"choices": [{"delta": {"reasoning_content": text, "content": None}}]}),
    st.integers(0, 9).map(lambda count: content("b", usage={"completion_tokens": count})),
    st.sampled_from(
        [
            {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
            {"choices": [{"delta": {}, "finish_reason": "length"}]},
            {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5}},
            {"error": {"message": "no memory"}},
            [1],
        ]
    ),
)
STYLE = st.fixed_dictionaries(
    {"ascii": st.booleans(), "upper": st.booleans(), "end": st.sampled_from(["\n\n", "\r\n\r\n"]), "field": TEXT}
)


def wire(event: Any, style: dict[str, Any]) -> bytes:
    """Return an event as one chunk."""
    value = json.dumps({**event, "user": style["field"]} if isinstance(event, dict) else event, ensure_ascii=False)
    if style["ascii"]:
        value = json.dumps(event, separators=(",", ":"))
    return chunk(f"data: {value}{style['end']}".encode(), style["upper"])


def outcome(pieces: list[bytes], learns: bool) -> tuple[Any, ...]:
    """Return all that a request knows after these reads, and how often it parsed something."""
    request = InferenceRequest(0, "r", "m", 1, 1, keep_text=True)
    request.begin_attempt(1)
    parsed = 0
    original = InferenceRequest._parse

    def count(self: InferenceRequest, data: bytes, moment: int) -> None:
        nonlocal parsed
        parsed += 1
        original(self, data, moment)

    learn = LearnedChunk.learn if learns else lambda _data, _text: None
    error = ""
    with mock.patch.object(InferenceRequest, "_parse", count), mock.patch.object(LearnedChunk, "learn", learn):
        try:
            for moment, piece in enumerate(filter(None, pieces), 2):
                request.take(piece, moment * 1_000_000, moment)
            request.decide_outcome(99_000_000_000)
        except BrokenAnswer as broken:
            error = str(broken)
    answer, http = request.answer, request.http
    texts = "".join(answer.text or ())
    return (
        request.row(CLOCK),
        texts,
        answer.sizes,
        answer.done,
        answer.error,
        http.complete,
        http.reusable,
        error,
        parsed,
    )


def both(pieces: list[bytes]) -> tuple[int, int]:
    """Check that recognising makes no difference; return how often each parsed."""
    learned, exact = outcome(pieces, True), outcome(pieces, False)
    assert learned[:-1] == exact[:-1]
    return learned[-1], exact[-1]


@settings(max_examples=300)
@given(
    events=st.lists(EVENTS, max_size=12),
    styles=st.lists(STYLE, min_size=1, max_size=2),
    together=st.lists(st.booleans(), max_size=14),
    places=st.lists(st.integers(0, 5_000), max_size=3),
    ends=st.booleans(),
)
def test_answers_are_the_same_however_their_bytes_are_divided(events, styles, together, places, ends) -> None:
    reads = [HEAD, *(wire(event, styles[i % len(styles)]) for i, event in enumerate(events))]
    if ends:
        reads += [chunk(b"data: [DONE]\n\n"), b"0\r\n\r\n"]
    pieces: list[bytes] = []
    for number, read in enumerate(reads):
        if pieces and number < len(together) and together[number]:
            pieces[-1] += read  # arrives with what was before it
        else:
            pieces.append(read)
    for place in places:  # a read ends anywhere
        number = place % len(pieces)
        at = place % (len(pieces[number]) + 1)
        pieces[number : number + 1] = [pieces[number][:at], pieces[number][at:]]
    both(pieces)


@settings(max_examples=300)
@given(
    texts=st.lists(TEXT, min_size=2, max_size=6),
    number=st.integers(0, 10_000),
    at=st.integers(0, 10_000),
    change=st.binary(max_size=3),
    drops=st.integers(0, 2),
)
def test_answers_with_wrong_bytes_are_the_same(texts, number, at, change, drops) -> None:
    pieces = [HEAD, *(chunk(f"data: {json.dumps(content(text), ensure_ascii=False)}\n\n".encode()) for text in texts)]
    number = 1 + number % (len(pieces) - 1)
    at %= len(pieces[number]) + 1
    pieces[number] = pieces[number][:at] + change + pieces[number][at + drops :]
    both([*pieces, b"0\r\n\r\n"])


@given(text=TEXT, other=st.binary(max_size=8))
def test_bytes_in_the_place_of_a_text_are_taken_as_text_only_if_they_are_one(text: str, other: bytes) -> None:
    """Whatever stands there: quotes, escapes, line breaks, halves of characters, characters that JSON forbids."""
    before, after = b'data: {"choices":[{"delta":{"content":"', b'"}}]}\n\n'
    first = chunk(before + b"seen" + after)
    both([HEAD, first, chunk(before + text.encode() + after), chunk(before + other + after), b"0\r\n\r\n"])


@pytest.mark.parametrize("together", [False, True])
def test_usual_chunks_are_parsed_once_and_then_recognised(together: bool) -> None:
    style = {"ascii": True, "upper": False, "end": "\n\n", "field": "u"}
    tokens = [wire(content(f" word{number}"), style) for number in range(50)]
    reads = [HEAD, tokens[0], *([b"".join(tokens[1:])] if together else tokens[1:])]
    assert both(reads) == (2, len(reads))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (chunk(b'data: {"choices":[{"delta":{"content":"a"}}],"id":"a"}\n\n'), "a"),  # in two places
        (chunk(b'data: {"choices":[{"delta":{"content":":"}}]}\n\n'), ":"),  # as between a key and its value
        (chunk(b'data: {"choices":[{"delta":{"content":"\\u0061"}}],"id":"a"}\n\n'), "a"),  # escaped
        (b'2f;x=1\r\ndata: {"choices":[{"delta":{"content":"a"}}]}\n\n\r\n', "a"),  # with an extension
        (b'3f\r\ndata: {"choices":[{"delta":{"content":"a"}}]}\n\n\r\n', "a"),  # of another size
    ],
)
def test_a_chunk_whose_text_is_not_certain_is_not_learned(data: bytes, text: str) -> None:
    assert LearnedChunk.learn(data, text) is None


@pytest.mark.parametrize(
    ("last", "closes", "cause"),
    [
        (b"0\r\n\r\n", False, None),
        (b"", False, "timeout"),
        (b"", True, "truncated"),
        (b'zz\r\ndata: {"choices":[{"delta":{"content":"f"},"finish_reason":null}]}\n\n\r\n', False, "not_http"),
    ],
)
def test_tokens_that_were_put_aside_are_in_the_record_however_the_answer_ends(last, closes, cause) -> None:
    """Each token arrives alone, so that it is put aside; the last bytes look like a token, too, but are none."""
    over = threading.Event()

    def answer(listener: socket.socket) -> None:
        connection, _address = listener.accept()
        with connection:
            connection.recv(1000)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            tokens = [f'{{"choices":[{{"delta":{{"content":"{text}"}},"finish_reason":null}}]}}' for text in "abcde"]
            for piece in (HEAD, *(chunk(f"data: {token}\n\n".encode()) for token in tokens), last):
                connection.sendall(piece)
                time.sleep(0.1)  # so each is read alone, also on a busy machine
            if not closes:
                over.wait(20)

    request = InferenceRequest(0, "r", "m", 5, 0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = InferenceServer.from_url(0, url, ssl.create_default_context())
        limits = EngineLimits(timeout=1.5 if cause == "timeout" else 15)
        engine = RequestEngine([server], limits, lambda *_: b"GET / HTTP/1.1\r\n\r\n", CLOCK)
        try:
            request.due = began = time.monotonic_ns()
            schedule = RequestSchedule(lambda _index, _due: request, iter([(0, 0.0)]))
            schedule.begin(request.due)
            engine.run(schedule, lambda: None)
        finally:
            engine.close()
            over.set()
            thread.join()
    times = request.answer.times
    assert len(times) == 5 and request.cause == ("truncated" if cause is None else cause), request.error
    assert began < times[0] and times == sorted(set(times))
    assert len(engine.lags) >= 6 and request.ended - began < 10_000_000_000  # none waits for its timeout of 15 s
