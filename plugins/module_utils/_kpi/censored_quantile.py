# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantiles whose denominator holds every row, also those that never got there.

Two kinds of rows have no value. One that can't get there any more (it failed, was refused, was never sent) counts as
longer than all others. One that was still waiting when the observation ended is *censored*: it took at least as long
as it had waited. Their share is estimated after Kaplan and Meier (1958), by the times at which they left the sight.
A quantile that falls among rows without a value is not known: then there is no value but a bound below. So a run that
loses its slowest workloads never looks faster for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import Any

#: Slack of comparisons between probabilities that were summed up in different orders.
_TINY = 1e-9


@dataclass(frozen=True)
class Quantile:
    """value and [lower, upper] of it, or None for both and ``at_least``, in the unit of the values; n of N rows."""

    value: float | None
    interval: tuple[float, float] | None
    n: int
    of: int
    at_least: float | None = None


def at(ordered: Any, of: int, q: float) -> float | None:
    """Return the quantile ``q`` (0…1) of ``of`` rows, of which the smallest are ``ordered``; None beyond these.

    Linear interpolation between neighbours: definition 7 of Hyndman and Fan (1996), numpy's default.
    """
    if not of:
        return None
    place = (of - 1) * q
    low, high = floor(place), ceil(place)
    if high >= len(ordered):
        return None
    return float(ordered[low] + (place - low) * (ordered[high] - ordered[low]))


def shares(events: Any, censored: Any, of: int) -> Any:
    """Return for each of the ascending ``events`` the estimated share of all ``of`` rows that took at most so long.

    censored: ascending times at which rows were last seen waiting. Rows in neither never get there. The product-limit
    estimate of Kaplan and Meier; without censored rows it is k/N. Of an event and a censoring at one time the event
    comes first.
    """
    import numpy

    k = numpy.arange(len(events))
    if not len(censored):
        return (k + 1.0) / of
    gone = numpy.searchsorted(censored, events, side="left")  # who was censored before this event
    at_risk = of - k - gone
    with numpy.errstate(divide="ignore"):
        return 1.0 - numpy.exp(numpy.cumsum(numpy.log1p(-1.0 / at_risk)))


class Sample:
    """Durations of ``of`` rows: their middles, and the bounds that each row's own error allows.

    middle, lower, upper: arrays of one length, NaN where a row has no value. waited: array of the same length, how
    long such a row had waited at least (0 where that isn't known). censored: truths, who of them may still get there;
    without it nobody may.
    """

    def __init__(self, middle: Any, lower: Any, upper: Any, waited: Any, censored: Any = None) -> None:
        import numpy

        known = ~numpy.isnan(middle)
        self.of = len(middle)
        self.n = int(known.sum())
        self.rows = middle  # in their own order
        self.middle = numpy.sort(middle[known])
        self._lower = numpy.sort(lower[known])
        self._upper = numpy.sort(upper[known])
        self._at_least = numpy.sort(numpy.where(known, middle, waited))
        self.open = numpy.zeros(self.of, dtype=bool) if censored is None else censored & ~known
        self.waited = waited
        self.shares = shares(self.middle, numpy.sort(waited[self.open]), self.of)
        # Places such that without missing rows they are those of definition 7: 0 for the first, 1 for the last.
        self._places = (self.shares - 1.0 / self.of) * (self.of / max(self.of - 1, 1)) if self.of else self.shares

    @property
    def censored(self) -> int:
        """How many rows were still waiting when the observation ended."""
        return int(self.open.sum())

    def quantile(self, q: float) -> Quantile:
        """Return the quantile ``q``; q=1 is the maximum, which nobody knows as long as a row has no value."""
        place = self._place(q)
        if place is None:
            least = at(self._at_least, self.of, q)
            return Quantile(None, None, self.n, self.of, None if least is None else max(least, 0.0))
        value, low, high = (_between(of, *place) for of in (self.middle, self._lower, self._upper))
        return Quantile(value, (min(low, value), max(high, value)), self.n, self.of)

    def _place(self, q: float) -> tuple[int, float] | None:
        """Return the number of the event below ``q`` and how far from it to the next; None beyond the last."""
        if not self.n or (q >= 1 and self.n < self.of):
            return None
        import numpy

        above = int(numpy.searchsorted(self._places, q - _TINY, side="left"))
        if above >= self.n:
            return (self.n - 1, 0.0) if self.n == self.of else None
        if above == 0 or self._places[above] - q <= _TINY:
            return above, 0.0
        below = self._places[above - 1]
        return above - 1, float((q - below) / (self._places[above] - below))


def _between(ordered: Any, place: int, part: float) -> float:
    if not part:
        return float(ordered[place])
    return float(ordered[place] + part * (ordered[place + 1] - ordered[place]))
