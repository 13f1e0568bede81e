# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long tokens are collected before they are read, and how many are put aside."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference import token_receiver
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.token_receiver import (
    ConnectionEvents,
    receive_tokens_unparsed,
)

MANY, LATER = 20, 10**12
COLLECTING = token_receiver._LEAST_COLLECTING


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 1_000_000_000
        self.slept: list[int] = []

    def monotonic_ns(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds * 1e9))
        self.now += round(seconds * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(token_receiver, "time", clock)
    return clock


@pytest.fixture
def events(clock: Clock) -> Iterator[ConnectionEvents]:
    """The events of one connection, on which something has arrived that is never read."""
    reading, writing = os.pipe()
    os.write(writing, b"x")
    events = ConnectionEvents()
    connection = SimpleNamespace(fd=reading, wants=select.EPOLLIN, registered=0)
    events.register(connection)  # type: ignore[arg-type]
    yield events
    events.close()
    os.close(reading)
    os.close(writing)


def test_reads_are_as_far_apart_as_tokens_are_collected(events: ConnectionEvents, clock: Clock) -> None:
    assert events.wait(LATER, MANY)
    clock.now += COLLECTING // 3
    assert events.wait(LATER, MANY)
    assert clock.slept == [COLLECTING - COLLECTING // 3]


def test_what_arrived_while_others_were_parsed_is_read_at_once(events: ConnectionEvents, clock: Clock) -> None:
    assert events.wait(LATER, MANY)
    clock.now += 2 * COLLECTING
    assert events.wait(LATER, MANY)
    assert clock.slept == []


def test_a_request_that_is_due_does_not_make_tokens_wait_once_more(events: ConnectionEvents, clock: Clock) -> None:
    assert events.wait(LATER, MANY)
    due = clock.now + COLLECTING // 2
    assert events.wait(due, MANY) == []  # the request is sent now
    assert clock.now == due
    clock.now += COLLECTING
    assert events.wait(LATER, MANY)
    assert clock.slept == [COLLECTING // 2]


def test_few_open_requests_are_read_at_once(events: ConnectionEvents, clock: Clock) -> None:
    assert events.wait(LATER, 1)
    assert events.wait(LATER, 1)
    assert clock.slept == []


def test_so_many_tokens_of_an_answer_are_put_aside_and_the_next_one_has_them_parsed(clock: Clock) -> None:
    token = (b"data: token\n", [])
    request = SimpleNamespace(expected=SimpleNamespace(after=b"token\n"))
    connection = SimpleNamespace(
        request=request, plain=True, aside=[], unread=None, receive=lambda _bytes, _room: token
    )
    most = token_receiver._MOST_ASIDE
    for number in range(most):
        assert receive_tokens_unparsed({3: connection}, [(3, select.EPOLLIN)]) == []  # type: ignore[dict-item]
        assert len(connection.aside) == number + 1
    assert receive_tokens_unparsed({3: connection}, [(3, select.EPOLLIN)]) == [(connection, select.EPOLLIN)]  # type: ignore[dict-item]
    assert connection.unread == token
    assert len(connection.aside) == most
