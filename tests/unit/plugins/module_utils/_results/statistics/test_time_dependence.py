"""Dependence of runs on their time."""

from __future__ import annotations

import math

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics import (
    comparison_scale,
    time_dependence,
)
from hypothesis import given, settings
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


def autocorrelated(draw, figures: int, phi: float = 0.6, runs: int = 25):
    """Return figures, an array [figure, run] of stationary AR(1) runs with deviation 1."""
    found = draw((figures, runs))
    for run in range(1, runs):
        found[:, run] = phi * found[:, run - 1] + math.sqrt(1 - phi * phi) * found[:, run]
    return found


def estimated(figures) -> float:
    return time_dependence.estimate_suite_dependence([[one[:20], one[20:]] for one in figures]).phi


@pytest.mark.parametrize("phi", [0.3, 0.6])
def test_the_estimate_of_the_autocorrelation_is_right_in_the_mean(phi: float) -> None:
    """By the ratio of the expectations instead of the expectation of the ratio, 0.6 was estimated as 0.55."""
    draw = numpy.random.default_rng(5).standard_normal
    mean = numpy.mean([estimated(autocorrelated(draw, 20, phi)) for _suite in range(60)])
    assert mean == pytest.approx(phi, abs=0.03)


@given(st.integers(3, 30), st.sampled_from([0.0, 0.3, 0.6, 0.9]))
@settings(max_examples=8, deadline=None)
def test_the_freedom_of_a_sum_of_squares_is_that_of_its_variance(n: int, phi: float) -> None:
    runs = autocorrelated(numpy.random.default_rng(n).standard_normal, 20_000, phi, n)
    squares = ((runs - runs.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    freedom = time_dependence.TimeDependence(phi).freedom(n)
    assert freedom * (n - 1) == pytest.approx(2 * squares.mean() ** 2 / squares.var(), rel=0.06)
    assert 0 < freedom <= 1 and time_dependence.TimeDependence(phi).freedom(n, 1) == freedom


@given(st.lists(st.integers(4, 130), min_size=1, max_size=3))
@settings(max_examples=4, deadline=None)
def test_a_long_history_is_estimated_too(sizes: list[int]) -> None:
    draw = numpy.random.default_rng(sum(sizes)).standard_normal
    suite = [numpy.split(one, numpy.cumsum(sizes)[:-1]) for one in autocorrelated(draw, 100, 0.5, sum(sizes))]
    assert time_dependence.estimate_suite_dependence(suite).phi == pytest.approx(0.5, abs=0.2)
