# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each setting of a matrix changed: the change, its interval, and what it is compared with."""

from __future__ import annotations

import itertools
from math import isnan

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics import setting_effects
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics.setting_effects import (
    ObservedPoint,
)
from hypothesis import given
from hypothesis import strategies as st


def grid(figure, batches=(4, 8), ranks=(2, 16, 64)):
    return [ObservedPoint({"batch": b, "rank": r}, [figure(b, r)]) for b, r in itertools.product(batches, ranks)]


def seen(found):
    return [(one.setting, one.base, one.value, one.pairs) for one in found]


def test_each_value_is_compared_with_the_first_one_at_points_that_are_equal_otherwise():
    found = setting_effects.estimate_setting_effects(grid(lambda b, r: b * 10.0 / r))
    assert seen(found) == [("batch", 4, 8, 3), ("rank", 2, 16, 2), ("rank", 2, 64, 2)]
    assert [one.change for one in found] == pytest.approx([1.0, -7 / 8, -31 / 32])
    for one in found:  # the effects do not depend on each other, so nothing is uncertain
        assert one.relative and one.low == pytest.approx(one.change) == pytest.approx(one.high)


def test_an_effect_that_depends_on_other_settings_has_a_wide_interval():
    """By hand: log 2, log 2, log 8 have mean 1.1552 and deviation 0.80034; t(0.025, 2) is 4.30265."""
    (batch, *_ranks) = setting_effects.estimate_setting_effects(grid(lambda b, r: float(b if r < 64 else b**3)))
    assert batch.pairs == 3 and batch.change == pytest.approx(numpy.exp(1.15525) - 1, rel=1e-4)
    reach = 4.30265 * 0.80038 / 3**0.5
    assert batch.low == pytest.approx(numpy.exp(1.15525 - reach) - 1, rel=1e-3)
    assert batch.high == pytest.approx(numpy.exp(1.15525 + reach) - 1, rel=1e-3)


def test_a_single_pair_of_points_has_an_interval_over_its_jobs_if_there_are_several():
    jobs = [ObservedPoint({"rank": 2}, [10.0, 11.0, 12.0]), ObservedPoint({"rank": 4}, [20.0, 22.0, 24.0])]
    (one,) = setting_effects.estimate_setting_effects(jobs)
    assert one.observations == 6 and one.change == pytest.approx(1.0) and 0.5 < one.low < 1.0 < one.high
    (alone,) = setting_effects.estimate_setting_effects(
        [ObservedPoint(point.values, point.observations[:1]) for point in jobs]
    )
    assert alone.change == pytest.approx(1.0) and isnan(alone.low) and isnan(alone.high)


def test_figures_that_may_be_zero_are_compared_as_they_are():
    (one,) = setting_effects.estimate_setting_effects(
        [ObservedPoint({"r": 1}, [0.0, 2.0]), ObservedPoint({"r": 2}, [5.0, 5.0])]
    )
    assert not one.relative and one.change == pytest.approx(4.0) and one.low < 4.0 < one.high


def test_points_without_a_partner_or_a_figure_are_left_out():
    points = [
        ObservedPoint({"rank": 2, "batch": 1}, [1.0]),
        ObservedPoint({"rank": 4, "batch": 2}, [2.0]),
        ObservedPoint({"rank": 8, "batch": 1}, []),
        ObservedPoint({"rank": 16}, [3.0]),
    ]
    assert setting_effects.estimate_setting_effects(points) == []


@given(st.lists(st.floats(0.1, 10.0), min_size=4, max_size=4), st.floats(0.01, 100.0))
def test_the_unit_of_a_figure_changes_no_relative_effect(values, unit):
    speeds = iter(values)
    points = grid(lambda _b, _r: next(speeds), ranks=(1, 2))
    other = [ObservedPoint(one.values, [value * unit for value in one.observations]) for one in points]
    for one, two in zip(
        setting_effects.estimate_setting_effects(points), setting_effects.estimate_setting_effects(other), strict=True
    ):
        assert (one.change, one.low) == pytest.approx((two.change, two.low), rel=1e-6, abs=1e-6)
        assert one.low <= one.change <= one.high
