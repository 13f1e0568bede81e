# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How runs depend on the time at which they were made: changes of the mean, the run before, a drift over all of them.

Change points of a series are found by E-divisive (Matteson and James, JASA 109, 2014). The series is split where the
energy distance between its parts is largest, and again inside the parts, as long as a permutation test finds the split
significant. Permutations stay within the parts found so far, as in the paper; their generator is seeded, so the same
series gives the same answer. Unlike the program Hunter (Fleming et al., ICPE 2023) the split is tested by permutation
and not by Student's t on the best of all splits, which finds ten times the stated false alarms; and a part has a least
number of runs, without which a single outlier is a change.

Neighbours that depend on each other, and a drift, make the mean of a group vary more than the mean of independent runs,
and so cause false alarms. Ten runs of one figure are too few to estimate either. The figures of a suite share their
runs, so both are estimated over the whole suite, and used if the estimate exceeds what independent runs show: an
autocorrelation of neighbours, AR(1), by its exact expectation after the means are subtracted (Magnus, Annales
d'économie et de statistique 4, 1986), which has no bias (that of the usual estimate is as in Marriott and Pope 1954);
and slopes whose squares exceed those that noise causes (the method of moments for a random slope, as in DerSimonian and
Laird 1986).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import ceil, sqrt
from typing import Any

from . import comparison_scale
from .comparison_scale import Array

#: Elements of distance matrices held at a time.
_CHUNK = 2_000_000


@dataclass(frozen=True)
class ChangePoint:
    """``index``: the first run after the change, in the series as it was given. before, after: medians of the parts."""

    index: int
    p_value: float
    before: float
    after: float


def change_points(
    values: Iterable[float | None],
    *,
    level: float = 0.01,
    minimum_segment: int = 3,
    seed: int = 1,
    most: int = 20,
) -> list[ChangePoint]:
    """Return the change points of a series, in its order; empty when it is too short or constant.

    values: one a run, in the order of the runs; None, NaN and infinities are left out, and indices count them. level:
    of the permutation test of each split, for all splits together. minimum_segment: runs that a part has at least, 2 or
    more. most: change points at most. Raises ValueError for a level outside 0 to 1 or a minimum_segment below 2.
    """
    import numpy

    if not 0.0 < level < 1.0:
        raise ValueError(f"level {level} is not between 0 and 1")
    if minimum_segment < 2:
        raise ValueError(f"minimum_segment {minimum_segment} is below 2: a single outlier would be a change")
    array = comparison_scale.float_array(values)
    places = numpy.flatnonzero(comparison_scale.mask_of_finite_values(array))
    clean = array[places]
    x = comparison_scale.convert_to_scale(clean, comparison_scale.is_compared_on_log_scale(clean))
    if len(x) < 2 * minimum_segment or _is_constant_series(x):
        return []
    distances = numpy.abs(x[:, None] - x[None, :])
    generator = numpy.random.default_rng(seed)
    bounds, p_values = [0, len(x)], dict[int, float]()
    while len(p_values) < most:
        best = max((_best_split(distances[a:b, a:b][None], minimum_segment, a) for a, b in pairwise(bounds)))
        if best[1] < 0:
            break
        p = _p_value(distances, bounds, best[0], minimum_segment, level, generator)
        if p > level:
            break
        p_values[best[1]] = p
        bounds = sorted([*bounds, best[1]])
    return [
        ChangePoint(int(places[b]), p_values[b], float(numpy.median(clean[a:b])), float(numpy.median(clean[b:c])))
        for a, b, c in zip(bounds, bounds[1:], bounds[2:], strict=False)
    ]


def _is_constant_series(x: Array) -> bool:
    return float(x.max() - x.min()) <= comparison_scale.ROUNDING * float(abs(x).max())


def _best_split(distances: Array, least: int, offset: int) -> tuple[float, int]:
    """Return the largest statistic of a part and where it splits; (-1, -1) for a part that is too short to be split."""
    statistics = _energy_statistics_of_splits(distances, least)
    if statistics is None:
        return -1.0, -1
    place = int(statistics[0].argmax())
    return float(statistics[0, place]), offset + least + place


def _energy_statistics_of_splits(distances: Array, least: int) -> Array | None:
    """Return an array [permutation, split] of the scaled energy distances of all splits; None when there is none.

    distances: [permutation, run, run]. Split ``s`` puts ``least + s`` runs on the left.
    """
    import numpy

    n = distances.shape[-1]
    if n < 2 * least:
        return None
    within_left = numpy.cumsum(numpy.tril(distances).sum(axis=2), axis=1)  # of pairs among the first k + 1
    rows = numpy.cumsum(distances.sum(axis=2), axis=1)
    m = numpy.arange(least, n - least + 1)
    left = within_left[:, m - 1]
    between = rows[:, m - 1] - 2.0 * left
    right = within_left[:, -1:] - left - between
    k = n - m
    energy = 2.0 * between / (m * k) - left / (m * (m - 1) / 2.0) - right / (k * (k - 1) / 2.0)
    return energy * (m * k) / n


def _p_value(distances: Array, bounds: list[int], observed: float, least: int, level: float, generator: Array) -> float:
    """Return the share of permutations, within the parts found so far, whose best split is as good.

    Stops as soon as it is clear that the share is above ``level`` (Besag and Clifford, Biometrika 78, 1991).
    """
    import numpy

    wanted = max(999, ceil(4.0 / level) - 1)
    beyond, done = 1, 1  # the series itself is one of the permutations
    while done <= wanted:
        size = min(max(100, done), max(1, _CHUNK // len(distances) ** 2), wanted + 1 - done)
        best = numpy.full(size, -1.0)
        for a, b in pairwise(bounds):
            order = generator.permuted(numpy.tile(numpy.arange(a, b), (size, 1)), axis=1)
            statistics = _energy_statistics_of_splits(distances[order[:, :, None], order[:, None, :]], least)
            if statistics is not None:
                best = numpy.maximum(best, statistics.max(axis=1))
        beyond, done = beyond + int((best >= observed * (1.0 - 1e-12)).sum()), done + size
        if beyond > level * (wanted + 1):
            break
    return beyond / done


#: Values without which nothing is estimated, and standard errors by which an estimate has to exceed its expectation.
LEAST_VALUES, LEAST_ERRORS = 100, 2.5
#: Least number of runs of a group that is used, and the autocorrelations among which the estimate is chosen.
LEAST_RUNS, _GRID = 4, tuple(step / 50 for step in range(46))
#: Most runs of which neighbours are compared with one mean, and step of an integral over a logarithm.
_AT_ONCE, _LOG_STEP = 60, 0.2


@dataclass(frozen=True)
class TimeDependence:
    """phi: correlation of neighbouring runs. drift: standard deviation of slopes per run, in that between runs."""

    phi: float = 0.0
    drift: float = 0.0

    def variance_of_difference(self, n_old: int, n_new: int) -> float:
        """Return the variance of the difference of two means, new runs after old ones, in units of ``seen()``."""
        own = (
            _variance_factor_of_mean(n_old, self.phi)
            + _variance_factor_of_mean(n_new, self.phi)
            + (self.drift * (n_old + n_new) / 2) ** 2
        )
        return own / self.seen(n_old, n_new)

    def seen(self, *sizes: int) -> float:
        """Return what share of the variance of single runs the variance within groups of these sizes shows."""
        df = sum(max(0, n - 1) for n in sizes)
        if not self.phi or not df:
            return 1.0
        return sum(n - n * _variance_factor_of_mean(n, self.phi) for n in sizes) / df

    def freedom(self, *sizes: int) -> float:
        """Return the share of the degrees of freedom within groups of these sizes that is left (Satterthwaite 1946)."""
        df = sum(max(0, n - 1) for n in sizes)
        if not self.phi or not df:
            return 1.0
        trace, square = (sum(_traces_of_squares(n, self.phi)[row] for n in sizes) for row in (0, 1))
        return trace**2 / square / df

    def effective(self, df: float) -> float:
        """Return the degrees of freedom that are left of ``df``."""
        return df * (1.0 - self.phi) / (1.0 + self.phi)


INDEPENDENT = TimeDependence()


def estimate_suite_dependence(suite: Sequence[Sequence[Array]]) -> TimeDependence:
    """Return how the runs of a suite depend on their time.

    suite: of each figure its groups of runs, arrays [run] in the order of the runs on the scale of the comparison.
    Groups of fewer than 4 runs are left out; with fewer than 100 values in all, runs count as independent.
    """
    chosen = [[group for group in groups if len(group) >= LEAST_RUNS] for groups in suite]
    chosen = [groups for groups in chosen if groups and comparison_scale.pooled_variance_within_groups(groups).variance]
    if sum(len(group) for groups in chosen for group in groups) < LEAST_VALUES:
        return INDEPENDENT
    phi = _estimate_autocorrelation(chosen)
    return TimeDependence(phi, _estimate_drift(chosen, phi))


def _estimate_autocorrelation(suite: Sequence[Sequence[Array]]) -> float:
    import numpy

    observed = expected = variance = 0.0
    curves = numpy.zeros(len(_GRID))
    for whole in suite:
        groups = [part for group in whole for part in numpy.array_split(group, -(-len(group) // _AT_ONCE))]
        rests = [group - group.mean() for group in groups]
        squares = sum(float(rest @ rest) for rest in rests)
        if not squares:
            continue
        observed += sum(float(rest[1:] @ rest[:-1]) for rest in rests) / squares
        curves += _expected_ratios(tuple(len(group) for group in groups))
        df = sum(len(group) - 1 for group in groups)
        trace, square = (sum(_traces_of_neighbour_products(len(group))[row] for group in groups) for row in (0, 1))
        variance += 2.0 * (df * square - trace**2) / (df**2 * (df + 2))
    expected = curves[0]
    if observed - expected <= LEAST_ERRORS * sqrt(variance):
        return 0.0
    return float(_GRID[min(int(numpy.searchsorted(curves, observed)), len(_GRID) - 1)])


def _estimate_drift(suite: Sequence[Sequence[Array]], phi: float) -> float:
    """Return the standard deviation of slopes beyond what noise makes, in deviations between runs."""
    excess = []
    for groups in suite:
        times = [_centred_run_times(len(group)) for group in groups]
        total = sum(float(t @ t) for t in times)
        slope = sum(float(t @ group) for t, group in zip(times, groups, strict=True)) / total
        rest = sum(float(((_detrending_matrix(len(group)) @ group) ** 2).sum()) for group in groups)
        df = sum(len(group) - 2 for group in groups)
        seen = sum(_expected_squares_around_line(len(group), phi) for group in groups) / df
        of_slope = sum(float(t @ _autocorrelation_matrix(len(t), phi) @ t) for t in times) / total**2
        if rest and df > 4:
            # The mean of 1/χ² is larger than 1/mean: without (df - 2)/df every slope would look too large.
            # The variance is that of the F distribution with 1 and df degrees of freedom, over its squared mean.
            estimate = (slope**2 * seen * df / rest) * (df - 2) / df
            excess.append((estimate - of_slope, of_slope**2 * 2.0 * (df - 1) / (df - 4)))
    if not excess:
        return 0.0
    mean = sum(value for value, _variance in excess) / len(excess)
    error = sqrt(sum(variance for _one, variance in excess)) / len(excess)
    return sqrt(mean) if mean > LEAST_ERRORS * error else 0.0


def _variance_factor_of_mean(n: int, phi: float) -> float:
    """Return the variance of a mean of ``n`` runs, over that of one run."""
    if not n:
        return 0.0
    return (1.0 + 2.0 * sum((1.0 - k / n) * phi**k for k in range(1, n))) / n if phi else 1.0 / n


def _centred_run_times(n: int) -> Array:
    import numpy

    return numpy.arange(n) - (n - 1) / 2


@lru_cache(maxsize=256)
def _detrending_matrix(n: int) -> Any:
    """Return the matrix that takes mean and slope out of ``n`` runs."""
    import numpy

    t = _centred_run_times(n)
    return numpy.eye(n) - 1.0 / n - numpy.outer(t, t) / (t @ t)


def _autocorrelation_matrix(n: int, phi: float) -> Array:
    import numpy

    steps = numpy.abs(numpy.arange(n)[:, None] - numpy.arange(n)[None, :])
    return numpy.where(steps == 0, 1.0, float(phi) ** steps)


@lru_cache(maxsize=256)
def _traces_of_neighbour_products(n: int) -> tuple[float, float]:
    """Return trace, and trace of the square, of the form that sums the products of neighbours of independent runs.

    For a ratio of this form to the sum of squares the variance is exact: both depend on directions only.
    """
    import numpy

    rest = numpy.eye(n) - 1.0 / n
    form = rest @ (numpy.eye(n, k=1) + numpy.eye(n, k=-1)) @ rest / 2
    return float(numpy.trace(form)), float((form * form).sum())


@lru_cache(maxsize=256)
def _traces_of_squares(n: int, phi: float) -> tuple[float, float]:
    """Return trace, and trace of the square, of the form that sums the squares of ``n`` runs around their mean."""
    import numpy

    form = (numpy.eye(n) - 1.0 / n) @ _autocorrelation_matrix(n, phi)
    return float(numpy.trace(form)), float((form * form.T).sum())


@lru_cache(maxsize=256)
def _expected_squares_around_line(n: int, phi: float) -> float:
    """Return the expected sum of squares of ``n`` runs, after their mean and their slope are subtracted."""
    import numpy

    return float(numpy.trace(_detrending_matrix(n) @ _autocorrelation_matrix(n, phi)))


@lru_cache(maxsize=256)
def _expected_ratios(sizes: tuple[int, ...]) -> Array:
    """Return for each autocorrelation of the grid the expected ratio of products of neighbours to squares.

    sizes: of the groups of runs, around whose means both are summed. The ratio of the expectations is larger, and would
    make the estimate too small. The expectation of a ratio of quadratic forms of normal errors is an integral of one
    dimension (Magnus 1986), here over the logarithm of its variable.
    """
    import numpy

    logs = numpy.arange(-16.0, 20.0, _LOG_STEP)
    ratios = []
    for phi in _GRID:
        parts = [_principal_axes(n, phi) for n in sizes]
        squares, products = (numpy.concatenate([part[row] for part in parts]) for row in (0, 1))
        shrunk = 1.0 / (1.0 + 2.0 * numpy.exp(logs)[:, None] * squares)
        ratios.append(
            float((numpy.sqrt(shrunk.prod(axis=1)) * (shrunk @ products) * numpy.exp(logs)).sum() * _LOG_STEP)
        )
    return numpy.array(ratios)


@lru_cache(maxsize=1024)
def _principal_axes(n: int, phi: float) -> tuple[Array, Array]:
    """Return weights of squares of independent errors: in the sum of squares of ``n`` runs, and in that of products."""
    import numpy

    rest = numpy.eye(n) - 1.0 / n
    root = rest @ numpy.linalg.cholesky(_autocorrelation_matrix(n, phi))
    squares, axes = numpy.linalg.eigh(root.T @ root)
    turned = root @ axes
    return squares.clip(0.0), (turned[1:] * turned[:-1]).sum(axis=0)
