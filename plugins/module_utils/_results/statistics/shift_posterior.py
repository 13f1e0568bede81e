# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shift between old and new runs of one figure: its posterior distribution, by integration over a grid.

Runs are location + scale × error, with errors of Student's t distribution (Lange, Little and Taylor, JASA 84, 1989),
which an outlier moves little; normal ones if the tails of the history are, and normal ones with a share of outliers far
away (Tukey 1960) if it shows these. With the priors that are invariant under
changes of location and scale (right Haar), the posterior probability of "no rise" is an exact p-value if old and new
runs have the same scale (Berger, Bernardo and Sun, Bayesian Analysis 10, 2015): for normal errors it is that of
Student's t-test, for one new run that of its prediction interval. If the scales may differ, it is that of Behrens and
Fisher, of which Welch's test is the approximation. A prior of scales, which suite_noise learns from all figures of a
suite, sharpens it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, lgamma, log, pi, sqrt

from .comparison_scale import Array

#: Spacing of the grid of scales, in logarithms.
STEP = 0.12
#: The new runs may vary by a factor of up to exp(2.8) more than the old ones.
_LARGEST_RATIO = 2.8
#: Steps and reach of the location grids, in the argument of sinh: fine in the centre, coarse in the tails.
_OLD_STEP, _NEW_STEP, _FAR, _NEAR = 0.2, 0.1, 9.0, 6.2
_ITERATIONS = 30
#: Runs whose densities are multiplied before the logarithm is taken: their product is below 1e300.
_AT_ONCE = 10
_NORMAL_WIDTH = 1.4826
#: Scale of outliers, in that of the other errors, and their degrees of freedom, with which none is impossible.
_OUTLIER_WIDTH, _OUTLIER_DF = 6.0, 2.0
#: Smallest scale, as a share of the largest value.
_RESOLUTION = 1e-9


@dataclass(frozen=True)
class ErrorShape:
    """Distribution of errors: Student's t with ``df``, its upper side ``skew`` times, its lower 1/skew times as wide.

    The two halves are joined as by Fernández and Steel (JASA 93, 1998). outliers: share of errors that lie far away,
    beside normal ones; of these outliers, skew² are above for each one below.
    """

    df: float = inf
    skew: float = 1.0
    outliers: float = 0.0

    def log_density(self, z: Array) -> Array:
        """Return the logarithm of the density at ``z``."""
        import numpy

        if self.outliers:
            return numpy.log(sum(self.parts(z)))
        if self.skew != 1.0:
            z = numpy.where(z > 0, z / self.skew, z * self.skew)
        constant = log(2.0 / (self.skew + 1.0 / self.skew))
        if not isfinite(self.df):
            return constant - 0.5 * log(2.0 * pi) - 0.5 * z * z
        constant += lgamma((self.df + 1) / 2) - lgamma(self.df / 2) - 0.5 * log(self.df * pi)
        return constant - (self.df + 1) / 2 * numpy.log1p(z * z / self.df)

    def parts(self, z: Array) -> tuple[Array, Array]:
        """Return the density at ``z`` of usual errors, and that of outliers."""
        import numpy

        usual = (1.0 - self.outliers) / sqrt(2.0 * pi) * numpy.exp(-0.5 * z * z)
        spread = 1.0 + (z / _OUTLIER_WIDTH) ** 2 / _OUTLIER_DF
        far = self.outliers / (_OUTLIER_WIDTH * sqrt(8.0)) * spread ** (-(_OUTLIER_DF + 1) / 2)
        above = 2.0 * self.skew**2 / (1.0 + self.skew**2)
        return usual, far if self.skew == 1.0 else far * numpy.where(z > 0, above, 2.0 - above)

    def weights(self, square: Array) -> Array:
        """Return how much errors count for location and scale. square: of each error, in squared scales."""
        if not self.outliers:
            return (self.df + 1) / (self.df + square)
        usual, far = ErrorShape(outliers=self.outliers).parts(square**0.5)
        among = _OUTLIER_WIDTH**2 * _OUTLIER_DF + square
        return (usual + far * (_OUTLIER_DF + 1) / among) / (usual + far)


NORMAL_ERRORS = ErrorShape()


