"""The permutation test of two groups of runs."""

from __future__ import annotations

import itertools
import math

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics import group_comparison
from hypothesis import given, settings
from hypothesis import strategies as st

FIGURES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12)


@given(FIGURES, FIGURES)
@settings(max_examples=40)
def test_the_series_itself_is_one_of_the_permutations(old: list[float], new: list[float]) -> None:
    found = group_comparison.permutation_p_values(numpy.array(old), numpy.array(new))
    assert all(0 < one <= 1 for one in found)
    assert sum(found) >= 1
    assert found == group_comparison.permutation_p_values(numpy.array(old), numpy.array(new))


def test_choices_that_are_drawn_give_the_p_value_of_all() -> None:
    draw = numpy.random.default_rng(4).standard_normal
    x, y = draw(15), draw(4) + 1.0
    sums = [sum(one) for one in itertools.combinations(numpy.concatenate([x, y]), 4)]
    exact = sum(1 for one in sums if one >= y.sum() - 1e-9) / math.comb(19, 4)
    assert group_comparison.permutation_p_values(x, y)[0] == pytest.approx(exact, abs=0.01)
    assert group_comparison.permutation_p_values(draw(30), draw(10) + 9.0)[0] == pytest.approx(1 / 20_000)


def test_least_number_of_runs_is_the_first_that_can_reach_the_level() -> None:
    assert [group_comparison.least_runs(20, 0.01 / kpis) for kpis in (1, 5, 20)] == [2, 3, 4]


@pytest.mark.parametrize(("n_old", "level"), [(0, 0.01), (5, 0.0), (5, 1.0)])
def test_a_number_of_runs_needs_old_runs_and_a_level(n_old: int, level: float) -> None:
    with pytest.raises(ValueError, match=f"level {level} beside {n_old} old runs"):
        group_comparison.least_runs(n_old, level)
