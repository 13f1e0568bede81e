# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Comparison of two groups of runs of one figure: the difference, its interval, and its p-values in both directions.

A run is one observation: ten thousand workloads of one run share its cluster, its day and its neighbours. The variance
is that between runs, pooled over both groups and over ``earlier`` groups of runs, and never less than the variance
within the runs (``errors``: standard errors from the block bootstrap of each run). So one run can be compared with one
other if history shows how much runs differ, and not without history.

Beside Student's t stands a test that holds for figures of any distribution (Pitman 1937): if both groups are of the
same thing, the new runs are as likely to be any other choice of so many runs, so the p-value is the share of choices
whose mean is at least as far off. It cannot fall below one in the number of choices: one run beside twenty is the
slowest of all once in 21 times, however slow it is, and a latency with a long tail has such runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, inf, isfinite, nan, sqrt

from . import comparison_scale, student_t
from .comparison_scale import Array
from .time_dependence import INDEPENDENT, TimeDependence

NO_RUNS = "no run with a value"
#: Above this p-value of Student's t the permutation test changes no reading.
WORTH_PERMUTING = 0.05
NO_NOISE = "not enough history to know how much runs differ"
#: Up to so many choices of new runs are all looked at, of more as many are drawn.
_ALL, _DRAWN = 5_000, 20_000
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
    greater, less = p_values(x, y, difference, error, df)
    return GroupDifference(difference, error, df, low, high, greater, less, len(x), len(y), logarithmic, base)


def needs_permutation_test(n_old: int, n_new: int) -> bool:
    """Return whether Student's t needs the permutation test beside it.

    In groups of similar size the tails of a skewed figure cancel out; those of a few runs beside many do not.
    """
    return 2 * max(n_old, n_new) > 3 * min(n_old, n_new)


def confidence_interval(difference: float, error: float, df: float, level: float) -> tuple[float, float]:
    """Return the two-sided interval of a difference with a standard error of ``df`` degrees of freedom."""
    if not isfinite(difference) or not isfinite(error):
        return -inf, inf
    reach = student_t.upper_tail_quantile((1.0 - level) / 2, df) * error if error else 0.0
    return difference - reach, difference + reach


def p_values(old: Array, new: Array, difference: float, error: float, df: float) -> tuple[float, float]:
    """Return the one-sided p-values of "new is not greater" and "not less" than old.

    If no noise was seen (error 0), no distribution is known: the p-values are those of the permutation test.
    """
    if not difference and not error:
        return 1.0, 1.0
    if not error:
        return permutation_p_values(old, new)
    greater, less = student_t.upper_tail(difference / error, df), student_t.upper_tail(-difference / error, df)
    return raise_by_permutation_test(old, new, greater, less)


def raise_by_permutation_test(old: Array, new: Array, greater: float, less: float) -> tuple[float, float]:
    """Return the p-values, raised to those of the permutation test where groups of unequal size need it."""
    if not needs_permutation_test(len(old), len(new)) or min(greater, less) > WORTH_PERMUTING:
        return greater, less
    permuted = permutation_p_values(old, new)
    return max(greater, permuted[0]), max(less, permuted[1])


def permutation_p_values(old: Array, new: Array, seed: int = 1) -> tuple[float, float]:
    """Return the one-sided p-values of "the mean of the new runs is not greater", and "not less".

    old, new: arrays [run], at least one each, on the scale of the comparison. The same seed gives the same values.
    """
    import numpy

    values = numpy.concatenate([old, new])
    n, m = len(values), len(new)
    centred = values - values.mean()
    observed = float(centred[len(old) :].sum())
    if comb(n, m) <= _ALL:
        sums = centred[numpy.array(list(combinations(range(n), m)))].sum(axis=1)
        itself = 0
    else:
        places = numpy.random.default_rng(seed).random((_DRAWN - 1, n)).argpartition(m, axis=1)[:, :m]
        sums = centred[places].sum(axis=1)
        itself = 1  # the choice that was made is one of all
    rounding = 1e-12 * float(numpy.abs(centred).sum())
    greater = int((sums >= observed - rounding).sum()) + itself
    less = int((sums <= observed + rounding).sum()) + itself
    return greater / (len(sums) + itself), less / (len(sums) + itself)


def least_runs(n_old: int, level: float) -> int:
    """Return how many new runs permutation_p_values() needs beside ``n_old`` old ones to reach ``level`` at all.

    Raises ValueError for a level that is not between 0 and 1, or fewer than one old run.
    """
    if not 0.0 < level < 1.0 or n_old < 1:
        raise ValueError(f"no number of runs for level {level} beside {n_old} old runs")
    runs = 1
    while comb(n_old + runs, runs) * level < 1.0:
        runs += 1
    return runs


def within_runs(errors: Sequence[float], unit: float) -> float:
    """Return the mean variance within runs on the scale of the comparison, on which one ``unit`` is 1."""
    known = [error / unit for error in errors if isfinite(error)]
    return sum(error * error for error in known) / len(known) if known else 0.0


def further_runs(
    n_old: int, n_new: int, noise: float, noise_df: float, least: float, level: float, power: float
) -> int | None:
    """Return how many runs to add to the new group; 0 when there are enough, None when more than MOST_RUNS are needed.

    noise: standard deviation between runs. least: the smallest difference that matters, in the same unit. level: of the
    one-sided test, after the correction for many figures. noise_df: degrees of freedom of ``noise`` beyond the two
    groups. power: probability of finding ``least``. Only the new group grows, because past runs cannot be repeated.
    Raises ValueError for a level or power outside 0 to 1.
    """
    if not 0.0 < power < 1.0:
        raise ValueError(f"power {power} is not between 0 and 1")
    if n_old < 1 or not isfinite(noise):
        return None
    if noise <= 0:
        return max(0, least_runs(n_old, level) - n_new)
    if least <= 0:
        return None

    def enough(added: int) -> bool:
        n = n_new + added
        if needs_permutation_test(n_old, n) and n < least_runs(n_old, level):
            return False
        df = max(0, n_old - 1) + max(0, n - 1) + noise_df
        if n < 1 or df < 1:
            return False
        shift = least / (noise * sqrt(1.0 / n_old + 1.0 / n))
        return student_t.power_of_t_test(level, df, shift) >= power

    return next((added for added in range(MOST_RUNS + 1) if enough(added)), None)


def _undetermined_difference(
    n_old: int, n_new: int, logarithmic: bool, base: float, reason: str, difference: float = nan
) -> GroupDifference:
    return GroupDifference(difference, nan, 0.0, -inf, inf, nan, nan, n_old, n_new, logarithmic, base, reason)
