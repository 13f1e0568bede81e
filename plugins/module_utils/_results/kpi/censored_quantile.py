# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantiles of durations over all planned rows, with right-censored rows estimated by Kaplan and Meier.

Two kinds of rows have no value. A row that can no longer reach the stage (failed, refused, never sent) counts as longer
than all others. A row that was still waiting when the observation ended is right-censored: its duration is at least the
time waited. The distribution is the product-limit estimate (E. L. Kaplan, P. Meier: "Nonparametric Estimation from
Incomplete Observations", 1958). A quantile among rows without a value is unknown and has only a lower bound. So a run
that loses its slowest workloads never looks faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import Any

#: Tolerance for probabilities that were summed in different orders.
_TINY = 1e-9


@dataclass(frozen=True)
class Quantile:
    """A quantile and its measurement bounds [lower, upper], or None for both and ``at_least``; from n of N rows.

    All in the unit of the values.
    """

    value: float | None
    interval: tuple[float, float] | None
    n: int
    of: int
    at_least: float | None = None


def quantile_at(ordered: Any, of: int, q: float) -> float | None:
    """Return the quantile ``q`` (0 to 1) of ``of`` rows, the smallest of which are ``ordered``; None beyond these.

    Linear interpolation between neighbours: definition 7 of R. J. Hyndman, Y. Fan: "Sample Quantiles in Statistical
    Packages" (1996), numpy's default.
    """
    if not of:
        return None
    place = (of - 1) * q
    low, high = floor(place), ceil(place)
    if high >= len(ordered):
        return None
    return float(ordered[low] + (place - low) * (ordered[high] - ordered[low]))


def kaplan_meier_shares(events: Any, censored: Any, of: int) -> Any:
    """Return an array (len(events),): the estimated share of all ``of`` rows with at most each duration.

    events: ascending durations. censored: ascending times at which rows were last seen waiting. Rows in neither never
    reach the stage. The product-limit estimate of Kaplan and Meier; without censored rows it is k/N. In a tie the event
    comes before the censoring.
    """
    import numpy

    k = numpy.arange(len(events))
    if not len(censored):
        return (k + 1.0) / of
    before = numpy.searchsorted(censored, events, side="left")  # rows censored before each event
    at_risk = of - k - before
    with numpy.errstate(divide="ignore"):
        return 1.0 - numpy.exp(numpy.cumsum(numpy.log1p(-1.0 / at_risk)))


class Sample:
    """Durations of ``of`` rows: midpoints and measurement bounds.

    middle, lower, upper: arrays (rows,), NaN where a row has no value. waited: array (rows,), how long a row without a
    value had waited at least, 0 if unknown. All in one unit. censored: boolean array (rows,), which rows may still
    reach the stage; without it none may.
    """

    def __init__(self, middle: Any, lower: Any, upper: Any, waited: Any, censored: Any = None) -> None:
        import numpy

        known = ~numpy.isnan(middle)
        self.of = len(middle)
        self.n = int(known.sum())
        self.rows = middle  # in the given order
        self.middle = numpy.sort(middle[known])
        self._lower = numpy.sort(lower[known])
        self._upper = numpy.sort(upper[known])
        self._at_least = numpy.sort(numpy.where(known, middle, waited))
        self.open = numpy.zeros(self.of, dtype=bool) if censored is None else censored & ~known
        self.waited = waited
        self.shares = kaplan_meier_shares(self.middle, numpy.sort(waited[self.open]), self.of)
        # Plotting positions of definition 7 if no row is missing: 0 for the first, 1 for the last.
        self._places = (self.shares - 1.0 / self.of) * (self.of / max(self.of - 1, 1)) if self.of else self.shares

    @property
    def censored(self) -> int:
        """Number of rows that were still waiting when the observation ended."""
        return int(self.open.sum())

    def quantile(self, q: float) -> Quantile:
        """Return the quantile ``q``; q=1 is the maximum, which is unknown as long as a row has no value."""
        place = self._place(q)
        if place is None:
            least = quantile_at(self._at_least, self.of, q)
            return Quantile(None, None, self.n, self.of, None if least is None else max(least, 0.0))
        value, low, high = (_between(of, *place) for of in (self.middle, self._lower, self._upper))
        return Quantile(value, (min(low, value), max(high, value)), self.n, self.of)

    def _place(self, q: float) -> tuple[int, float] | None:
        """Return the index of the event below ``q`` and the fraction of the way to the next; None beyond the last."""
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
