"""Series of figures over runs with known properties, on which the error rates of the methods are measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

Array = Any  # of numpy

#: Run-to-run variation: standard deviation as a share of the figure.
VARIATION = 0.05
#: Autocorrelation of neighbouring runs, and drift from the first to the last run as a share of the figure.
PHI, DRIFT = 0.5, 0.05


def normal(generator: Array, series: int, runs: int) -> Array:
    """Return independent, normally distributed runs: an array [series, run] with mean 100, as the others do."""
    return 100.0 * (1.0 + VARIATION * generator.standard_normal((series, runs)))


def skewed(generator: Array, series: int, runs: int) -> Array:
    """Return exponentially distributed runs: skewness 2, as when a run is sometimes slow and never fast."""
    return 100.0 * (1.0 + VARIATION * (generator.standard_exponential((series, runs)) - 1.0))


def outliers(generator: Array, series: int, runs: int) -> Array:
    """Return normal runs of which one in twenty has five times the deviation."""
    wide = generator.random((series, runs)) < 0.05
    return 100.0 * (1.0 + VARIATION * generator.standard_normal((series, runs)) * (1.0 + 4.0 * wide))


def autocorrelated(generator: Array, series: int, runs: int) -> Array:
    """Return runs each of which resembles the one before: AR(1), stationary."""
    draw = generator.standard_normal((series, runs))
    for run in range(1, runs):
        draw[:, run] = PHI * draw[:, run - 1] + (1.0 - PHI * PHI) ** 0.5 * draw[:, run]
    return 100.0 * (1.0 + VARIATION * draw)


def drifting(generator: Array, series: int, runs: int) -> Array:
    """Return normal runs on a straight line that rises by DRIFT from the first to the last run."""
    return normal(generator, series, runs) * (1.0 + DRIFT * (numpy.linspace(0.0, 1.0, runs) - 0.5))


SHAPES: dict[str, Callable[[Array, int, int], Array]] = {
    "normal": normal,
    "skewed": skewed,
    "with outliers": outliers,
    "autocorrelated": autocorrelated,
    "drifting": drifting,
}


def suites(shape: str, seed: int, count: int, kpis: int, runs: int, shift: float = 0.0) -> Array:
    """Return an array [suite, KPI, run] of ``runs`` old and as many new runs.

    shift: the first KPI of each suite is higher by this share in the new runs.
    The same seed gives the same series, whichever method reads them.
    """
    generator = numpy.random.default_rng([seed, runs, sorted(SHAPES).index(shape), round(shift * 1000)])
    found = SHAPES[shape](generator, count * kpis, 2 * runs).reshape(count, kpis, 2 * runs)
    found[:, 0, runs:] *= 1.0 + shift
    return found


def _noise(generator: Array, shape: tuple[int, int], deviation: Any) -> Array:
    return 100.0 * (1.0 + deviation * generator.standard_normal(shape))


def _correlated(generator: Array, shape: tuple[int, int], phi: float) -> Array:
    """Return runs each of which resembles the one before: AR(1), stationary, with deviation 1."""
    draw = generator.standard_normal(shape)
    for run in range(1, shape[1]):
        draw[:, run] = phi * draw[:, run - 1] + (1.0 - phi * phi) ** 0.5 * draw[:, run]
    return draw


#: Name -> a suite without a change: generator, shape [KPI, run], number of old runs.
HISTORIES: dict[str, Callable[[Array, tuple[int, int], int], Array]] = {
    "normal, 5 %": lambda generator, shape, old: 100.0 * (1.0 + 0.05 * generator.standard_normal(shape)),
    "lognormal, 30 %": lambda generator, shape, old: 100.0 * numpy.exp(0.3 * generator.standard_normal(shape)),
    "long tails (log-t, 2.2)": lambda generator, shape, old: 100.0 * numpy.exp(0.03 * generator.standard_t(2.2, shape)),
    "one run in ten is 50 % slower": lambda generator, shape, old: (
        _noise(generator, shape, 0.05) * numpy.where(generator.random(shape) < 0.1, 1.5, 1.0)
    ),
    "AR(1) 0.6": lambda generator, shape, old: 100.0 * (1.0 + 0.05 * _correlated(generator, shape, 0.6)),
    "AR(1) 0.6, shared by KPIs": lambda generator, shape, old: (
        _noise(generator, shape, 0.05 * 0.3**0.5) * (1.0 + 0.05 * 0.7**0.5 * _correlated(generator, (1, shape[1]), 0.6))
    ),
    "drift 0.5 % a run": lambda generator, shape, old: (
        _noise(generator, shape, 0.05) * (1.0 + 0.005 * numpy.arange(shape[1]))
    ),
    "two machines, 10 % apart, by run": lambda generator, shape, old: (
        _noise(generator, shape, 0.03) * (1.0 + 0.1 * (generator.random((1, shape[1])) < 0.5))
    ),
    "two machines, 10 % apart, by KPI": lambda generator, shape, old: (
        _noise(generator, shape, 0.02) * (1.0 + 0.1 * (generator.random(shape) < 0.5))
    ),
    "slow machine in 15 % of runs": lambda generator, shape, old: (
        _noise(generator, shape, 0.03) * (1.0 + 0.15 * (generator.random((1, shape[1])) < 0.15))
    ),
    "3 s, rounded to 1 s": lambda generator, shape, old: numpy.round(0.03 * _noise(generator, shape, 0.05)),
    "12 s, rounded to 1 s": lambda generator, shape, old: numpy.round(0.12 * _noise(generator, shape, 0.05)),
    "constant": lambda generator, shape, old: numpy.full(shape, 100.0),
    "zeros, one in 20 is 1": lambda generator, shape, old: (generator.random(shape) < 0.05) * 1.0,
    "noise 2 %, then 10 %": lambda generator, shape, old: _noise(
        generator, shape, numpy.where(numpy.arange(shape[1]) < old, 0.02, 0.10)
    ),
    "noise 10 %, then 2 %": lambda generator, shape, old: _noise(
        generator, shape, numpy.where(numpy.arange(shape[1]) < old, 0.10, 0.02)
    ),
    "period of 4 runs, 6 %": lambda generator, shape, old: (
        _noise(generator, shape, 0.02) * (1.0 + 0.06 * numpy.sin(numpy.pi * numpy.arange(shape[1]) / 2 + 0.3))
    ),
    "weekends 8 % slower": lambda generator, shape, old: (
        _noise(generator, shape, 0.03) * (1.0 + 0.08 * (numpy.arange(shape[1]) % 7 >= 5))
    ),
    "AR(1) 0.3": lambda generator, shape, old: 100.0 * (1.0 + 0.05 * _correlated(generator, shape, 0.3)),
    "skewed (exponential)": lambda generator, shape, old: 100.0 + 5.0 * generator.standard_exponential(shape),
    "noise 3 %, then 6 %": lambda generator, shape, old: _noise(
        generator, shape, numpy.where(numpy.arange(shape[1]) < old, 0.03, 0.06)
    ),
    "noise 2 %, then 10 % in one KPI of 20": lambda generator, shape, old: _noise(
        generator,
        shape,
        numpy.where((numpy.arange(shape[1]) < old) | (numpy.arange(shape[0])[:, None] < shape[0] - 1), 0.02, 0.10),
    ),
}


def history_series(name: str, generator: Array, kpis: int, old: int, new: int) -> Array:
    """Return a suite without a change, an array [KPI, run]. name: one of HISTORIES."""
    return HISTORIES[name](generator, (kpis, old + new), old)
