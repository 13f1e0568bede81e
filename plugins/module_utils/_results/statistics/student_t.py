# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Student's t distribution and the power of its test, without scipy.

The distribution function is the regularised incomplete beta function, computed by its continued fraction (Press et al.,
Numerical Recipes, 3rd ed., 6.4). The power integrates the normal distribution over that of the variance estimate.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf, isfinite, isnan, lgamma, log, log1p, nan, sqrt
from statistics import NormalDist

NORMAL = NormalDist()
#: Terms of the continued fraction at most; with the arguments of a t distribution it converges in fewer than 200.
_MOST_TERMS = 10_000
_TINY = 1e-300


def student_t_upper_tail(t: float, df: float) -> float:
    """Return the probability that Student's t exceeds ``t``.

    df: degrees of freedom > 0, not necessarily an integer; infinite for the normal distribution. NaN gives NaN.
    """
    if isnan(t) or isnan(df) or df <= 0:
        return nan
    if not isfinite(df) or df > 1e7:
        return NORMAL.cdf(-t)
    if not isfinite(t):
        return 0.0 if t > 0 else 1.0
    if t * t < min(df, 1.0):  # near the centre the complement is the exact one
        half = _regularised_incomplete_beta(t * t / (df + t * t), 0.5, df / 2) / 2
        return 0.5 - half if t > 0 else 0.5 + half
    both = _regularised_incomplete_beta(df / (df + t * t), df / 2, 0.5) if abs(t) < 1e150 else 0.0
    return both / 2 if t > 0 else 1.0 - both / 2


@lru_cache(maxsize=4096)
def student_t_upper_tail_quantile(probability: float, df: float) -> float:
    """Return the value that Student's t exceeds with ``probability``, which lies between 0 and 1.

    Raises ValueError for a probability outside, or df ≤ 0.
    """
    if not 0.0 < probability < 1.0 or isnan(df) or df <= 0:
        raise ValueError(f"no quantile of Student's t for probability {probability} and {df} degrees of freedom")
    if probability > 0.5:
        return -student_t_upper_tail_quantile(1.0 - probability, df)
    low, high = 0.0, 1.0
    while student_t_upper_tail(high, df) > probability and high < 1e150:
        low, high = high, high * 2
    for _step in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if student_t_upper_tail(middle, df) > probability else (low, middle)
        if high - low <= 1e-12 * max(1.0, high):
            break
    return (low + high) / 2


def power_of_t_test(level: float, df: float, shift: float, least: float = -inf) -> float:
    """Return the probability that a one-sided t-test at ``level`` rejects, and its estimate is at least ``least``.

    shift: the true difference divided by its true standard error (the noncentrality). least: the smallest estimate that
    counts, in the same unit. Raises ValueError as quantile() does.
    """
    import numpy

    critical = student_t_upper_tail_quantile(level, df)
    if not isfinite(df):
        return NORMAL.cdf(shift - max(critical, least))
    # s: the estimated standard error divided by the true one; s² df has a chi-square distribution.
    s = numpy.linspace(0.0, 1.0 + 12.0 / sqrt(2.0 * df), 4001)[1:]
    density = numpy.exp(log(2.0) + (df / 2) * log(df / 2) - lgamma(df / 2) + (df - 1) * numpy.log(s) - df * s * s / 2)
    passed = _normal_cdf(shift - numpy.maximum(critical * s, least))
    return float(min(1.0, (density * passed).sum() / density.sum()))


def _normal_cdf(z: object) -> object:
    """Return the normal distribution function of an array; accurate to 1e-7, which is enough under an integral."""
    import numpy

    x = numpy.asarray(z, dtype=float) / sqrt(2.0)
    # Abramowitz and Stegun 7.1.26
    k = 1.0 / (1.0 + 0.3275911 * numpy.abs(x))
    series = k * (0.254829592 + k * (-0.284496736 + k * (1.421413741 + k * (-1.453152027 + k * 1.061405429))))
    error = numpy.sign(x) * (1.0 - series * numpy.exp(-x * x))
    return (1.0 + error) / 2


def _regularised_incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b) for 0 ≤ x ≤ 1."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _incomplete_beta_continued_fraction(x, a, b) / a
    return 1.0 - front * _incomplete_beta_continued_fraction(1.0 - x, b, a) / b


def _incomplete_beta_continued_fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function, by the method of Lentz."""
    c, d = 1.0, 1.0 / _replace_zero_by_tiny(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, _MOST_TERMS):
        step = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1.0 / _replace_zero_by_tiny(1.0 + step * d), _replace_zero_by_tiny(1.0 + step / c)
        value *= d * c
        step = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1.0 / _replace_zero_by_tiny(1.0 + step * d), _replace_zero_by_tiny(1.0 + step / c)
        value *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return value


def _replace_zero_by_tiny(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
