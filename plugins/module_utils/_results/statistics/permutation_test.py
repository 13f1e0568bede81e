# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test of two groups of runs that holds for figures of any distribution (Pitman 1937).

If both groups are of the same thing, the new runs are as likely to be any other choice of so many runs. So the p-value
is the share of choices whose mean is at least as far off. It cannot fall below one in the number of choices: one run
beside twenty is the slowest of all once in 21 times, however slow it is, and a latency with a long tail has such runs.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

from .comparison_scale import Array

#: Up to so many choices are all looked at, of more as many are drawn.
_ALL, _DRAWN = 5_000, 20_000


def p_values(old: Array, new: Array, seed: int = 1) -> tuple[float, float]:
    """Return the one-sided p-values of "the mean of the new runs is not greater", and "not less".

    old, new: arrays [run], at least one each, on the scale of the comparison. The same seed gives the same values.
    """
    import numpy

    values = numpy.concatenate([old, new])
    n, m = len(values), len(new)
    centred = values - values.mean()
    observed = float(centred[len(old) :].sum())
    if comb(n, m) <= _ALL:
        sums = centred[numpy.array(list(combinations(range(n), m)))].sum(axis=1)
        itself = 0
    else:
        places = numpy.random.default_rng(seed).random((_DRAWN - 1, n)).argpartition(m, axis=1)[:, :m]
        sums = centred[places].sum(axis=1)
        itself = 1  # the choice that was made is one of all
    rounding = 1e-12 * float(numpy.abs(centred).sum())
    greater = int((sums >= observed - rounding).sum()) + itself
    less = int((sums <= observed + rounding).sum()) + itself
    return greater / (len(sums) + itself), less / (len(sums) + itself)


def least_runs(n_old: int, level: float) -> int:
    """Return how many new runs p_values() needs beside ``n_old`` old ones to reach ``level`` at all.

    Raises ValueError for a level that is not between 0 and 1, or fewer than one old run.
    """
    if not 0.0 < level < 1.0 or n_old < 1:
        raise ValueError(f"no number of runs for level {level} beside {n_old} old runs")
    runs = 1
    while comb(n_old + runs, runs) * level < 1.0:
        runs += 1
    return runs
