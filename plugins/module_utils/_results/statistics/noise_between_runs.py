# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the figures of a suite say together about the noise between runs, and the comparison of each by it.

Twenty runs of one figure show neither how long its tails are nor, five of them, whether they vary more than before.
Twenty figures do. Three things are learned from all (empirical Bayes): the shape of the errors, by the marginal
likelihood of all runs; the distribution of scales over the figures, by the moments of their logarithms (Smyth,
Statistical Applications in Genetics and Molecular Biology 3, 2004), by which a figure with few runs gains; and how much
more the new runs vary than the old ones. Each figure may deviate from the suite in the last: one that alone became
noisier is judged by its own noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import comb, exp, inf, isfinite, log, sqrt

from . import shift_posterior
from .comparison_scale import ROUNDING, Array
from .shift_posterior import STEP, ErrorShape, FigureRuns, ShiftPosterior

#: Shapes that are tried. A shape other than the normal has to be this much more likely, in units of log-likelihood.
_DFS, _SKEWS, _CLEARLY = (2.2, 3.0, 4.5, 8.0, inf), (1 / 1.7, 1 / 1.3, 1.0, 1.3, 1.7), 2.0
_OUTLIERS, _OUTLIER_SKEWS = (0.05, 0.12), (1 / 4, 1.0, 4.0)
#: Share of independent figures, below which runs as a whole are outliers: then several of a group may be.
_ALONE = 0.5
#: Residuals beyond which no more are used, runs of a group that are compared at once, and scales that are tried.
_MOST_RESIDUALS, _AT_ONCE, _SCALES = 1600, 40, (-2.6, 0.61, 0.2)
#: Residuals, and figures, without which nothing is learned from the suite; most degrees of freedom of the prior.
_LEAST_RESIDUALS, LEAST_FIGURES, _MOST_DF = 30, 5, 64.0
#: Ratios of scales in steps (logarithms), and how much figures deviate from the ratio of the suite.
_CENTRES, _SPREADS, _SPREAD_SHARES = tuple(range(21)), (0.05, 0.35, 0.8), (0.8, 0.15, 0.05)
#: Probability of "all vary as before"; of a figure that deviates from the suite, and by how much.
_EQUAL, _APART, _APART_SPREAD = 0.9, 0.02, 1.2
#: New runs without which a figure can't show that it deviates.
_LEAST_APART = 3
#: Share of values that are distinct, below which values are rounded; scale of rounding errors, in its steps.
_DISTINCT, _ROUNDED = 0.8, 0.3
#: Equal values without which a figure is not known to be constant.
LEAST_EQUAL = 6


@dataclass(frozen=True)
class Shift:
    """New minus old on the scale of the comparison, its interval, and the one-sided p-values of no rise, no fall."""

    difference: float
    low: float
    high: float
    p_greater: float
    p_less: float
    old_location: float
    new_location: float


def least_scale_of_rounded_figures(values: Array, size: float = 1.0) -> float:
    """Return the least scale of figures that are rounded, by the distance of those that differ; 0 for others.

    values: of the old runs, in the unit of the figure. size: of the figure, if scales are shares of it.
    """
    import numpy

    distinct = numpy.unique(values)
    if len(distinct) < 2 or len(distinct) >= _DISTINCT * len(values):
        return 0.0
    gaps = numpy.diff(distinct)
    gaps = gaps[gaps > ROUNDING * abs(values).max()]
    return _ROUNDED * float(gaps.min()) / size if len(gaps) else 0.0


