"""Any division of the bytes of an answer gives the same tokens."""

from __future__ import annotations

import json
import time

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.event_stream import (
    MOST_EVENT,
    BrokenAnswer,
    EventStream,
    HttpAnswer,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.inference_request import (
    MOST_BODY,
    MOST_RECEIVED,
    InferenceRequest,
)
from hypothesis import given
from hypothesis import strategies as st

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), min_size=1, max_size=8)


def divided(data: bytes, places: list[int]) -> list[bytes]:
    """Divide ``data`` at the places, which are taken modulo its length."""
    ends = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[begin:end] for begin, end in zip(ends, ends[1:], strict=False)]


def event(text: str, end: str, space: bool = True) -> bytes:
    value = json.dumps({"choices": [{"delta": {"content": text}}]}, ensure_ascii=False)
    return f"data:{' ' if space else ''}{value}{end}{end}".encode()


def chunked(pieces: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\n\r\n"


@given(
    texts=TEXTS,
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    extras=st.lists(st.sampled_from([": ping", "", "event: message", "id: 7", "retry: 10"]), max_size=4),
    chunks=st.lists(st.integers(0, 10_000), max_size=12),
    places=st.lists(st.integers(0, 10_000), max_size=12),
    space=st.booleans(),
)
def test_any_division_of_the_bytes_gives_the_same_texts(texts, end, extras, chunks, places, space) -> None:
    stream = b""
    for number, text in enumerate(texts):
        if extras:
            stream += f"{extras[number % len(extras)]}{end}{end}".encode()
        stream += event(text, end, space)
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": len(texts)}}
    stream += f"data: {json.dumps(usage)}{end}{end}data: [DONE]{end}{end}".encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    request = InferenceRequest(0, "r", "m", len(texts), 1, keep_text=True)
    request.begin_attempt(1)
    for moment, piece in enumerate(divided(head + chunked(divided(stream, chunks)), places), 2):
        if piece:
            request.take(piece, moment, 0)
    assert request.http.complete
    request.decide_outcome(99_999)
    assert request.outcome == "succeeded", request.error
    assert request.answer.text == texts
    assert len(request.answer.times) == len(texts) == request.answer.tokens
    assert request.answer.times == sorted(request.answer.times) and request.answer.done


@given(body=st.binary(max_size=200), places=st.lists(st.integers(0, 10_000), max_size=8), counted=st.booleans())
def test_any_division_of_an_answer_gives_the_same_body(body: bytes, places: list[int], counted: bool) -> None:
    head = b"Content-Length: %d" % len(body) if counted else b"Transfer-Encoding: chunked"
    data = b"HTTP/1.1 200 OK\r\n%s\r\n\r\n%s" % (head, body if counted else chunked(divided(body, places)))
    answer = HttpAnswer()
    assert b"".join(answer.feed(piece) for piece in divided(data, places)) == body
    assert answer.complete and answer.reusable and answer.status == 200


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: " + b"9" * 5000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n",
    ],
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(BrokenAnswer):
        HttpAnswer().feed(data)


@given(data=st.binary(max_size=300), places=st.lists(st.integers(0, 10_000), max_size=5))
def test_no_bytes_raise_anything_but_a_broken_answer(data: bytes, places: list[int]) -> None:
    request = InferenceRequest(0, "r", "m", 1, 1)
    try:
        for piece in divided(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + data, places):
            request.take(piece, 2, 0)
        request.decide_outcome(3)
    except BrokenAnswer:
        return
    assert request.outcome in ("succeeded", "failed")


def test_an_answer_ends_with_its_connection_if_it_has_no_length() -> None:
    answer = HttpAnswer()
    assert answer.feed(b"HTTP/1.1 200 OK\r\n\r\nabc") == b"abc"
    answer.on_connection_closed()
    assert answer.complete and not answer.reusable
    cut = HttpAnswer()
    cut.feed(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc")
    with pytest.raises(BrokenAnswer, match="in the middle"):
        cut.on_connection_closed()


def test_any_number_of_interim_answers_is_skipped_and_bytes_after_an_answer_spoil_its_connection() -> None:
    answer = HttpAnswer()
    assert answer.feed(b"HTTP/1.1 100 Continue\r\n\r\n" * 2000 + b"HTTP") == b""
    data = b"/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokmore"
    assert answer.feed(data) == b"ok"
    assert answer.status == 200 and answer.complete and not answer.reusable


def test_an_event_of_several_lines_is_one_and_the_last_may_lack_its_end() -> None:
    stream = EventStream()
    assert stream.feed(b"\xef\xbb\xbfdata: a\ndata: b\n\nid: 1\n\ndata: c") == [b"a\nb"]
    assert stream.end() == [b"c"]


def test_an_event_in_many_pieces_is_read_in_linear_time_up_to_its_limit() -> None:
    stream, piece = EventStream(), b"x" * 1000
    began = time.process_time()
    with pytest.raises(BrokenAnswer, match="an event of the stream has more than 8 MiB"):
        for _number in range(MOST_EVENT // len(piece) + 2):
            assert stream.feed(piece) == []
    assert time.process_time() - began < 5, "copying all of it for each piece takes a minute"


@pytest.mark.parametrize(
    ("kind", "most"), [("application/json", MOST_BODY), ("text/event-stream", MOST_RECEIVED), ("", MOST_BODY)]
)
def test_an_answer_without_an_end_is_kept_up_to_a_limit(kind: str, most: int) -> None:
    request = InferenceRequest(0, "r", "m", 1, 1)
    request.begin_attempt(1)
    request.take(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n".encode(), 1, 0)
    piece = b": " + b"x" * ((1 << 20) - 4) + b"\n\n"
    with pytest.raises(BrokenAnswer, match=f"has more than {most >> 20} MiB"):
        for _number in range(129):
            request.take(piece, 1, 0)
    assert sum(map(len, request.body)) <= MOST_BODY + len(piece)
    request.begin_attempt(2)
    assert request.received == 0 and request.body == []