@dataclass(frozen=True)
class FigureRuns:
    """Runs of one figure on the scale of the comparison: arrays [run]; ``old`` has at least two, ``new`` one.

    earlier: groups of still older runs, which only show how much runs differ. floor: the least scale, because runs are
    measured no finer. logarithmic: whether scales are shares, which those of other figures can be compared with.
    freedom: shares of the degrees of freedom of old and of new runs that are left if neighbours resemble each other.
    """

    old: Array
    new: Array
    earlier: tuple[Array, ...] = ()
    floor: float = 0.0
    logarithmic: bool = True
    freedom: tuple[float, float] = (1.0, 1.0)


def location_and_scale(values: Array, shape: ErrorShape) -> tuple[float, float]:
    """Return location and scale by the EM algorithm, whatever the skewness; scale 0 for one run."""
    import numpy

    if len(values) == 1:
        return float(values[0]), 0.0
    if not isfinite(shape.df) and not shape.outliers:
        return float(values.mean()), float(values.std(ddof=1))
    centre = float(numpy.median(values))
    widest = float(((values - centre) ** 2).mean())
    square = max((_NORMAL_WIDTH * float(numpy.median(abs(values - centre)))) ** 2, widest * 1e-3)
    for _iteration in range(_ITERATIONS if square else 0):
        weights = shape.weights((values - centre) ** 2 / square)
        centre = float((weights * values).sum() / weights.sum())
        square = max(float((weights * (values - centre) ** 2).sum()) / (len(values) - 1), widest * 1e-6)
    return centre, sqrt(square)


class ShiftPosterior:
    """The likelihood of location and scale of old and of new runs, on grids, and what follows for their shift.

    old_scales, new_scales: the grids, STEP apart in logarithms, both from the same scale on.
    shift: the estimate. likelihood: [old scale, new scale] integrated over both locations.
    """

    def __init__(self, runs: FigureRuns, shape: ErrorShape) -> None:
        import numpy

        n, m = len(runs.old), len(runs.new)
        centre, scale = location_and_scale(runs.old, shape)
        others = [location_and_scale(group, shape)[1] for group in runs.earlier]
        scale = max(scale, runs.floor) or max([*others, runs.floor])
        # Places of a grid must differ as floating-point numbers.
        scale = max(scale, _RESOLUTION * float(max(abs(runs.old).max(), abs(runs.new).max())))
        self.old_location, self.scale = centre, scale
        self.new_location, spread = location_and_scale(runs.new, shape)
        if m == 2:
            self.new_location = float(runs.new.mean())
        self.shift = self.new_location - centre
        freedom = runs.freedom[0] * (n - 1 + sum(len(group) - 1 for group in runs.earlier))
        reach = 1.5 + 6.0 / freedom if freedom > 1 else 6.0
        least = log(max(runs.floor, 1e-12 * scale) / scale) / STEP
        steps = numpy.arange(-int(reach / STEP), int((reach + _LARGEST_RATIO) / STEP) + 1)
        steps = steps[steps >= min(0.0, least) - 1e-9]
        self.new_scales = scale * numpy.exp(STEP * steps)
        self.old_scales = self.new_scales[steps <= int(reach / STEP)]
        self._places, widths = _sinh_grid(centre, 1.2 * scale / sqrt(n), _NEAR if n > 5 else _FAR, _OLD_STEP)
        old = _log_likelihood(runs.old, self._places, self.old_scales, shape) + numpy.log(widths)
        for group in runs.earlier:
            own = location_and_scale(group, shape)[0]
            places, around = _sinh_grid(own, 1.2 * scale / sqrt(len(group)), _NEAR, _OLD_STEP)
            of_group = _log_likelihood(group, places, self.old_scales, shape) + numpy.log(around)
            highest = of_group.max(axis=1, keepdims=True)
            old = old + highest + numpy.log(numpy.exp(of_group - highest).sum(axis=1, keepdims=True))
        self._new_places, widths = _sinh_grid(self.new_location, max(spread, 0.3 * scale) / sqrt(m), _FAR, _NEW_STEP)
        new = _log_likelihood(runs.new, self._new_places, self.new_scales, shape) + numpy.log(widths)
        old, new = (_less_known_scales(part, share) for part, share in zip((old, new), runs.freedom, strict=True))
        self._old, new = numpy.exp(old - old.max()), numpy.exp(new - new.max())
        self._below = numpy.cumsum(new, axis=1) - 0.5 * new
        self._new = new.sum(axis=1)
        self.likelihood = self._old.sum(axis=1)[:, None] * self._new[None, :]

    def weighed_likelihood(self, prior: Array) -> Array:
        """Return the likelihood [new scale, old location] under a prior [old scale, new scale]."""
        import numpy

        # Not a matrix product: its threads would wait for each other on a busy machine.
        return numpy.einsum("on,op->np", prior, self._old)

    def tails(self, shift: float, weighed: Array) -> tuple[float, float]:
        """Return the probabilities that the true shift is at most ``shift``, and that it is larger.

        weighed: from weighed_likelihood().
        """
        import numpy

        places = self._places + shift
        left = numpy.clip(numpy.searchsorted(self._new_places, places) - 1, 0, len(self._new_places) - 2)
        share = (places - self._new_places[left]) / (self._new_places[left + 1] - self._new_places[left])
        share = share.clip(0.0, 1.0)
        below = self._below[:, left] * (1.0 - share) + self._below[:, left + 1] * share
        low = max(0.0, float((weighed * below).sum()))
        high = max(0.0, float((weighed * (self._new[:, None] - below)).sum()))  # below zero only by rounding
        return low / (low + high), high / (low + high)

    def quantile(self, probability: float, weighed: Array) -> float:
        """Return the shift that the true one is at most with ``probability``."""
        step = self.scale
        low = high = self.shift
        while self.tails(low, weighed)[0] > probability and step < 1e6 * self.scale:
            low, step = low - step, step * 2
        step = self.scale
        while self.tails(high, weighed)[0] < probability and step < 1e6 * self.scale:
            high, step = high + step, step * 2
        for _halving in range(14):
            middle = (low + high) / 2
            low, high = (middle, high) if self.tails(middle, weighed)[0] < probability else (low, middle)
        return (low + high) / 2

    def weights(self, ratio: Callable[[Array], Array], scale: Callable[[Array], Array]) -> Array:
        """Return a prior [old scale, new scale] from functions of the ratio in steps, and of the old scale."""
        import numpy

        steps = numpy.arange(len(self.new_scales))[None, :] - numpy.arange(len(self.old_scales))[:, None]
        return ratio(steps) * scale(self.old_scales)[:, None]


