"""Robust z-scores of new runs against history."""

from __future__ import annotations

import math

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics.robust_z_score import robust_score
from hypothesis import given
from statistics_strategies import SERIES


@given(SERIES, SERIES)
def test_no_series_breaks_the_score(old: list[float | None], new: list[float | None]) -> None:
    found = robust_score(old, new)
    assert found.reason or (0 < found.p_greater <= 1 and 0 < found.p_less <= 1)
    assert found.reason or found.low <= found.difference <= found.high


def test_a_constant_history_is_judged_by_rank() -> None:
    assert robust_score([5.0] * 19, [6.0]).p_greater == pytest.approx(1 / 20)
    assert robust_score([5.0] * 19, [5.0]).p_greater == 1.0


def test_an_outlier_in_history_moves_neither_centre_nor_scale() -> None:
    draw = numpy.random.default_rng(8)
    old, new = 100 + draw.standard_normal(20), 108 + draw.standard_normal(20)
    clean, spoilt = robust_score(old, new), robust_score([*old[:-1], 1e6], new)
    assert spoilt.difference == pytest.approx(clean.difference, abs=0.01)
    assert max(clean.p_greater, spoilt.p_greater) < 0.001


def test_the_interval_holds_the_true_difference_as_often_as_it_states() -> None:
    draw = numpy.random.default_rng(9).standard_normal
    held = 0
    for _ in range(400):
        found = robust_score(math.e ** (1 + 0.05 * draw(10)), math.e ** (1.1 + 0.05 * draw(10)))
        held += found.low <= 0.1 <= found.high
    assert 0.92 <= held / 400 <= 0.98


def test_the_noise_within_runs_is_the_least_scale() -> None:
    old, new = [100, 100.1, 99.9, 100.05], [101, 101.1, 100.9]
    assert robust_score(old, new).p_greater < 0.05 < robust_score(old, new, errors=[5.0] * 7).p_greater


def test_three_past_runs_are_not_enough() -> None:
    found = robust_score([1.0, 2.0, 3.0], [2.0])
    assert found.reason == "not enough history: 3 past runs, 4 are needed"
    assert math.isnan(found.p_greater)
