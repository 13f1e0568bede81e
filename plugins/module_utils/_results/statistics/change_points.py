# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change points of a series by E-divisive (Matteson and James, JASA 109, 2014).

The series is split where the energy distance between its parts is largest, and again inside the parts, as long as a
permutation test finds the split significant. Permutations stay within the parts found so far, as in the paper; their
generator is seeded, so the same series gives the same answer. Unlike the program Hunter (Fleming et al., ICPE 2023) the
split is tested by permutation and not by Student's t on the best of all splits, which finds ten times the stated false
alarms; and a part has a least number of runs, without which a single outlier is a change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

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