def estimate_shifts_of_suite(
    figures: Sequence[FigureRuns], stretches: Sequence[float], level: float | None = 0.95, others: int = 0
) -> list[Shift]:
    """Return the shift of each figure.

    stretches: of each figure, the factor by which the variance of its shift exceeds that of independent runs. level: of
    the two-sided intervals; None for none, which takes a third of the time. others: figures at the end of the list that
    are compared too, and from which nothing is learned.
    """
    varying = [place for place, runs in enumerate(figures) if not _is_constant(runs)]
    learned = [figures[place] for place in varying if place < len(figures) - others]
    independent = independent_figures([runs.old for runs in learned])
    groups = [group for runs in learned for group in (runs.old, *runs.earlier)]
    shape = likeliest_error_shape(groups, independent / max(1, len(learned)))
    shifts: dict[int, Shift] = {}
    for errors in dict.fromkeys((replace(shape, skew=1.0), shape)):
        posteriors = {place: ShiftPosterior(figures[place], errors) for place in varying}
        of_suite = [posteriors[place] for place in varying if place < len(figures) - others]
        scale = _prior_of_scales(learned, errors, independent)
        ratio = _prior_of_ratios(of_suite, [len(runs.new) for runs in learned], independent)
        for place, posterior in posteriors.items():
            runs = figures[place]
            moderated = scale if runs.logarithmic and max(runs.floor, 1e-12) < posterior.scale else _invariant
            weighed = posterior.weighed_likelihood(posterior.weights(_ratio_of_figure(ratio, len(runs.new)), moderated))
            shift = _figure_shift(posterior, weighed, stretches[place], level)
            shifts[place] = _more_cautious(shifts[place], shift) if place in shifts else shift
    compared = [shifts[place] if place in shifts else _constant_shift(runs) for place, runs in enumerate(figures)]
    return [_beside_outliers(shift, runs) for shift, runs in zip(compared, figures, strict=True)]


def _beside_outliers(shift: Shift, runs: FigureRuns) -> Shift:
    """Return the shift of one new run with at least the p-value of its rank, if an old run was as extreme.

    The shape of the errors makes such an old run rare. That it was there says how often one is seen: without a change,
    the new run is among the k + 1 highest of n + 1 with probability (k + 1) / (n + 1).
    """
    if len(runs.new) != 1:
        return shift
    new = float(runs.new[0])
    tolerance = ROUNDING * max(abs(new), float(abs(runs.old).max()))
    higher, lower = (int((sign * (runs.old - new) >= -tolerance).sum()) for sign in (1.0, -1.0))
    of_higher, of_lower = ((count + 1) / (len(runs.old) + 1) if count else 0.0 for count in (higher, lower))
    return replace(shift, p_greater=max(shift.p_greater, of_higher), p_less=max(shift.p_less, of_lower))


def _is_constant(runs: FigureRuns) -> bool:
    """Return whether the old runs show no noise, and none is known."""
    groups = (runs.old, *runs.earlier)
    size = max(float(abs(group).max()) for group in groups)
    return not runs.floor and all(float(group.max() - group.min()) <= ROUNDING * size for group in groups)


def _constant_shift(runs: FigureRuns) -> Shift:
    """Return the shift of a figure that was the same in all old runs, by Fisher's exact test of how many differ."""
    old, new = float(runs.old[0]), float(runs.new.mean())
    tolerance = ROUNDING * max(abs(old), abs(new))
    higher, lower = (int((sign * (runs.new - old) > tolerance).sum()) for sign in (1.0, -1.0))
    n, m = len(runs.old), len(runs.new)
    greater, less = (
        comb(m, differing) / comb(n + m, differing) if differing and not opposite else 1.0
        for differing, opposite in ((higher, lower), (lower, higher))
    )
    difference = 0.0 if not higher and not lower else new - old
    known = n + m >= LEAST_EQUAL or not old
    low, high = (difference, difference) if known or difference else (-inf, inf)
    return Shift(difference, low, high, greater, less, old, old + difference)


def _figure_shift(posterior: ShiftPosterior, weighed: Array, stretch: float, level: float | None) -> Shift:
    wider, shift = sqrt(max(1.0, stretch)), posterior.shift
    no_rise, no_fall = posterior.tails(shift * (1.0 - 1.0 / wider), weighed)
    low, high = -inf, inf
    if level is not None:
        ends = (posterior.quantile(share, weighed) for share in ((1.0 - level) / 2, (1.0 + level) / 2))
        low, high = (shift + wider * (end - shift) for end in ends)
    return Shift(
        shift, min(low, shift), max(high, shift), no_rise, no_fall, posterior.old_location, posterior.new_location
    )


