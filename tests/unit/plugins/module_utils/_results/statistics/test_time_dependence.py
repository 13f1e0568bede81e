"""Dependence of runs on their time."""

from __future__ import annotations

import math

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics import (
    comparison_scale,
    time_dependence,
)
from hypothesis import given
from hypothesis import strategies as st
from statistics_strategies import SERIES


@given(st.lists(st.lists(SERIES, max_size=3), max_size=4))
def test_no_suite_breaks_the_estimate_of_dependence(suite: list[list[list[float | None]]]) -> None:
    arrays = [[comparison_scale.finite_values(one) for one in groups] for groups in suite]
    found = time_dependence.estimate_suite_dependence(arrays * 8)
    assert 0 <= found.phi <= 0.9 and found.drift >= 0 and math.isfinite(found.drift)


def test_dependence_is_found_in_a_suite_and_not_in_independent_runs() -> None:
    draw = numpy.random.default_rng(2).standard_normal
    free = [[draw(10), draw(10)] for _kpi in range(20)]
    assert time_dependence.estimate_suite_dependence(free) == time_dependence.INDEPENDENT
    assert time_dependence.estimate_suite_dependence(free[:2]) == time_dependence.INDEPENDENT  # too few values
    drifting = [[one + 0.2 * numpy.arange(10) for one in groups] for groups in free]
    assert time_dependence.estimate_suite_dependence(drifting).drift == pytest.approx(0.2, rel=0.3)
    correlated = [[numpy.convolve(draw(60), 0.6 ** numpy.arange(20))[30:50] for _g in range(2)] for _kpi in range(20)]
    assert time_dependence.estimate_suite_dependence(correlated).phi == pytest.approx(0.6, abs=0.12)


def test_independent_runs_have_the_variance_of_the_textbook() -> None:
    assert time_dependence.INDEPENDENT.variance_of_difference(4, 10) == pytest.approx(1 / 4 + 1 / 10)
    assert time_dependence.TimeDependence(0.5).variance_of_difference(5, 5) > 3 * (1 / 5 + 1 / 5)
