# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Falling fits and their crossings; capacities of whole points are in test_request_functions.py."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import capacity_functions
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 50)), min_size=1, max_size=8))
def test_a_falling_fit_never_rises_and_keeps_the_mean(steps):
    shares, weights = [share for share, _weight in steps], [weight for _share, weight in steps]
    fit = capacity_functions.falling_fit(shares, weights)
    assert len(fit) == len(shares) and all(a >= b - 1e-9 for a, b in zip(fit, fit[1:], strict=False))
    mean = sum(share * weight for share, weight in steps)
    assert sum(share * weight for share, weight in zip(fit, weights, strict=True)) == pytest.approx(mean, abs=1e-6)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.floats(0.01, 1))
def test_a_crossing_lies_between_the_steps_around_it(shares, share):
    fit = sorted(shares, reverse=True)
    rates = [float(2**place) for place in range(len(fit))]
    value, low, high = capacity_functions.crossing(rates, fit, share)
    assert low <= value <= high or value == float("inf")
