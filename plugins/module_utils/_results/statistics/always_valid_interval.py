# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test that may be looked at after every run: always-valid p-values and intervals for adaptive repetition.

The Bayes factor of "the difference is normally distributed with a standard deviation of c between-run deviations"
against "there is none", with the invariant priors for mean and spread, is a martingale of the scale-free data under
"none" (Gönen et al., The American Statistician 59, 2005; Hendriksen, de Heide and Grünwald, Bayesian Analysis 16, 2021;
Pérez-Ortiz et al., Annals of Statistics 52, 2024). So by Ville's inequality it exceeds 1/α with a chance of at most α,
at whatever time one looks, and the differences that it does not refute form an interval that holds the truth at all
times (Wang and Ramdas 2024, for the mean of normal data). No number of looks is fixed beforehand, as alpha spending
needs (Lan and DeMets 1983): nobody knows how many runs fit into a budget of hours, and an interrupted run continues
later.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, isfinite, isnan, log, log1p, nan, sqrt

from . import comparison_scale
from .comparison_scale import RunToRunVariance
from .group_comparison import GroupDifference

#: Between-run standard deviations that differences of interest amount to: 10 % at a noise of 5 %.
PRIOR = 2.0
#: The same for the distance from a limit, which is often far: a clear case is decided after three attempts, not five.
LIMIT_PRIOR = 10.0


@dataclass(frozen=True)
class AnytimeDifference:
    """A difference whose interval holds at every look at once. p_value: two-sided, valid at every look."""

    difference: float
    low: float
    high: float
    p_value: float


def interval_of_group_difference(comparison: GroupDifference, alpha: float, prior: float = PRIOR) -> AnytimeDifference:
    """Return the always-valid interval at 1 - ``alpha`` and p-value of a comparison of two groups of runs.

    It is exact for normally distributed runs.
    """
    information = (
        1.0 / (1.0 / comparison.n_old + 1.0 / comparison.n_new) if comparison.n_old and comparison.n_new else 0.0
    )
    return interval_of_estimate(
        comparison.difference, comparison.standard_error, comparison.df, information, alpha, prior
    )


def against_limit(
    values: list[float], limit: float, noise: RunToRunVariance | None, alpha: float, within: float = 0.0
) -> AnytimeDifference:
    """Return the always-valid interval of the mean of ``values`` minus ``limit``, on the scale of the comparison.

    within: variance within runs, which that between runs is never smaller than.
    """
    import numpy

    x = numpy.asarray(values, dtype=float)
    own = comparison_scale.pooled_variance_within_groups([x]).pooled_with(noise)
    if not len(x) or not own.df:
        return AnytimeDifference(float(x.mean()) - limit if len(x) else nan, -inf, inf, 1.0)
    return interval_of_estimate(
        float(x.mean()) - limit, sqrt(max(own.variance, within) / len(x)), own.df, float(len(x)), alpha, LIMIT_PRIOR
    )


def interval_of_estimate(
    difference: float, error: float, df: float, information: float, alpha: float, prior: float = PRIOR
) -> AnytimeDifference:
    """Return interval and p-value of an estimate.

    error: its standard error, with ``df`` degrees of freedom. information: the variance between runs over that of the
    estimate, n for a mean of n runs, 1/(1/n + 1/m) for a difference. Raises ValueError for alpha outside 0 to 1.
    """
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha {alpha} is not between 0 and 1")
    if isnan(difference) or isnan(error) or df <= 0 or information <= 0:
        return AnytimeDifference(difference, -inf, inf, 1.0)
    if not error:  # no noise was seen, so its size is unknown
        return AnytimeDifference(
            difference, -inf if difference < 0 else difference, inf if difference > 0 else difference, 1.0
        )
    k = 1.0 + information * prior * prior
    t = difference / error
    p = min(1.0, exp(-log_bayes_factor(t, df, k)))
    reach = error * _critical_t_value(df, k, alpha)
    return AnytimeDifference(difference, difference - reach, difference + reach, p)


def log_bayes_factor(t: float, df: float, k: float) -> float:
    """Return the logarithm of the Bayes factor for a difference. k: 1 + information × prior²."""
    if not isfinite(t):
        return inf
    square = t * t / df
    return -log(k) / 2 + (df + 1) / 2 * (log1p(square) - log1p(square / k))


def _critical_t_value(df: float, k: float, alpha: float) -> float:
    """Return the t at which the Bayes factor is 1/alpha; infinite while no t reaches it."""
    a = exp((log(k) - 2.0 * log(alpha)) / (df + 1.0))
    return sqrt(df * (a - 1.0) / (1.0 - a / k)) if a < k else inf
