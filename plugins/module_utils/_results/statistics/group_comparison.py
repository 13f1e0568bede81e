# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Comparison of two groups of runs of one figure: the difference, its interval, and its p-values in both directions.

A run is one observation: ten thousand workloads of one run share its cluster, its day and its neighbours. The variance
is that between runs, pooled over both groups and over ``earlier`` groups of runs, and never less than the variance
within the runs (``errors``: standard errors from the block bootstrap of each run). So one run can be compared with one
other if history shows how much runs differ, and not without history.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb, inf, isfinite, nan, sqrt

from . import comparison_scale, student_t
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
    """Compare the figure of new runs with that of old ones by Student's t-test, on the scale of on_log_scale().

    old, new: one value per run, in the order in which the runs were made; None and NaN are left out. old_errors,
    new_errors: standard errors within the runs, in the unit of the figure, in any order, as far as known. earlier:
    groups of still older runs, each of the same configuration, used only to estimate how much runs differ. dependence:
    of runs on their time, from time_dependence.of_suite(). level: of the interval.
    """
    before, after, *past = [comparison_scale.finite_values(runs) for runs in (old, new, *earlier)]
    logarithmic = comparison_scale.on_log_scale(before, after, *past)
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
    variance = max(own.variance, within_runs((*old_errors, *new_errors), base if logarithmic else 1.0))
    error = sqrt(variance * dependence.variance_of_difference(len(x), len(y)))
    df = dependence.effective(own.df)
    low, high = confidence_interval(difference, error, df, level)
    greater, less = p_values(len(x), len(y), difference, error, df)
    return GroupDifference(difference, error, df, low, high, greater, less, len(x), len(y), logarithmic, base)


def confidence_interval(difference: float, error: float, df: float, level: float) -> tuple[float, float]:
    """Return the two-sided interval of a difference with a standard error of ``df`` degrees of freedom."""
    if not isfinite(difference) or not isfinite(error):
        return -inf, inf
    reach = student_t.upper_tail_quantile((1.0 - level) / 2, df) * error if error else 0.0
    return difference - reach, difference + reach


def p_values(n_old: int, n_new: int, difference: float, error: float, df: float) -> tuple[float, float]:
    """Return the one-sided p-values of "new is not greater" and "not less" than old.

    If no noise was seen (error 0), no distribution is known: they are those of Fisher's exact test (1935), of all new
    runs being different from all old ones.
    """
    if error:
        return student_t.upper_tail(difference / error, df), student_t.upper_tail(-difference / error, df)
    exact = 1.0 / comb(n_old + n_new, n_new)
    return (exact if difference > 0 else 1.0), (exact if difference < 0 else 1.0)


def within_runs(errors: Sequence[float], unit: float) -> float:
    """Return the mean variance within runs on the scale of the comparison, on which one ``unit`` is 1."""
    known = [error / unit for error in errors if isfinite(error)]
    return sum(error * error for error in known) / len(known) if known else 0.0


def further_runs(
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
