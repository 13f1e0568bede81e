# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for something on a server, and saying what is waited for: when that changes, and every now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import WaitTimeout

#: Seconds between two looks, and after which what has not changed is said again.
PAUSE, AGAIN = 1.0, 30.0

Say = Callable[[str], None]
Found = TypeVar("Found")


class ChangeReporter:
    """Says words when what they are about has changed, or when they were said ``again`` seconds ago."""

    def __init__(self, say: Say, again: float = AGAIN) -> None:
        self._say = say
        self._again = again
        self._about: Any = None
        self._at = 0.0

    def tell(self, words: Callable[[], str], about: Any) -> None:
        """Say ``words()``, if it is time. ``about``: anything that differs when something else is to be said."""
        now = time.monotonic()
        if about != self._about or now - self._at >= self._again:
            self._about, self._at = about, now
            self._say(words())


def wait_until(
    look: Callable[[], tuple[Found | None, str]],
    timeout: float,
    say: Say,
    late: Callable[[str], str],
    pause: float = PAUSE,
) -> Found:
    """Return what ``look`` finds, which gives (None, words) as long as there is nothing; say the words.

    timeout: seconds. Raises WaitTimeout with ``late(words)``, and whatever look() raises.
    """
    deadline = time.monotonic() + timeout
    teller = ChangeReporter(say)
    while True:
        found, words = look()
        if found is not None:
            return found
        now = time.monotonic()
        if now >= deadline:
            raise WaitTimeout(late(words))
        teller.tell(partial(str, words), words)
        time.sleep(min(pause, max(deadline - now, 0.05)))
