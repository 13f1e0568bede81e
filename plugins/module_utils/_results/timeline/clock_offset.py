# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bound what one clock showed while another one showed a given moment, from writes to the same etcd.

A client knows when it sent a write and when it was answered, on its own clock. The revision clock of another client
bounds the commit of the same resourceVersion on the other clock. So the other clock showed

- at least the lower bound of the commit when the write was answered here, and
- at most the upper bound of the commit when the write was sent here.

Between these points only the rates of the clocks matter. They are assumed to differ by at most MAX_DRIFT: the kernel
lets NTP change the rate of a clock by 0.05 %. No clock is assumed to be right. If the points contradict the assumption,
larger differences are tried.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import inf

#: Assumed maximum difference of the rates of two clocks, then those that are tried if the points contradict it.
MAX_DRIFT = 0.01
_LARGER = (0.1, 0.5)
#: Times are written in whole microseconds, by both clocks.
_ROUNDED = 2e-6

#: (moment on the clock, bound of the other clock at that moment)
ClockPoint = tuple[float, float]


class ClockOffset:
    """Bounds of the other clock as functions of this clock; both in seconds.

    floors: the other clock showed at least this. ceilings: at most this. ``drift``: the difference of the rates that
    fits all points. ``contradictory``: none fits, so at least one of the clocks has jumped.
    """

    def __init__(self, floors: Iterable[ClockPoint], ceilings: Iterable[ClockPoint]) -> None:
        low = sorted((at, bound - _ROUNDED) for at, bound in floors if bound > -inf)
        high = sorted((at, bound + _ROUNDED) for at, bound in ceilings if bound < inf)
        self.contradictory = False
        for drift in (MAX_DRIFT, *_LARGER):
            self.drift = drift
            # The upper bound is the lower bound of the negated clocks.
            self._low = _LowerBound(low, drift)
            self._high = _LowerBound([(-at, -bound) for at, bound in reversed(high)], drift)
            if all(self.earliest(at) <= self.latest(at) for at, _bound in (*low, *high)):
                return
        self.contradictory = True

    @property
    def widened(self) -> bool:
        """Whether the rates differ by more than MAX_DRIFT."""
        return self.drift > MAX_DRIFT

    def earliest(self, at: float) -> float:
        """Return the least that the other clock can have shown at ``at``; -inf without points."""
        return self._low(at)

    def latest(self, at: float) -> float:
        """Return the most that the other clock can have shown at ``at``; inf without points."""
        return -self._high(-at)

    def middle(self, at: float) -> float:
        """Return the middle of both bounds; ``at`` itself where one of them is unknown."""
        low, high = self.earliest(at), self.latest(at)
        return (low + high) / 2 if -inf < low and high < inf else at


class _LowerBound:
    """The largest bound that any point implies. From a point on, the other clock gains at least (1 - drift) a second;
    before it, it had gained at most (1 + drift)."""

    def __init__(self, points: Sequence[ClockPoint], drift: float) -> None:
        # Relative to the first point, so that the products keep their precision.
        self._from, self._base = points[0] if points else (0.0, 0.0)
        self._slow, self._fast = 1 - drift, 1 + drift
        moments = [at - self._from for at, _bound in points]
        bounds = [bound - self._base for _at, bound in points]
        self._at = moments
        self._past = list(accumulate((b - self._slow * a for a, b in zip(moments, bounds, strict=True)), max))
        later = [b - self._fast * a for a, b in zip(moments, bounds, strict=True)]
        self._future = list(accumulate(reversed(later), max))[::-1]

    def __call__(self, at: float) -> float:
        if not -inf < at < inf:
            return at
        since = at - self._from
        place = bisect_right(self._at, since)
        past = self._past[place - 1] + self._slow * since if place else -inf
        future = self._future[place] + self._fast * since if place < len(self._at) else -inf
        return self._base + max(past, future)
