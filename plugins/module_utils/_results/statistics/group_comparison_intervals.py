# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The difference of two groups of runs: its interval and p-values for one look, and always-valid ones for many looks.

A run is one observation: ten thousand workloads of one run share its cluster, its day and its neighbours. The variance
is that between runs, pooled over both groups and over ``earlier`` groups of runs, and never less than the variance
within the runs (``errors``: standard errors from the block bootstrap of each run). So one run can be compared with one
other if history shows how much runs differ, and not without history.

For many looks: the Bayes factor of "the difference is normally distributed with a standard deviation of c between-run
deviations" against "there is none", with the invariant priors for mean and spread, is a martingale of the scale-free
data under "none" (Gönen et al., The American Statistician 59, 2005; Hendriksen, de Heide and Grünwald, Bayesian
Analysis 16, 2021; Pérez-Ortiz et al., Annals of Statistics 52, 2024). So by Ville's inequality it exceeds 1/α with a
chance of at most α, at whatever time one looks, and the differences that it does not refute form an interval that holds
the truth at all times (Wang and Ramdas 2024, for the mean of normal data). No number of looks is fixed beforehand, as
alpha spending needs (Lan and DeMets 1983): nobody knows how many runs fit into a budget of hours, and an interrupted
run continues later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb, exp, inf, isfinite, isnan, log, log1p, nan, sqrt

from . import comparison_scale, student_t
from .comparison_scale import RunToRunVariance
from .time_dependence import INDEPENDENT, TimeDependence

NO_RUNS = "no run with a value"
NO_NOISE = "not enough history to know how much runs differ"
#: Beyond so many further runs the answer is "no number of runs is practical".
MOST_RUNS = 200


@dataclass(frozen=True)
class GroupDifference:
    """New minus old, on the scale of the comparison (logarithms when ``logarithmic``).

    low, high: two-sided interval at the requested level. p_greater, p_less: one-sided p-values of "new is not greater",
    "not less". NaN where it could not be computed; ``reason`` then says why.
    """

    difference: float
    standard_error: float
    df: float
    low: float
    high: float
    p_greater: float
    p_less: float
    n_old: int
    n_new: int
    logarithmic: bool
    base: float  # the mean of the old runs, in the unit of the figure
    reason: str = ""

    @property
    def noise(self) -> float:
        """Standard deviation between runs that the comparison used, including the dependence of neighbours."""
        weights = 1.0 / self.n_old + 1.0 / self.n_new if self.n_old and self.n_new else 0.0
        return self.standard_error / sqrt(weights) if weights else nan


def compare_groups(
    old: Iterable[float | None],
    new: Iterable[float | None],
    *,
    old_errors: Sequence[float] = (),
    new_errors: Sequence[float] = (),
    earlier: Sequence[Iterable[float | None]] = (),
    dependence: TimeDependence = INDEPENDENT,
    level: float = 0.95,
) -> GroupDifference:
    """Compare the figure of new runs with that of old ones by Student's t-test, on the KPI's scale.

    old, new: one value per run, in the order in which the runs were made; None and NaN are left out. old_errors,
    new_errors: standard errors within the runs, in the unit of the figure, in any order, as far as known. earlier:
    groups of still older runs, each of the same configuration, used only to estimate how much runs differ. dependence:
    of runs on their time, from time_dependence.estimate_suite_dependence(). level: of the interval.
    """
    before, after, *past = [comparison_scale.finite_values(runs) for runs in (old, new, *earlier)]
    logarithmic = comparison_scale.is_compared_on_log_scale(before, after, *past)
    base = float(before.mean()) if len(before) else nan
    if not len(before) or not len(after):
        return _undetermined_difference(len(before), len(after), logarithmic, base, NO_RUNS)
    x, y, *rest = [comparison_scale.convert_to_scale(runs, logarithmic) for runs in (before, after, *past)]
    difference = float(y.mean() - x.mean())
    if abs(difference) <= comparison_scale.ROUNDING * max(abs(float(x.mean())), abs(float(y.mean()))):
        difference = 0.0
    own = comparison_scale.pooled_variance_within_groups([x, y, *rest])
    if not own.df:
        return _undetermined_difference(len(x), len(y), logarithmic, base, NO_NOISE, difference)
    variance = max(own.variance, mean_variance_within_runs((*old_errors, *new_errors), base if logarithmic else 1.0))
    error = sqrt(variance * dependence.variance_of_difference(len(x), len(y)))
    df = dependence.effective(own.df)
    low, high = confidence_interval(difference, error, df, level)
    greater, less = one_sided_p_values(len(x), len(y), difference, error, df)
    return GroupDifference(difference, error, df, low, high, greater, less, len(x), len(y), logarithmic, base)


