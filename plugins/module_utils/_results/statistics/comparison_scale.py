# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Series of one figure over runs: cleaning, the scale on which they are compared, noise between runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, isfinite, log, nan, sqrt
from typing import Any

#: Of numpy, which is imported where it is needed.
Array = Any
#: Differences smaller than this share of the values are rounding of floating-point numbers.
ROUNDING = 1e-9
#: A figure beyond is no measurement, and its square no number.
LARGEST = 1e100


@dataclass(frozen=True)
class RunToRunVariance:
    """Variation between runs of the same thing: variance on the scale of the comparison, and its degrees of freedom."""

    variance: float
    df: float

    def pooled_with(self, other: RunToRunVariance | None) -> RunToRunVariance:
        """Return both estimates as one, weighted by their degrees of freedom."""
        if other is None or not other.df:
            return self
        df = self.df + other.df
        return RunToRunVariance((self.variance * self.df + other.variance * other.df) / df, df)


def finite_values(values: Iterable[float | None]) -> Array:
    """Return ``values`` as an array of floats, in their order, without what mask_of_finite_values() leaves out."""
    array = float_array(values)
    return array[mask_of_finite_values(array)]


def float_array(values: Iterable[float | None]) -> Array:
    """Return ``values`` as an array of floats, NaN for None and 0 for what is smaller than 1/LARGEST."""
    import numpy

    array = numpy.array([nan if value is None else value for value in values], dtype=float).reshape(-1)
    return numpy.where(numpy.abs(array) < 1.0 / LARGEST, 0.0, array)


def mask_of_finite_values(values: Array) -> Array:
    """Return which of ``values`` can be used: those that are not NaN, not infinite, not beyond LARGEST."""
    import numpy

    return numpy.abs(values) < LARGEST


def finite_or_none(value: float) -> float | None:
    """Return a number, None for NaN and infinities, which a document cannot state."""
    return value if isfinite(value) else None


def is_compared_on_log_scale(*groups: Array) -> bool:
    """Return whether figures are compared by their logarithms: when there are any and all are positive.

    Run times, rates and latencies vary by a share of their size, so equal shares become equal distances. A figure that
    may be zero or negative is compared as it is.
    """
    return any(len(group) for group in groups) and all(bool((group > 0).all()) for group in groups)


def convert_to_scale(values: Array, logarithmic: bool) -> Array:
    """Return ``values`` on the scale of the comparison."""
    import numpy

    return numpy.log(values) if logarithmic else values


def pooled_variance_within_groups(groups: Sequence[Array]) -> RunToRunVariance:
    """Return the variance within groups of runs of the same thing, pooled; df 0 when no group has two runs.

    groups: arrays [run] on the scale of the comparison. A variance that is rounding only counts as 0.
    """
    df = sum(max(0, len(group) - 1) for group in groups)
    if not df:
        return RunToRunVariance(0.0, 0.0)
    total = sum(float(((group - group.mean()) ** 2).sum()) for group in groups if len(group))
    size = max((float(abs(group).max()) for group in groups if len(group)), default=0.0)
    variance = total / df
    return RunToRunVariance(0.0 if sqrt(variance) <= ROUNDING * size else variance, float(df))


def difference_as_share(difference: float, logarithmic: bool, base: float) -> float:
    """Return a difference on the scale of the comparison as a share of ``base``; NaN when the base is 0.

    base: the figure that it differs from, needed on the plain scale only.
    """
    import numpy

    if logarithmic:
        return float(numpy.expm1(min(difference, 700.0)))
    return difference / abs(base) if base else nan


def share_to_scale_difference(share: float, logarithmic: bool, base: float) -> float:
    """Return a share (0.05 for 5 %) as a difference on the scale of the comparison; infinite if it is undefined."""
    if logarithmic:
        return log(1.0 + share) if share > -1 else -inf
    size = share * abs(base)
    return size if isfinite(size) else inf
