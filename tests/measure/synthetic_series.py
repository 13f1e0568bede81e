"""Series of figures over runs with known properties, on which the error rates of the methods are measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    import numpy

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
    import numpy

    generator = numpy.random.default_rng([seed, runs, sorted(SHAPES).index(shape), round(shift * 1000)])
    found = SHAPES[shape](generator, count * kpis, 2 * runs).reshape(count, kpis, 2 * runs)
    found[:, 0, runs:] *= 1.0 + shift
    return found
