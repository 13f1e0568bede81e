# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for a capacity: what it concludes from steps, and how often its bounds are right."""

from __future__ import annotations

import random

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.capacity_search import (
    MOST_CERTAIN,
    CapacitySearch,
    SearchStep,
    probability_capacity_above_rate,
)
from hypothesis import given
from hypothesis import strategies as st

SHARES = st.sampled_from([0.5, 0.9, 0.95, 0.99, 1.0])
STEPS = st.lists(
    st.builds(
        lambda rate, count, part: SearchStep(rate, count, round(count * part)),
        st.floats(0.5, 200),
        st.integers(0, 5000),
        st.floats(0, 1),
    ),
    max_size=12,
)


def searched(steps, share=0.95, low=1.0, high=100.0):
    search = CapacitySearch(low, high, share)
    for step in steps:
        search.take(step)
    return search


@given(STEPS, SHARES)
def test_bounds_surround_the_median_and_stay_between_the_rates(steps, share):
    search = searched(steps, share)
    found = search.estimate()
    bounds = [found.low or 0.0, found.value or (0.0 if search.next_rate() < 100 else 1e9), found.high or 1e9]
    assert all(bound in (0.0, 1e9) or 1.0 <= bound <= 100.0 + 1e-6 for bound in bounds)
    assert 1.0 <= search.next_rate() <= 100.0 + 1e-6
    if found.low and found.value and found.high:
        assert found.low <= found.value <= found.high
    wide, narrow = search.estimate(0.99), search.estimate(0.5)
    if wide.low and wide.high and narrow.low and narrow.high:
        assert wide.low <= narrow.low <= narrow.high <= wide.high


@given(st.floats(1, 100), st.integers(1, 5000), st.floats(0, 1), SHARES)
def test_more_requests_within_the_objective_never_speak_for_a_smaller_capacity(rate, count, part, share):
    kept = round(count * part)
    fewer = SearchStep(rate, count, max(kept - 1, 0))
    low, high = (
        probability_capacity_above_rate(fewer, share),
        probability_capacity_above_rate(SearchStep(rate, count, kept), share),
    )
    assert 1 - MOST_CERTAIN <= low <= high + 1e-12 <= MOST_CERTAIN + 1e-9


@given(STEPS, SHARES, st.randoms(use_true_random=False))
def test_the_order_of_the_steps_does_not_matter(steps, share, chance):
    mixed = list(steps)
    chance.shuffle(mixed)
    first, second = searched(steps, share).estimate(), searched(mixed, share).estimate()
    assert (first.low, first.value, first.high) == pytest.approx((second.low, second.value, second.high))


def measure(capacity, share, chance, spread=0.02):
    """Search on a server whose share falls around its capacity, with noise that the requests of a step share."""
    search = CapacitySearch(1, 100, share)
    for _step in range(20):
        rate = search.next_rate()
        true = capacity * chance.gauss(1, spread)
        odds = (share / (1 - share)) * (true / rate) ** 30
        expected = odds / (1 + odds)
        count = max(10, round(rate * 20))
        search.take(SearchStep(rate, count, sum(chance.random() < expected for _ in range(count))))
        if search.estimate().is_within(0.1):
            break
    return search.estimate()


def test_the_bounds_contain_the_capacity_as_often_as_they_say_and_are_narrow():
    chance = random.Random(20261126)
    right, wide = 0, []
    for _round in range(100):
        capacity = chance.uniform(3, 60)
        found = measure(capacity, 0.95, chance)
        right += (found.low or 0) <= capacity <= (found.high or 1e9)
        wide.append((found.high or 100) / (found.low or 1))
    assert right >= 92  # 95 are expected; fewer than 92 of 100 have a probability of 6 %, and the seed is fixed
    assert sorted(wide)[50] <= 1.3


@pytest.mark.parametrize(("capacity", "side"), [(0.1, "low"), (500, "high")])
def test_a_capacity_outside_of_the_rates_has_no_value(capacity, side):
    found = measure(capacity, 0.95, random.Random(1))
    assert found.value is None and getattr(found, side) is None
