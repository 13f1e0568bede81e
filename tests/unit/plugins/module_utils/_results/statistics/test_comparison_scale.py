"""The scale on which figures are compared, and the noise between runs."""

from __future__ import annotations

import math

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics import comparison_scale
from hypothesis import given
from hypothesis import strategies as st


@given(st.floats(-0.9, 10), st.booleans(), st.floats(0.1, 1e6))
def test_shares_and_differences_are_inverse_to_each_other(share: float, logarithmic: bool, base: float) -> None:
    difference = comparison_scale.share_to_scale_difference(share, logarithmic, base)
    assert comparison_scale.difference_as_share(difference, logarithmic, base) == pytest.approx(share, abs=1e-9)


def test_only_positive_figures_are_compared_by_their_logarithms() -> None:
    positive, zero, nothing = numpy.array([1.0, 2.0]), numpy.array([0.0, 2.0]), numpy.array([])
    assert comparison_scale.is_compared_on_log_scale(positive, nothing)
    assert not comparison_scale.is_compared_on_log_scale(positive, zero)
    assert not comparison_scale.is_compared_on_log_scale(nothing)


def test_what_is_no_number_is_left_out_in_order() -> None:
    found = comparison_scale.finite_values([3.0, None, math.nan, math.inf, 1e300, 1e-300, -2.0])
    assert list(found) == [3.0, 0.0, -2.0]


def test_noise_is_pooled_by_degrees_of_freedom() -> None:
    groups = [numpy.array([1.0, 3.0]), numpy.array([5.0]), numpy.array([2.0, 4.0, 6.0])]
    noise = comparison_scale.pooled_variance_within_groups(groups)
    assert (noise.variance, noise.df) == (pytest.approx((2.0 + 8.0) / 3), 3.0)
    assert noise.pooled_with(comparison_scale.RunToRunVariance(0.0, 3.0)).variance == pytest.approx(noise.variance / 2)
    assert noise.pooled_with(None) == noise


def test_rounding_is_no_noise() -> None:
    assert comparison_scale.pooled_variance_within_groups([numpy.array([0.1 + 0.2, 0.3, 0.3])]).variance == 0.0
