# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that are refused, fail, or remain unanswered."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.messages.web_api import WebApi
from message_servers import address
from scripted_server import RESET, ScriptedServer, reply


class Clock:
    """A clock on which only sleeping takes time."""

    def __init__(self) -> None:
        self.now, self.slept = 1000.0, list[float]()

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def api(url: str, clock: Clock, timeout: float = 100.0) -> WebApi:
    return WebApi("GitHub", url, {}, "", timeout, clock, clock, clock.sleep)


@pytest.mark.parametrize(
    ("fault", "pause"),
    [
        ((429, {"message": "slow down"}, {"retry_after": "7"}), 7.0),
        ((403, {"message": "rate limit"}, {"x_ratelimit_remaining": "0", "x_ratelimit_reset": "1030"}), 30.0),
        ((403, {"message": "secondary"}, {"retry_after": "60"}), 60.0),
        ((502, b"bad gateway", {}), 1.0),
        ((503, b"", {}), 1.0),
        ((429, b"", {}), 60.0),
    ],
)
def test_a_request_that_is_refused_for_now_is_sent_again_after_the_asked_time(fault: Any, pause: float) -> None:
    answers = [fault, (200, {"id": 1})]
    clock = Clock()
    with ScriptedServer(lambda _asked: _reply(answers.pop(0))) as server:
        assert api(address(server), clock).call("POST", "/x", {}) == {"id": 1}
    assert clock.slept == [pause]


def _refused(words: str) -> Any:
    return pytest.raises(AccessError, match=words)


def _reply(answer: Any) -> Any:
    return reply(answer[0], answer[1], **(answer[2] if len(answer) > 2 else {}))


def test_a_wait_beyond_the_timeout_is_an_error_that_says_so() -> None:
    clock = Clock()
    late = "asks to wait 500 s, and the time for messages is over"
    with ScriptedServer(lambda _asked: _reply((429, b"", {"retry_after": "500"}))) as server, _refused(late):
        api(address(server), clock).call("GET", "/x")
    assert clock.slept == []


def test_errors_of_the_server_are_tried_again_until_the_timeout() -> None:
    clock = Clock()
    with ScriptedServer(lambda _asked: (500, b"")) as server, pytest.raises(AccessError, match="500"):
        api(address(server), clock, timeout=20.0).call("GET", "/x")
    assert clock.slept == [1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422])
def test_a_refusal_is_not_tried_again_and_its_reason_is_shown(status: int) -> None:
    clock = Clock()
    with ScriptedServer(lambda _asked: (status, {"message": "the reason"})) as server:
        with pytest.raises(AccessError, match=f"POST /x: {status} .*the reason"):
            api(address(server), clock).call("POST", "/x", {})
        assert len(server.asked) == 1


def test_what_may_have_arrived_is_not_sent_again() -> None:
    clock = Clock()
    with ScriptedServer(lambda _asked: RESET) as server:
        with pytest.raises(AccessError, match="unknown whether it arrived"):
            api(address(server), clock).call("POST", "/x", {})
        assert len(server.asked) == 1
        with pytest.raises(AccessError, match="time for messages is over"):
            api(address(server), clock, timeout=4.0).call("PATCH", "/x", {})
        assert len(server.asked) > 2
