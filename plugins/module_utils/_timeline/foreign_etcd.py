# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stages of kinds that another etcd keeps, whose resourceVersions tell nothing about ours.

What is left are the moments at which they were received, and of creations the second that the API server states. Its
clock is bounded by our own creates: each second that it gave them began before their answer, ended after their start.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from math import inf
from typing import Any

Reach = Callable[[int, float, float], None]


class ForeignEtcd:
    """Keeps what such events show until all creates have been seen: each of them may narrow the clock's offset."""

    def __init__(self) -> None:
        self._later: list[tuple[Reach, int, float, float, Any]] = []
        self._low, self._high = -inf, inf  # of the API server's clock minus ours, seconds

    def created(self, stated: Any, sent: float, answered: float) -> None:
        """Take note of an own create: the second that the server states for it."""
        if isinstance(stated, str):
            second = _seconds(stated)
            # Two microseconds for times that are written down in whole ones.
            self._low = max(self._low, second - answered - 2e-6)
            self._high = min(self._high, second + 1 - sent + 2e-6)

    def keep(self, reach: Reach, row: int, earliest: float, latest: float, stated: Any) -> None:
        """Keep a stage for settle(). ``stated``: the time that the API server gave it, None if it is another's."""
        self._later.append((reach, row, earliest, latest, stated))

    def settle(self) -> None:
        """Hand all stages on, cut to the seconds that were stated."""
        for reach, row, earliest, latest, stated in self._later:
            if isinstance(stated, str) and -inf < self._low <= self._high < inf:
                second = _seconds(stated)
                earliest, latest = max(earliest, second - self._high), min(latest, second + 1 - self._low)
            reach(row, earliest, latest)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
