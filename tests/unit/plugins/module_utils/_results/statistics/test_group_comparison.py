"""Comparing two groups of runs."""

from __future__ import annotations

import math

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics import always_valid_interval
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics.comparison_scale import (
    difference_as_share,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics.group_comparison import (
    compare_groups,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics.time_dependence import (
    TimeDependence,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from statistics_strategies import SERIES


@given(SERIES, SERIES, st.floats(0, 0.9))
@settings(max_examples=150)
def test_no_series_breaks_the_comparison(old: list[float | None], new: list[float | None], phi: float) -> None:
    found = compare_groups(old, new, earlier=[new, old], dependence=TimeDependence(phi, 0.1))
    assert found.reason or 0 <= found.p_greater <= 1
    assert found.low <= found.high or math.isnan(found.difference)
    if not found.reason and math.isfinite(found.difference):
        assert found.low <= found.difference <= found.high
    always = always_valid_interval.interval_of_group_difference(found, 0.01)
    assert 0 <= always.p_value <= 1 and (always.low <= always.high or math.isnan(found.difference))


@pytest.mark.parametrize(("old", "new"), [([], [1.0]), ([1.0], []), ([1.0], [2.0]), ([math.nan], [1.0])])
def test_without_history_nothing_is_judged(old: list[float], new: list[float]) -> None:
    found = compare_groups(old, new)
    assert found.reason and math.isnan(found.p_greater)


def test_one_run_is_judged_by_the_noise_of_earlier_groups() -> None:
    earlier = [[100, 105, 95, 102, 98], [200, 190, 210, 204]]
    found = compare_groups([100.0], [130.0], earlier=earlier)
    assert found.df == 7
    assert found.p_greater < 0.01


def test_the_noise_within_runs_is_the_least_noise_between_them() -> None:
    narrow = compare_groups([100, 100.1, 99.9], [101, 101.1, 100.9])
    wide = compare_groups([100, 100.1, 99.9], [101, 101.1, 100.9], old_errors=[5.0] * 3)
    assert narrow.p_greater < 0.001 < 0.1 < wide.p_greater


def test_a_constant_history_is_judged_by_an_exact_test() -> None:
    assert compare_groups([0.0] * 20, [0.0]).p_greater == 1.0
    assert compare_groups([0.0] * 20, [1.0]).p_greater == pytest.approx(1 / 21)
    assert compare_groups([0.0] * 20, [1.0] * 3).p_greater == pytest.approx(1 / math.comb(23, 3))


def test_difference_and_interval_are_shares_of_the_old_figure() -> None:
    found = compare_groups([99, 100, 101], [109, 110, 111])
    low, share, high = (difference_as_share(one, True, found.base) for one in (found.low, found.difference, found.high))
    assert share == pytest.approx(0.1, abs=1e-3)
    assert low < share < high
    plain = compare_groups([-1, 0, 4], [2, 1, 3])
    assert not plain.logarithmic
    assert (plain.base, difference_as_share(plain.difference, False, plain.base)) == (
        pytest.approx(1.0),
        pytest.approx(1.0),
    )
