"""The number of further runs that a comparison needs."""

from __future__ import annotations

import math

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics import (
    group_comparison_intervals,
    student_t,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics.group_comparison_intervals import (
    number_of_further_runs_needed,
)
from hypothesis import given, settings
from hypothesis import strategies as st


@given(st.integers(1, 20), st.integers(0, 20), st.floats(0.01, 0.2), st.floats(0.02, 0.5))
@settings(max_examples=30)
def test_so_many_further_runs_are_enough_and_one_less_is_not(
    n_old: int, n_new: int, noise: float, least: float
) -> None:
    added = number_of_further_runs_needed(n_old, n_new, noise, 5.0, least, 0.001, 0.8)

    def power_of(n: int) -> float:
        df = n_old - 1 + max(0, n - 1) + 5.0
        if not n:
            return 0.0
        return student_t.power_of_t_test(0.001, df, least / (noise * math.sqrt(1 / n_old + 1 / n)))

    if added is None:
        assert power_of(n_new + group_comparison_intervals.MOST_RUNS) < 0.8
    else:
        assert power_of(n_new + added) >= 0.8 and (added == 0 or power_of(n_new + added - 1) < 0.8)


def test_a_history_without_noise_needs_what_the_exact_test_needs() -> None:
    assert number_of_further_runs_needed(20, 1, 0.0, 0.0, 0.05, 0.002, 0.8) == 2
    assert number_of_further_runs_needed(20, 5, 0.0, 0.0, 0.05, 0.002, 0.8) == 0


def test_no_number_is_given_for_unknown_noise_or_no_difference() -> None:
    assert number_of_further_runs_needed(20, 1, math.nan, 0.0, 0.05, 0.01, 0.8) is None
    assert number_of_further_runs_needed(20, 1, 0.1, 0.0, 0.0, 0.01, 0.8) is None
    assert number_of_further_runs_needed(0, 1, 0.1, 0.0, 0.05, 0.01, 0.8) is None


def test_a_power_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match="power 1.0"):
        number_of_further_runs_needed(5, 5, 0.1, 0.0, 0.05, 0.01, 1.0)


def test_one_figure_alone_needs_the_least_number_although_more_would_be_less_certain() -> None:
    """Alone, a figure is tested by Welch's t-test, whose power falls again as the groups become unequal."""
    assert number_of_further_runs_needed(2, 1, 0.005, 0.0, 0.05, 0.01, 0.8, alone=True) == 1
    assert number_of_further_runs_needed(3, 1, 0.01, 0.0, 0.05, 0.01, 0.8, alone=True) == 2
