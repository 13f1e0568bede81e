"""Comparing one KPI of a run with its history."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.compare_with_history import (
    HistoryFinding,
    compare_kpis_with_baselines,
    split_at_change_points,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.history_settings import HistorySettings
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics.time_dependence import (
    INDEPENDENT,
    TimeDependence,
)
from history_series import noisy, runs, series

SETTINGS = HistorySettings()
OLD, SLOW = noisy(1, 100, 18), noisy(2, 120, 6)


def found(one, settings: HistorySettings = SETTINGS, dependence: TimeDependence = INDEPENDENT) -> HistoryFinding:
    """Compare one KPI that is judged alone."""
    segments = split_at_change_points(one, settings, 1)
    return compare_kpis_with_baselines([one], [segments], dependence, settings, [True])[0]


def test_the_baseline_is_the_last_stable_segment() -> None:
    one = series([*noisy(3, 100, 12), *noisy(4, 140, 9)], noisy(5, 140, 3))
    segments = split_at_change_points(one, SETTINGS, 1)
    assert [len(part) for part in segments.earlier] == [12]
    assert segments.baseline == one.old[12:]
    assert [run for run, _change in segments.changes] == ["old12"]
    assert found(one).compared.n_old == 9


def test_many_kpis_share_the_level_at_which_their_histories_are_cut() -> None:
    one = series([*noisy(3, 100, 6), *noisy(4, 140, 6)], [140.0])
    assert split_at_change_points(one, SETTINGS, 1).changes
    assert not split_at_change_points(one, SETTINGS, 50).changes


def test_earlier_segments_show_how_much_runs_differ() -> None:
    one = series([*noisy(3, 100, 12), *noisy(4, 140, 3)], noisy(5, 140, 1))
    assert found(one).compared.df == 11 + 2


def test_a_run_that_was_not_measured_keeps_its_place_among_the_runs() -> None:
    old = [None, *noisy(3, 100, 12), None, *noisy(4, 140, 9)]
    (change,) = split_at_change_points(series(old, [140.0]), SETTINGS, 1).changes
    assert change[0] == "old14"


def test_a_clear_change_is_found_with_its_interval() -> None:
    one = found(series(OLD, SLOW))
    assert one.evidence.p_greater < 0.001 < one.evidence.p_less
    assert 0.1 < one.evidence.low < one.evidence.difference < one.evidence.high < 0.3
    assert (one.old_value, one.new_value) == (pytest.approx(100, rel=0.03), pytest.approx(120, rel=0.05))


def test_the_noise_within_the_runs_widens_the_interval() -> None:
    plain = series(OLD, SLOW)
    noisy_runs = tuple(replace(one, low=one.value - 60, high=one.value + 60) for one in plain.new)
    wide = found(replace(plain, new=noisy_runs))
    assert wide.evidence.high - wide.evidence.low > 2 * (found(plain).evidence.high - found(plain).evidence.low)


def test_dependence_of_runs_on_their_time_widens_the_interval() -> None:
    free, bound = found(series(OLD, SLOW)), found(series(OLD, SLOW), dependence=TimeDependence(0.5))
    assert bound.evidence.low < free.evidence.low < free.evidence.high < bound.evidence.high


def test_a_repeated_point_is_read_by_the_interval_at_every_look() -> None:
    one = series(OLD, noisy(2, 110, 12))
    once, repeated = found(one), found(replace(one, repeated=True))
    assert repeated.method.endswith(", at every look")
    assert repeated.evidence.low < once.evidence.low < once.evidence.high < repeated.evidence.high
    assert once.evidence.p_greater < repeated.evidence.p_greater < 0.01
    assert repeated.evidence.p_less == 1.0


def test_one_run_from_a_long_tail_decides_no_repeated_point() -> None:
    old = 100 * numpy.exp(0.03 * numpy.random.default_rng(3).standard_t(2, 20))
    one = found(series(old, [130.0], repeated=True))
    assert one.evidence.p_greater > 0.001


def test_a_figure_that_was_zero_is_compared_in_its_unit() -> None:
    one = found(series([0.0] * 20, [3.0] * 3, unit="workloads"))
    assert one.from_zero
    assert (one.evidence.difference, one.evidence.least) == (3.0, 0.0)
    assert one.evidence.p_greater == pytest.approx(1 / math.comb(23, 3))


@pytest.mark.parametrize(("old", "new"), [([], [1.0]), ([1.0, 2.0], []), ([None], [None])])
def test_without_values_there_is_a_reason_and_no_p_value(old: list, new: list) -> None:
    one = found(series(old, new))
    assert one.reason
    assert math.isnan(one.evidence.p_greater) and math.isnan(one.evidence.difference)


def test_runs_are_named() -> None:
    assert [one.run for one in runs([1.0, None])] == ["old0", "old1"]
