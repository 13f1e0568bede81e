# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many more runs a comparison needs to find a difference of a given size with a given probability."""

from __future__ import annotations

from math import isfinite, sqrt

from . import student_t
from .group_comparison import unbalanced
from .permutation_test import least_runs

#: Beyond so many further runs the answer is "no number of runs is practical".
MOST_RUNS = 200


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
        if unbalanced(n_old, n) and n < least_runs(n_old, level):
            return False
        df = max(0, n_old - 1) + max(0, n - 1) + noise_df
        if n < 1 or df < 1:
            return False
        shift = least / (noise * sqrt(1.0 / n_old + 1.0 / n))
        return student_t.power(level, df, shift) >= power

    return next((added for added in range(MOST_RUNS + 1) if enough(added)), None)
