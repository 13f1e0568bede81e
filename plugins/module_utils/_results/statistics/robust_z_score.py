# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Robust z-score: how far new runs are from the median of history, in units of its median absolute deviation.

The score is that of Iglewicz and Hoaglin (How to Detect and Handle Outliers, 1993): outliers in history neither move
the centre nor widen the scale. Its distribution has long tails that depend on the number of past runs, so a fixed limit
such as 3.5 has no known error rate; the p-value is that of a Monte Carlo test (Dwass 1957), exact for normally
distributed runs whatever their mean and spread, because the score does not depend on these. A few new runs beside many
are judged by the permutation test too, as in group_comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, copysign, inf, nan, sqrt

from . import comparison_scale, group_comparison
from .comparison_scale import Array

#: Past runs without which a median absolute deviation says nothing.
LEAST_RUNS = 4
#: 1.4826 times the median absolute deviation is the standard deviation of a normal distribution.
CONSISTENCY = 1.4826
_DRAWS = 40_000


@dataclass(frozen=True)
class RobustScore:
    """z > 0: the new runs are higher. p_greater, p_less: one-sided p-values; NaN when not judged, and why (reason).

    difference and its two-sided interval (low, high) are on the scale of the comparison.
    """

    z: float
    difference: float
    low: float
    high: float
    p_greater: float
    p_less: float
    n_old: int
    n_new: int
    logarithmic: bool
    base: float  # the median of the old runs, in the unit of the figure
    reason: str = ""


def robust_score(
    old: Iterable[float | None],
    new: Iterable[float | None],
    *,
    errors: Sequence[float] = (),
    level: float = 0.95,
    seed: int = 1,
) -> RobustScore:
    """Score the median of the new runs against history.

    old, new: one value per run; None and NaN are left out. errors: standard errors within the runs, in the unit of the
    figure, as far as known; the scale is never smaller. level: of the interval.
    """
    import numpy

    before, after = comparison_scale.finite_values(old), comparison_scale.finite_values(new)
    logarithmic = comparison_scale.on_log_scale(before, after)
    if len(before) < LEAST_RUNS or not len(after):
        reason = f"not enough history: {len(before)} past runs, {LEAST_RUNS} are needed" if len(after) else "no value"
        return RobustScore(nan, nan, -inf, inf, nan, nan, len(before), len(after), logarithmic, nan, reason)
    x, y = comparison_scale.convert_to_scale(before, logarithmic), comparison_scale.convert_to_scale(after, logarithmic)
    centre = float(numpy.median(x))
    difference = float(numpy.median(y)) - centre
    if abs(difference) <= comparison_scale.ROUNDING * abs(centre):
        difference = 0.0
    base = float(numpy.median(before))
    within = sqrt(group_comparison.within_runs(errors, base if logarithmic else 1.0))
    spread = max(CONSISTENCY * float(numpy.median(numpy.abs(x - centre))), within)
    if spread <= comparison_scale.ROUNDING * abs(centre):
        greater, less = group_comparison.p_values(x, y, difference, 0.0, nan)
        z = copysign(inf, difference) if difference else 0.0
        reach = 0.0
    else:
        z = difference / spread
        null = _null_distribution_scores(len(x), len(y), seed)
        greater, less = group_comparison.raise_by_permutation_test(
            x, y, _upper_tail_p_value(null, z), _upper_tail_p_value(null, -z)
        )
        reach = spread * float(null[min(len(null) - 1, ceil((1.0 + level) / 2 * len(null)))])
    low, high = difference - reach, difference + reach
    return RobustScore(z, difference, low, high, greater, less, len(x), len(y), logarithmic, base)


def _upper_tail_p_value(null: Array, z: float) -> float:
    beyond = len(null) - int(null.searchsorted(z, side="left"))
    return (1 + beyond) / (1 + len(null))


@lru_cache(maxsize=64)
def _null_distribution_scores(n_old: int, n_new: int, seed: int) -> Array:
    """Return the scores of runs that do not differ, ascending; both signs of each draw, as they are equally likely."""
    import numpy

    generator = numpy.random.default_rng([seed, n_old, n_new])
    parts = []
    for _part in range(8):
        x = generator.standard_normal((_DRAWS // 8, n_old))
        centre = numpy.median(x, axis=1)
        spread = CONSISTENCY * numpy.median(numpy.abs(x - centre[:, None]), axis=1)
        y = numpy.median(generator.standard_normal((_DRAWS // 8, n_new)), axis=1)
        parts.append((y - centre) / spread)
    scores = numpy.concatenate(parts)
    return numpy.sort(numpy.concatenate([scores, -scores]))