def confidence_interval(difference: float, error: float, df: float, level: float) -> tuple[float, float]:
    """Return the two-sided interval of a difference with a standard error of ``df`` degrees of freedom."""
    if not isfinite(difference) or not isfinite(error):
        return -inf, inf
    reach = student_t.student_t_upper_tail_quantile((1.0 - level) / 2, df) * error if error else 0.0
    return difference - reach, difference + reach


def one_sided_p_values(n_old: int, n_new: int, difference: float, error: float, df: float) -> tuple[float, float]:
    """Return the one-sided p-values of "new is not greater" and "not less" than old.

    If no noise was seen (error 0), no distribution is known: they are those of Fisher's exact test (1935), of all new
    runs being different from all old ones.
    """
    if error:
        return student_t.student_t_upper_tail(difference / error, df), student_t.student_t_upper_tail(
            -difference / error, df
        )
    exact = 1.0 / comb(n_old + n_new, n_new)
    return (exact if difference > 0 else 1.0), (exact if difference < 0 else 1.0)


def mean_variance_within_runs(errors: Sequence[float], unit: float) -> float:
    """Return the mean variance within runs on the scale of the comparison, on which one ``unit`` is 1."""
    known = [error / unit for error in errors if isfinite(error)]
    return sum(error * error for error in known) / len(known) if known else 0.0


def number_of_further_runs_needed(
    n_old: int, n_new: int, noise: float, noise_df: float, least: float, level: float, power: float, alone: bool = False
) -> int | None:
    """Return how many runs to add to the new group; 0 when there are enough, None when more than MOST_RUNS are needed.

    Only the new group grows, because past runs cannot be repeated.

    Args:
        n_old: Old runs.
        n_new: New runs.
        noise: Standard deviation between runs.
        noise_df: Degrees of freedom of ``noise`` beyond the two groups.
        least: The smallest difference that matters, in the unit of ``noise``.
        level: Of the one-sided test, after the correction for many figures.
        power: Probability of finding ``least``.
        alone: Whether no other figures show if new runs vary more, so that the degrees of freedom are those of Welch's
            test (Biometrika 34, 1947).

    Raises:
        ValueError: For a level or power outside 0 to 1.
    """
    if not 0.0 < power < 1.0:
        raise ValueError(f"power {power} is not between 0 and 1")
    if n_old < 1 or not isfinite(noise):
        return None
    if noise <= 0:
        least_new = next(n for n in range(1, MOST_RUNS + 1) if level * comb(n_old + n, n) >= 1.0)
        return max(0, least_new - n_new)
    if least <= 0:
        return None

    def enough(added: int) -> bool:
        n = n_new + added
        df = max(0, n_old - 1) + max(0, n - 1) + noise_df
        if alone and min(n_old, n) > 1:
            of_old, of_new = (1.0 / (runs * runs * (runs - 1.0)) for runs in (n_old, n))
            df = min(df, (1.0 / n_old + 1.0 / n) ** 2 / (of_old + of_new))
        if n < 1 or df < 1:
            return False
        shift = least / (noise * sqrt(1.0 / n_old + 1.0 / n))
        return student_t.power_of_t_test(level, df, shift) >= power

    added = range(MOST_RUNS + 1)
    if alone:  # Welch's degrees of freedom fall as the groups become unequal, and with them the power
        return next(filter(enough, added), None)
    return bisect_left(added, True, key=enough) if enough(MOST_RUNS) else None


def _undetermined_difference(
    n_old: int, n_new: int, logarithmic: bool, base: float, reason: str, difference: float = nan
) -> GroupDifference:
    return GroupDifference(difference, nan, 0.0, -inf, inf, nan, nan, n_old, n_new, logarithmic, base, reason)


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


def interval_of_mean_minus_limit(
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
