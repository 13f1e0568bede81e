# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our clock as a function of the API server's, from whole seconds that it stated between two moments on our clock.

When it stated second s, its clock had reached s, and had not reached s + 1. So at its moment s our clock showed at most
the later one of both moments, and at its moment s + 1 at least the earlier one. Between these points the clocks may
drift (_results/timeline/clock_offset.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from math import inf

from .clock_offset import ClockOffset

#: (stated second, before, after): it was stated between these moments of our clock; both may be infinite.
Statement = tuple[str, float, float]


class ServerClock:
    """Our clock by that of the API server. ``contradictory``: no drift fits all statements, so a clock has jumped."""

    def __init__(self, statements: Iterable[Statement]) -> None:
        floors: dict[float, float] = {}
        ceilings: dict[float, float] = {}
        for text, before, after in statements:
            second = _seconds(text)
            floors[second + 1] = max(floors.get(second + 1, -inf), before)
            ceilings[second] = min(ceilings.get(second, inf), after)
        self._ours = ClockOffset(floors.items(), ceilings.items())
        self.contradictory = self._ours.contradictory

    def span(self, text: str) -> tuple[float, float] | None:
        """Return [earliest, latest] of a stated second on our clock; None if that is unknown or contradictory."""
        second = _seconds(text)
        earliest, latest = self._ours.earliest(second), self._ours.latest(second + 1)
        known = not self.contradictory and -inf < earliest <= latest < inf
        return (earliest, latest) if known else None


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
