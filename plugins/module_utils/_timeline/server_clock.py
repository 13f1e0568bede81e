# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The offset of the API server's clock: bounds from whole seconds that it stated between two moments on our clock."""

from __future__ import annotations

from datetime import datetime
from math import inf

#: Times that are written in whole microseconds, on both sides.
_ROUNDED = 2e-6


class ServerClock:
    """Bounds of the API server's clock minus ours, in seconds; each statement may narrow them."""

    def __init__(self) -> None:
        self._low, self._high = -inf, inf

    def stated(self, text: str, before: float, after: float) -> None:
        """Take a second that the server stated at a moment between ``before`` and ``after`` on our clock."""
        second = datetime.fromisoformat(text).timestamp()
        self._low = max(self._low, second - after - _ROUNDED)
        self._high = min(self._high, second + 1 - before + _ROUNDED)

    def span(self, text: str) -> tuple[float, float] | None:
        """Return [earliest, latest] of a stated second on our clock; None if the offset is unknown or contradictory."""
        if not -inf < self._low <= self._high < inf:
            return None
        second = datetime.fromisoformat(text).timestamp()
        return second - self._high, second + 1 - self._low
