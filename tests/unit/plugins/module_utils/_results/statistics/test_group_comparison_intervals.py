"""Comparing two groups of runs."""

from __future__ import annotations

import math

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics import (
    comparison_scale,
    group_comparison_intervals,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics.comparison_scale import (
    difference_as_share,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics.group_comparison_intervals import (
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
    always = group_comparison_intervals.interval_of_group_difference(found, 0.01)
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


def test_the_interval_at_all_looks_contains_the_fixed_one() -> None:
    fixed = compare_groups([100, 103, 97, 101, 99], [108, 112, 109, 111], level=0.99)
    always = group_comparison_intervals.interval_of_group_difference(fixed, 0.01)
    assert always.low < fixed.low < fixed.high < always.high
    assert always.p_value > 2 * fixed.p_greater


@given(st.floats(1, 500), st.floats(1.1, 1000), st.floats(1e-6, 0.5))
def test_the_interval_ends_where_the_bayes_factor_says(df: float, k: float, alpha: float) -> None:
    information = (k - 1.0) / group_comparison_intervals.PRIOR**2
    found = group_comparison_intervals.interval_of_estimate(0.0, 1.0, df, information, alpha)
    if math.isfinite(found.high):
        assert group_comparison_intervals.log_bayes_factor(found.high, df, k) == pytest.approx(
            -math.log(alpha), rel=1e-6, abs=1e-6
        )


def test_a_limit_is_decided_by_the_interval_at_all_looks() -> None:
    found = group_comparison_intervals.interval_of_mean_minus_limit([1.0, 1.1, 0.9, 1.0, 1.05], 2.0, None, 0.05)
    assert found.high < 0
    assert group_comparison_intervals.interval_of_mean_minus_limit([1.0], 2.0, None, 0.05).p_value == 1.0
    assert group_comparison_intervals.interval_of_mean_minus_limit([], 2.0, None, 0.05).low == -math.inf


@given(SERIES, st.sampled_from([0.0, -1.0, 2.0, 1e308]), st.sampled_from([0.0, 1.0, 1e300, math.inf]))
def test_no_series_breaks_the_comparison_with_a_limit(values: list[float | None], limit: float, within: float) -> None:
    x = comparison_scale.finite_values(values)
    found = group_comparison_intervals.interval_of_mean_minus_limit(list(x), limit, None, 0.05, within)
    assert 0.0 <= found.p_value <= 1.0
    assert math.isnan(found.difference) == (not len(x))
    assert not len(x) or found.low <= found.difference <= found.high
    if len(x) < 2 or (len(set(x)) == 1 and not within):
        assert found.p_value == 1.0, "a series without noise decides nothing"


def test_an_alpha_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match="alpha 1.0"):
        group_comparison_intervals.interval_of_estimate(1.0, 1.0, 5.0, 1.0, 1.0)
