# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting with a timeout, reporting what is waited for: on each change, and at intervals."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, TypeVar

from . import formats
from .errors import WaitTimeout

#: Seconds between two checks, and between two reports of the same message.
POLL_INTERVAL, REPEAT_INTERVAL = 1.0, 30.0

Say = Callable[[str], None]
Result = TypeVar("Result")


class ChangeReporter:
    """Reports a message when its subject has changed, or ``again`` seconds after the last report."""

    def __init__(self, say: Say, again: float = REPEAT_INTERVAL) -> None:
        self._say = say
        self._again = again
        self._about: Any = None
        self._at = 0.0

    def report(self, message: Callable[[], str], about: Any) -> None:
        """Report ``message()`` if it is due. ``about``: the subject, any value that changes with the message."""
        now = time.monotonic()
        if about != self._about or now - self._at >= self._again:
            self._about, self._at = about, now
            self._say(message())


def wait_until(
    look: Callable[[], tuple[Result | None, str]],
    timeout: float,
    say: Say,
    late: Callable[[str], str],
    pause: float = POLL_INTERVAL,
) -> Result:
    """Return the result of ``look``, called every ``pause`` seconds. Until it has one it returns (None, message).

    The message is reported. After ``timeout`` seconds raises WaitTimeout with ``late(message)``; look()'s errors pass.
    """
    deadline = time.monotonic() + timeout
    reporter = ChangeReporter(say)
    while True:
        result, message = look()
        if result is not None:
            return result
        now = time.monotonic()
        if now >= deadline:
            raise WaitTimeout(late(message))
        reporter.report(partial(str, message), message)
        time.sleep(min(pause, max(deadline - now, 0.05)))


def wait_until_gone(left: Callable[[], Collection[str]], timeout: float, pause: float = POLL_INTERVAL) -> None:
    """Wait until no deleted object is left. ``left`` returns the titles of those that still exist.

    Raises WaitTimeout naming them after ``timeout`` seconds; errors of ``left`` pass.
    """

    def look() -> tuple[bool | None, str]:
        titles = left()
        return (None if titles else True), formats.format_list(sorted(titles))

    wait_until(look, timeout, lambda _text: None, lambda text: f"not deleted after {timeout:g} s: {text}", pause)
