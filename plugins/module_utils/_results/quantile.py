# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantiles whose denominator holds every row, also those that never got there.

A row without a value counts as longer than all others ("never"). A quantile that falls among these is not known: then
there is no value, but a bound below, from how long those rows had been waiting when the observation ended. So a run
that loses its slowest workloads never looks faster for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import Any


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


class Sample:
    """Durations of ``of`` rows: their middles, and the bounds that each row's own error allows.

    middle, lower, upper: arrays of one length, NaN where a row has no value. waited: array of the same length, how
    long such a row had waited at least (0 where that isn't known).
    """

    def __init__(self, middle: Any, lower: Any, upper: Any, waited: Any) -> None:
        import numpy

        known = ~numpy.isnan(middle)
        self.of = len(middle)
        self.n = int(known.sum())
        self.middle = numpy.sort(middle[known])
        self._lower = numpy.sort(lower[known])
        self._upper = numpy.sort(upper[known])
        self._at_least = numpy.sort(numpy.where(known, middle, waited))

    def quantile(self, q: float) -> Quantile:
        """Return the quantile ``q``; q=1 is the maximum."""
        value = at(self.middle, self.of, q)
        if value is None:
            least = at(self._at_least, self.of, q)
            return Quantile(None, None, self.n, self.of, None if least is None else max(least, 0.0))
        low, high = at(self._lower, self.of, q), at(self._upper, self.of, q)
        bounds = None if low is None or high is None else (low, high)  # the same rows are known: both or none
        return Quantile(value, bounds, self.n, self.of)
