# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random numbers that depend only on the seed, on every machine, and distributions of them.

Uniform numbers come from numpy's Generator over the bit generator PCG64, whose stream depends only on
its seed. Other distributions are computed here, because those of numpy may change with its version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import log, log1p, sqrt
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._signal_blocking_threads import signals_blocked

GENERATOR = "PCG64"


class SeededRandom:
    """Uniform numbers in (0, 1), one per call."""

    def __init__(self, seed: int) -> None:
        with signals_blocked():  # numpy starts threads; signals must reach the main thread
            import numpy

        if seed < 0:
            raise InputError(f"seed {seed} is below 0")
        self._generator = numpy.random.Generator(numpy.random.PCG64(seed))
        self._buffer: Iterator[float] = iter(())

    def __call__(self) -> float:
        """Return the next number."""
        value = next(self._buffer, None)
        if value is None:
            self._buffer = iter(self._generator.random(1024).tolist())
            value = next(self._buffer)
        return value or 2.0**-54


def exponential(draw: Callable[[], float]) -> float:
    """Return an exponential variate of mean 1, by inversion."""
    return -log1p(-draw())


def gamma(draw: Callable[[], float], shape: float) -> float:
    """Return a gamma variate of mean ``shape`` (Marsaglia and Tsang, 2000; below 1 by their power of a uniform)."""
    if shape < 1:
        return gamma(draw, shape + 1) * draw() ** (1 / shape)
    d = shape - 1 / 3
    c = 1 / sqrt(9 * d)
    while True:
        x = _standard().inv_cdf(draw())
        v = (1 + c * x) ** 3
        if v > 0 and log(draw()) < 0.5 * x * x + d - d * v + d * log(v):
            return d * v


def truncated_normal(draw: Callable[[], float], middle: float, spread: float) -> float:
    """Return a normal variate truncated to [0, 1], by inversion."""
    normal = _standard()
    low, high = normal.cdf(-middle / spread), normal.cdf((1 - middle) / spread)
    within = min(max(low + draw() * (high - low), 2.0**-54), 1 - 2.0**-53)
    return min(max(middle + spread * normal.inv_cdf(within), 0.0), 1.0)


def _standard() -> Any:
    from statistics import NormalDist

    return NormalDist()
