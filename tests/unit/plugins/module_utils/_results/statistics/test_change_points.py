"""Change points of a series."""

from __future__ import annotations

import math

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics.time_dependence import (
    change_points,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from statistics_strategies import SERIES


@given(SERIES, st.integers(2, 5))
@settings(max_examples=100)
def test_no_series_breaks_the_change_points(values: list[float | None], least: int) -> None:
    indices = [one.index for one in change_points(values, minimum_segment=least)]
    assert indices == sorted(set(indices))
    assert all(0 < one < len(values) for one in indices)


def test_change_points_are_found_where_they_are_and_the_same_each_time() -> None:
    draw = numpy.random.default_rng(3).standard_normal
    values = [None, *(100 + 3 * draw(15)), math.nan, *(120 + 3 * draw(10)), *(90 + 3 * draw(12))]
    found = change_points(values)
    assert [one.index for one in found] == [17, 27]
    assert found == change_points(values)
    assert found[0].before < found[0].after > found[1].after


def test_one_outlier_is_no_change_point() -> None:
    assert change_points([*(100 + numpy.random.default_rng(5).standard_normal(30)), 200.0]) == []


def test_a_constant_series_has_no_change_point() -> None:
    assert change_points([5.0] * 30) == []


@pytest.mark.parametrize(("options", "named"), [({"level": 0.0}, "level 0.0"), ({"minimum_segment": 1}, "segment 1")])
def test_arguments_without_meaning_are_refused(options: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        change_points([1.0] * 9, **options)