def _more_cautious(shift: Shift, other: Shift) -> Shift:
    """Return the first shift with the larger p-values and the union of the intervals."""
    return replace(
        shift,
        low=min(shift.low, other.low),
        high=max(shift.high, other.high),
        p_greater=max(shift.p_greater, other.p_greater),
        p_less=max(shift.p_less, other.p_less),
    )


def likeliest_error_shape(groups: Sequence[Array], share: float = 1.0) -> ErrorShape:
    """Return the likeliest shape of the errors of groups of runs, arrays [run], whose locations and scales are unknown.

    share: of the groups, that would tell as much if they were independent.
    """
    import numpy

    parts = [
        (part - numpy.median(part)) / part.std(ddof=1)
        for group in groups
        for part in numpy.array_split(group, -(-len(group) // _AT_ONCE))
        if len(part) > 3 and part.std() > 0
    ]
    if share * sum(map(len, parts)) < _LEAST_RESIDUALS:
        return ErrorShape()
    parts = parts[:: -(-sum(map(len, parts)) // _MOST_RESIDUALS)]
    best, likely = ErrorShape(), -inf
    for candidate in _shapes(share > _ALONE):
        unlikely = _CLEARLY * (isfinite(candidate.df) + (candidate.skew != 1.0) + 2 * bool(candidate.outliers))
        fit = share * sum(_marginal_likelihood(part, candidate) for part in parts) - unlikely
        if fit > likely:
            best, likely = candidate, fit
    return best


def _shapes(outliers: bool) -> list[ErrorShape]:
    usual = [ErrorShape(df, skew) for df in _DFS for skew in _SKEWS]
    return usual + [ErrorShape(inf, skew, far) for far in _OUTLIERS for skew in _OUTLIER_SKEWS if outliers]


def _marginal_likelihood(part: Array, shape: ErrorShape) -> float:
    """Return the logarithm of the likelihood of runs around 0, integrated over location and scale."""
    import numpy

    logs, rounded = numpy.arange(*_SCALES), least_scale_of_rounded_figures(part)
    logs = logs[logs > log(rounded)] if 0 < rounded < 1 else logs
    scales, n = numpy.exp(logs)[:, None, None], len(part)
    reach = 1.2 + 4.0 / sqrt(n)
    places = numpy.arange(-reach, reach, 1.0 / sqrt(n))  # in scales
    fits = shape.log_density(part / scales - places[:, None]).sum(axis=2) - (n - 1) * logs[:, None]
    return float(fits.max() + numpy.log(numpy.exp(fits - fits.max()).sum()))


def independent_figures(groups: Sequence[Array]) -> float:
    """Return how many independent figures tell as much of the noise as these, which share their runs.

    A noise that all share, such as that of two machines, is seen once, however many figures show it. groups: the old
    runs of each figure; those of another number of runs than most are left out. The squared correlation of independent
    figures is 1 / (n - 1) in the mean.
    """
    import numpy

    lengths = [len(group) for group in groups]
    usual = max(set(lengths), key=lengths.count) if lengths else 0
    same = [group for group in groups if len(group) == usual and group.std() > 0]
    if len(same) < 2 or usual < 3:
        return float(len(groups))
    squares = numpy.corrcoef(same) ** 2
    pairs = len(same) * (len(same) - 1)
    shared = max(0.0, (float(squares.sum()) - len(same)) / pairs - 1.0 / (usual - 1))
    return len(groups) / (1.0 + (len(groups) - 1) * shared)


def _invariant(scales: Array) -> Array:
    import numpy

    return numpy.ones_like(scales)


def _prior_of_scales(figures: Sequence[FigureRuns], shape: ErrorShape, independent: float) -> Callable[[Array], Array]:
    """Return the distribution of the scales of old runs over the figures that vary by a share of their size.

    independent: the number of figures, if they share their noise that of so many independent ones.
    """
    known = []
    for runs in figures:
        df = (len(runs.old) - 1) * runs.freedom[0] * (shape.df / (shape.df + 3) if isfinite(shape.df) else 1.0)
        scale = shift_posterior.location_and_scale(runs.old, shape)[1]
        if runs.logarithmic and df >= 1 and scale > runs.floor:
            known.append((2 * log(scale) - _digamma(df / 2) + log(df / 2), _trigamma(df / 2)))
    if len(known) < LEAST_FIGURES:
        return _invariant
    mean = sum(value for value, _own in known) / len(known)
    excess = sum((value - mean) ** 2 for value, _own in known) / (len(known) - 1)
    excess -= sum(own for _value, own in known) / len(known)
    df = min(_MOST_DF, 2 * _inverse_trigamma(excess)) if excess > 0 else _MOST_DF
    df = min(df, (independent - 1) * max(len(runs.old) - 1 for runs in figures))
    if df < 1:
        return _invariant
    return shift_posterior.inverse_gamma_prior(df, exp((mean + _digamma(df / 2) - log(df / 2)) / 2))


def _prior_of_ratios(
    posteriors: Sequence[ShiftPosterior], new: Sequence[int], independent: float
) -> Callable[[Array], Array]:
    """Return the distribution of the ratio of new to old scales over the figures, as a function of steps.

    A few new runs that happen to be alike, such as those of one machine of two, are no sign of less noise: the ratio is
    never taken to be below 1. new: the number of new runs of each. independent: see _prior_of_scales().
    """
    import numpy

    centres, spreads = (part.ravel() for part in numpy.meshgrid(_CENTRES, _SPREADS, indexing="ij"))
    prior = (1.0 - _EQUAL) / len(_CENTRES) * numpy.tile(_SPREAD_SHARES, len(_CENTRES))
    prior[(centres == 0) & (spreads == min(_SPREADS))] = _EQUAL
    steps = numpy.arange(-300, 301)
    curves = _bell(steps[None, :] - centres[:, None], spreads[:, None]) * (steps >= 0)
    weights = numpy.log(prior)
    for posterior, m in zip(posteriors, new, strict=True):
        if m < 2:
            continue
        rows, columns = posterior.likelihood.shape
        places = numpy.arange(columns)[None, :] - numpy.arange(rows)[:, None] + 300
        likelihood = numpy.bincount(places.ravel(), posterior.likelihood.ravel(), minlength=len(steps))
        share = independent / len(posteriors)
        weights = weights + share * numpy.log(curves @ likelihood / likelihood.sum() + 1e-300)
    weights = numpy.exp(weights - weights.max())
    mixed = (weights / weights.sum()) @ curves
    return lambda ratio: mixed[ratio + 300]


def _ratio_of_figure(of_suite: Callable[[Array], Array], new: int) -> Callable[[Array], Array]:
    """Return the prior of the ratio of one figure. One new run shows nothing of it: it counts as equal."""
    if new == 1:
        return lambda steps: (steps == 0) * 1.0
    if new < _LEAST_APART:
        return of_suite
    return lambda steps: (1.0 - _APART) * of_suite(steps) + _APART * _bell(steps, _APART_SPREAD) * (steps >= 0)


def _bell(steps: Array, spread: Array) -> Array:
    """Return the weights of a normal distribution of logarithms of ratios, at whole steps."""
    import numpy

    square = spread * spread + (STEP / 2) ** 2
    return numpy.exp(-0.5 * (steps * STEP) ** 2 / square) * STEP / numpy.sqrt(2.0 * numpy.pi * square)


def _digamma(x: float) -> float:
    """Return the derivative of lgamma (asymptotic series, Abramowitz and Stegun 6.3.18)."""
    below = 0.0
    while x < 6:
        below, x = below - 1 / x, x + 1
    square = 1 / (x * x)
    return below + log(x) - 0.5 / x - square * (1 / 12 - square * (1 / 120 - square / 252))


def _trigamma(x: float) -> float:
    """Return the second derivative of lgamma (Abramowitz and Stegun 6.4.12)."""
    above = 0.0
    while x < 6:
        above, x = above + 1 / (x * x), x + 1
    square = 1 / (x * x)
    return above + 1 / x + square / 2 + square / x * (1 / 6 - square * (1 / 30 - square / 42))


def _inverse_trigamma(value: float) -> float:
    low, high = 1e-3, 1e6
    for _halving in range(80):
        middle = sqrt(low * high)
        low, high = (middle, high) if _trigamma(middle) > value else (low, middle)
    return low
