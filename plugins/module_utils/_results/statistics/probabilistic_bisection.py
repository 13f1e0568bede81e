# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the step between a good and a bad value of a setting, when every measurement has noise.

Probabilistic bisection (Horstein 1963; Waeber, Frazier and Henderson, SIAM J. Control Optim. 51, 2013): a posterior
over the places of the step is kept, and the value that halves it is measured next. The posterior is that of a change of
the mean at an unknown place with unknown means and spread (Smith, Biometrika 62, 1975), so no error rate of a single
measurement has to be assumed, and it can be computed again at any time from all measurements: this is what makes a
bisection resumable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, lgamma, log

from . import comparison_scale
from .comparison_scale import Array


@dataclass(frozen=True)
class BisectionState:
    """probabilities: of a step between value i and i + 1. step: the likeliest i. next: the value to measure."""

    probabilities: tuple[float, ...]
    step: int
    next: int

    @property
    def probability(self) -> float:
        """Of the likeliest step."""
        return self.probabilities[self.step]


def locate_step_and_next_value(measured: Mapping[int, Sequence[float]], values: int) -> BisectionState:
    """Return the probabilities of the step's place, and what to measure next.

    measured: index of a value -> the figures measured at it; NaN and None are left out. values: how many there are,
    from the good one (0) to the bad one. Without two measurements at both ends the ends come next. Raises ValueError
    for fewer than two values, or an index outside.
    """
    if values < 2:
        raise ValueError(f"{values} values: a bisection needs a good one and a bad one")
    outside = [index for index in measured if not 0 <= index < values]
    if outside:
        raise ValueError(f"value {outside[0]} was measured, but there are only {values}")
    cells = [comparison_scale.finite_values(measured.get(index, ())) for index in range(values)]
    logarithmic = comparison_scale.is_compared_on_log_scale(*cells)
    cells = [comparison_scale.convert_to_scale(cell, logarithmic) for cell in cells]
    even = tuple(1.0 / (values - 1) for _gap in range(values - 1))
    for end in (0, values - 1):
        if len(cells[end]) < 2:
            return BisectionState(even, (values - 2) // 2, end)
    logs = [_log_evidence(cells, step) for step in range(values - 1)]
    weights = [exp(evidence - max(logs)) for evidence in logs]
    posterior = tuple(weight / sum(weights) for weight in weights)
    step = max(range(values - 1), key=lambda gap: posterior[gap])
    return BisectionState(posterior, step, _next_value_to_measure(posterior, step, cells))


def _log_evidence(cells: Sequence[Array], step: int) -> float:
    """Return the logarithm of the probability of the data with a step behind value ``step``, up to a constant.

    Means and spread are integrated out with the priors dμ₁ dμ₂ dσ/σ.
    """
    import numpy

    left, right = (numpy.concatenate(side) for side in (cells[: step + 1], cells[step + 1 :]))
    n = len(left) + len(right)
    rest = float(((left - left.mean()) ** 2).sum() + ((right - right.mean()) ** 2).sum())
    size = max(float(abs(left).max()), float(abs(right).max()), 1.0 / comparison_scale.LARGEST)
    rest = max(rest, n * (comparison_scale.ROUNDING * size) ** 2)
    return -(log(len(left)) + log(len(right))) / 2 - (n - 2) / 2 * log(rest) + lgamma((n - 2) / 2)


def _next_value_to_measure(posterior: Sequence[float], step: int, cells: Sequence[Array]) -> int:
    """Return the value that halves the posterior; when it is one beside the likeliest step, the one measured less."""
    total = 0.0
    middle = step
    for gap, weight in enumerate(posterior):
        total += weight
        if total >= 0.5:
            middle = gap
            break
    beside = (middle, middle + 1)
    return min(beside, key=lambda index: (len(cells[index]), index in (0, len(cells) - 1)))
