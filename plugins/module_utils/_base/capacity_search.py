# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the highest rate at which a share of requests keeps an objective, by probabilistic bisection.

A distribution over where the capacity lies is kept on a logarithmic scale (Horstein 1963; Waeber, Frazier and
Henderson, SIAM J. Control Optim. 51, 2013). Each step of a load at one rate is evidence that the capacity is above or
below it: the likelihood ratio of the observed share against the wanted one. Requests of a step are alike, so they count
as fewer, and whatever their number, one step is never taken for more certain than ``MOST_CERTAIN``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt

#: Cells of the scale between the least and the highest rate. One more at each end is for a capacity beyond it.
_CELLS = 400
#: By how much the requests of a step count as fewer, because they share a queue; most probability of a step's answer.
DESIGN_EFFECT, MOST_CERTAIN = 2.0, 0.95
#: What a search assumes unless it is set: least and highest rate, and the share that has to keep the objective.
USUAL_LOW, USUAL_HIGH, USUAL_SHARE = 1.0, 100.0, 0.99
#: Where the next steps are placed, as quantiles. Only the median would measure again and again where nothing is learnt.
_LEVELS = (0.5, 0.3, 0.7)


@dataclass(frozen=True)
class SearchStep:
    """What a step has shown: of ``count`` requests at ``rate`` a second, how many kept the objective."""

    rate: float
    count: int
    kept: int


@dataclass(frozen=True)
class CapacityEstimate:
    """The capacity: its median and bounds. None: below the lowest rate or above the highest one."""

    value: float | None
    low: float | None
    high: float | None

    def is_within(self, precision: float) -> bool:
        """Return whether the bounds are at most this share apart."""
        return self.low is not None and self.high is not None and self.high / self.low <= 1 + precision


def probability_capacity_above_rate(step: SearchStep, share: float) -> float:
    """Return the probability that the capacity is above the rate of a step."""
    if not step.count:
        return 0.5
    seen = step.kept / step.count
    divergence = sum(p * log(p / q) for p, q in ((seen, share), (1 - seen, max(1 - share, 1e-6))) if p > 0)
    right = min(1 / (1 + exp(-min(divergence * step.count / DESIGN_EFFECT, 50.0))), MOST_CERTAIN)
    return right if seen >= share else 1 - right


class CapacitySearch:
    """The distribution of the capacity between two rates. share: of the requests, that has to keep the objective.

    steps: number of those taken; kept: whether one of them kept the objective.
    """

    def __init__(self, low: float, high: float, share: float) -> None:
        self.low, self.high, self.share = low, high, share
        self.steps = 0
        self.kept = False
        ratio = (high / low) ** (1 / _CELLS)
        self._edges = [low * ratio**cell for cell in range(_CELLS + 1)]  # cell i + 1 lies between edges i and i + 1
        self._weights = [1 / (_CELLS + 2)] * (_CELLS + 2)

    def take(self, step: SearchStep) -> None:
        """Take the evidence of a step."""
        above = probability_capacity_above_rate(step, self.share)
        middles = [0.0, *(sqrt(a * b) for a, b in zip(self._edges, self._edges[1:], strict=False)), float("inf")]
        weights = [
            weight * (above if middle >= step.rate else 1 - above)
            for weight, middle in zip(self._weights, middles, strict=True)
        ]
        total = sum(weights)
        self._weights = [weight / total for weight in weights]
        self.steps += 1
        self.kept = self.kept or (step.count > 0 and step.kept >= self.share * step.count)

    def next_rate(self) -> float:
        """Return the rate to measure next."""
        return self._quantile(_LEVELS[self.steps % len(_LEVELS)]) or self.low

    def estimate(self, probability: float = 0.95) -> CapacityEstimate:
        """Return the median of the capacity, and bounds between which it lies with this probability."""
        beside = (1 - probability) / 2
        bounds = [self._quantile(level, bounded=False) for level in (0.5, beside, 1 - beside)]
        return CapacityEstimate(*bounds)

    def _quantile(self, level: float, bounded: bool = True) -> float | None:
        """Return the rate below which the capacity is with a probability. bounded: at most the highest rate."""
        total = 0.0
        for cell, weight in enumerate(self._weights):
            if total + weight >= level:
                if cell == 0:
                    return None
                if cell > _CELLS:
                    return self.high if bounded else None
                part = (level - total) / weight
                return float(self._edges[cell - 1] * (self._edges[cell] / self._edges[cell - 1]) ** part)
            total += weight
        return self.high if bounded else None
