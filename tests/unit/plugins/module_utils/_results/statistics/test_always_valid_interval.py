"""Intervals that hold at every look."""

from __future__ import annotations

import math

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics import (
    always_valid_interval,
    comparison_scale,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics.group_comparison import (
    compare_groups,
)
from hypothesis import given
from hypothesis import strategies as st
from statistics_strategies import SERIES


def test_the_interval_at_all_looks_contains_the_fixed_one() -> None:
    fixed = compare_groups([100, 103, 97, 101, 99], [108, 112, 109, 111], level=0.99)
    always = always_valid_interval.interval_of_group_difference(fixed, 0.01)
    assert always.low < fixed.low < fixed.high < always.high
    assert always.p_value > 2 * fixed.p_greater


@given(st.floats(1, 500), st.floats(1.1, 1000), st.floats(1e-6, 0.5))
def test_the_interval_ends_where_the_bayes_factor_says(df: float, k: float, alpha: float) -> None:
    information = (k - 1.0) / always_valid_interval.PRIOR**2
    found = always_valid_interval.interval_of_estimate(0.0, 1.0, df, information, alpha)
    if math.isfinite(found.high):
        assert always_valid_interval.log_bayes_factor(found.high, df, k) == pytest.approx(
            -math.log(alpha), rel=1e-6, abs=1e-6
        )


def test_a_limit_is_decided_by_the_interval_at_all_looks() -> None:
    found = always_valid_interval.against_limit([1.0, 1.1, 0.9, 1.0, 1.05], 2.0, None, 0.05)
    assert found.high < 0
    assert always_valid_interval.against_limit([1.0], 2.0, None, 0.05).p_value == 1.0
    assert always_valid_interval.against_limit([], 2.0, None, 0.05).low == -math.inf


@given(SERIES, st.sampled_from([0.0, -1.0, 2.0, 1e308]), st.sampled_from([0.0, 1.0, 1e300, math.inf]))
def test_no_series_breaks_the_comparison_with_a_limit(values: list[float | None], limit: float, within: float) -> None:
    x = comparison_scale.finite_values(values)
    found = always_valid_interval.against_limit(list(x), limit, None, 0.05, within)
    assert 0.0 <= found.p_value <= 1.0
    assert math.isnan(found.difference) == (not len(x))
    assert not len(x) or found.low <= found.difference <= found.high
    if len(x) < 2 or (len(set(x)) == 1 and not within):
        assert found.p_value == 1.0, "a series without noise decides nothing"


def test_an_alpha_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match="alpha 1.0"):
        always_valid_interval.interval_of_estimate(1.0, 1.0, 5.0, 1.0, 1.0)