def _sinh_grid(centre: float, width: float, reach: float, step: float) -> tuple[Array, Array]:
    import numpy

    argument = numpy.arange(-reach, reach + step / 2, step)
    return centre + width * numpy.sinh(argument), width * numpy.cosh(argument) * step


def _log_likelihood(values: Array, places: Array, scales: Array, shape: ErrorShape) -> Array:
    """Return the logarithm of the likelihood [scale, location] of runs, but for a constant."""
    import numpy

    n, total = len(values), -len(values) * numpy.log(scales)[:, None]
    if shape == NORMAL_ERRORS:
        squares = n * (values.mean() - places) ** 2 + ((values - values.mean()) ** 2).sum()
        return total - squares[None, :] / (2.0 * scales[:, None] ** 2)
    if not isfinite(shape.df) and not shape.outliers:
        return total + sum(shape.log_density((value - places) / scales[:, None]) for value in values)
    total = total + numpy.zeros((1, len(places)))
    for begin in range(0, n, _AT_ONCE):  # one logarithm of a product instead of many
        product = numpy.ones_like(total)
        for value in values[begin : begin + _AT_ONCE]:
            z = value - places
            if shape.outliers:
                product *= sum(shape.parts(z[None, :] / scales[:, None]))
                continue
            if shape.skew != 1.0:
                z = numpy.where(z > 0, z / shape.skew, z * shape.skew)
            product *= 1.0 + (z * z / shape.df)[None, :] / (scales * scales)[:, None]
        total += numpy.log(product) * (1.0 if shape.outliers else -(shape.df + 1) / 2)
    return total


def _less_known_scales(logs: Array, share: float) -> Array:
    """Return the logarithm of a likelihood [scale, location] in which scales have a share of their degrees of freedom.

    Their marginal likelihood is raised to this power; that of normal errors keeps its form (Satterthwaite 1946).
    """
    import numpy

    highest = logs.max(axis=1, keepdims=True)
    marginal = highest + numpy.log(numpy.exp(logs - highest).sum(axis=1, keepdims=True))
    return logs - (1.0 - share) * marginal


def inverse_gamma_prior(df: float, scale: float) -> Callable[[Array], Array]:
    """Return the prior of scales with ``df`` degrees of freedom around ``scale``, but for a constant."""
    import numpy

    def weights(scales: Array) -> Array:
        logs = -df * numpy.log(scales / scale) - df / 2 * (scale / scales) ** 2
        return numpy.exp(logs - logs.max())  # scales far away from the prior's would all have a weight of 0

    return weights
