"""One thread that reads many streams: in order, gathered when they are busy, and told when they are silent."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import (
    Broken,
    LineStream,
    format_request_head,
    request_bytes,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import load_context_access
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample import watch_multiplexer
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.watch_multiplexer import (
    Item,
    WatchMultiplexer,
)


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.ended: list[Broken | None] = []

    def hear(self, at: float, line: bytes, items: list[Item]) -> None:
        items.append((self.number, "watch", at, line))

    def over(self, error: Broken | None) -> None:
        self.ended.append(error)


class Talk:
    """The server's end of one stream."""

    def __init__(self, folder: Path, silence: float = 30.0) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        cluster = {"server": f"http://127.0.0.1:{listening.getsockname()[1]}"}
        document = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = folder / f"kubeconfig-{id(self)}"
        path.write_text(json.dumps(document), encoding="utf-8")
        access = load_context_access(str(path))

        def accept() -> None:
            self.far, _address = listening.accept()
            self.far.recv(4096)
            self.far.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

        thread = threading.Thread(target=accept)
        thread.start()
        self.stream = LineStream(access, 5.0)
        self.stream.open(request_bytes(access, format_request_head(access, "GET", "/x")), silence)
        thread.join()
        listening.close()

    def say(self, *lines: str) -> None:
        for one in lines:
            self.far.sendall(b"%x\r\n%b\n\r\n" % (len(one) + 1, one.encode()))


@pytest.fixture
def reader() -> Iterator[WatchMultiplexer]:
    made = WatchMultiplexer()
    yield made
    made.close()


def until(reader: WatchMultiplexer, number: int) -> list[Item]:
    items: list[Item] = []
    deadline = time.monotonic() + 120
    while len(items) < number and time.monotonic() < deadline:
        items += reader.take(0.05)
    return items


def test_what_was_put_before_a_stream_was_attached_comes_before_its_lines(
    reader: WatchMultiplexer, tmp_path: Path
) -> None:
    talk, heard = Talk(tmp_path), Heard(1)
    talk.say("a", "b")
    reader.put((1, "listed", 0.0, None))
    reader.attach(heard, talk.stream)
    talk.say("c")
    items = until(reader, 4)
    assert [item[3] for item in items] == [None, b"a", b"b", b"c"]
    assert heard.ended == []


def test_lines_of_several_streams_come_each_in_order_with_the_time_they_were_taken(
    reader: WatchMultiplexer, tmp_path: Path
) -> None:
    talks = [Talk(tmp_path), Talk(tmp_path)]
    for number, talk in enumerate(talks):
        reader.attach(Heard(number), talk.stream)
    list(reader.take(0.0))
    began = time.monotonic()
    said = [f"{'x' * 2000}{turn}" for turn in range(100)]

    def speak() -> None:
        for one in said:
            for talk in talks:
                talk.say(one)

    thread = threading.Thread(target=speak)
    thread.start()
    items = until(reader, 200)
    thread.join()
    for number in range(2):
        assert [item[3].decode() for item in items if item[0] == number] == said
    assert all(began <= item[2] <= time.monotonic() for item in items)


def test_what_comes_while_the_reader_is_kept_waiting_is_not_dated_before_it_came(
    reader: WatchMultiplexer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Talk(tmp_path)
    reader.attach(Heard(1), talk.stream)
    list(reader.take(0.0))
    said: list[float] = []
    receive = talk.stream.receive

    def kept_waiting() -> bytes | None:
        """Between the poll and the reading the system may give the processor to somebody else."""
        if not said:
            time.sleep(0.05)
            said.append(time.monotonic())
            talk.say("b")
            time.sleep(0.05)
        return receive()

    monkeypatch.setattr(talk.stream, "receive", kept_waiting)
    talk.say("a")
    items = until(reader, 2)
    assert [item[3] for item in items] == [b"a", b"b"]
    assert items[1][2] >= said[0]


def test_a_stream_that_ends_gives_what_it_said_and_its_end(reader: WatchMultiplexer, tmp_path: Path) -> None:
    for number, (last, broken) in enumerate(((b"0\r\n\r\n", False), (b"", True))):
        talk, heard = Talk(tmp_path), Heard(number)
        reader.attach(heard, talk.stream)
        talk.say("a")
        talk.far.sendall(last)
        talk.far.close()
        assert [item[3] for item in until(reader, 1)] == [b"a"]
        deadline = time.monotonic() + 120
        while not heard.ended and time.monotonic() < deadline:
            list(reader.take(0.05))
        assert len(heard.ended) == 1 and isinstance(heard.ended[0], Broken) == broken


def test_a_stream_that_is_interrupted_still_gives_what_had_come(reader: WatchMultiplexer, tmp_path: Path) -> None:
    talk, heard = Talk(tmp_path), Heard(0)
    reader.attach(heard, talk.stream)
    list(reader.take(0.0))
    talk.say("a", "b")
    talk.stream.interrupt()
    assert [item[3] for item in until(reader, 2)] == [b"a", b"b"]


def test_a_stream_that_says_nothing_for_too_long_is_broken(
    reader: WatchMultiplexer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_multiplexer, "_SILENCE_CHECK_INTERVAL", 0.0)
    talk, heard = Talk(tmp_path, silence=0.05), Heard(0)
    reader.attach(heard, talk.stream)
    deadline = time.monotonic() + 120
    while not heard.ended and time.monotonic() < deadline:
        list(reader.take(0.05))
    assert "no data for 0.05 s" in str(heard.ended[0])


def test_the_pause_in_a_burst_follows_the_answers_of_the_server_within_limits(reader: WatchMultiplexer) -> None:
    shortest = reader.pause
    pauses = []
    for answer in (0.001, 0.03, 10.0, 0.001):
        for _turn in range(200):
            reader.record_answer_time(answer)
        pauses.append(reader.pause)
    assert pauses[0] == pauses[3] == shortest < pauses[1] < pauses[2] < 0.1
    assert pauses[1] == pytest.approx(0.03)
