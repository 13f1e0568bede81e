"""Limits judged from several attempts at a point, at every look."""

from __future__ import annotations

import math

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import judge_repeated_points
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.kpi_limits import KpiLimit
from hypothesis import given
from hypothesis import strategies as st

MOST = KpiLimit("latency", None, 2.0, "max 2 s", "s")


def kpi(value, low=None, high=None, name="latency", unit="s"):
    interval = None if low is None else [low, high]
    return {"name": name, "value": value, "unit": unit, "interval": interval, "confidence": None}


def read(values, limit=MOST, level=0.01):
    (found,) = judge_repeated_points.judge_kpis_against_limits([(limit, [kpi(one) for one in values])], level)
    return found


def test_a_mean_far_below_the_limit_is_within() -> None:
    found = read([1.0, 1.05, 0.95, 1.01, 1.02])
    assert (found.result, found.low < 1.0 < found.high < 2.0) == ("within", True)
    assert found.p_corrected == found.p <= 0.01
    low, high = f"{found.low * 1000:.0f} ms", f"{found.high:.2f} s"
    assert found.text == (
        f"The mean of 5 attempts is 1.01 s ({low} to {high} at every look). It is within the limit, max 2 s."
    )


def test_a_mean_above_the_limit_is_outside_and_one_near_it_undecided() -> None:
    assert read([4.0, 4.1, 3.9, 4.0]).result == "outside"
    assert read([1.9, 2.2, 2.0, 2.1]).result == "across"


def test_a_mean_that_would_read_like_the_limit_has_more_digits() -> None:
    found = read([2.0021, 2.0022, 2.0023, 2.0022, 2.0021])
    assert found.result == "outside"
    assert found.text.startswith("The mean of 5 attempts is 2.00218 s (")


def test_one_attempt_decides_nothing() -> None:
    found = read([100.0])
    assert found.result == "across"
    assert found.text == "One attempt does not show how much attempts differ; the limit is max 2 s."
    assert not math.isfinite(found.high)


def test_the_correction_covers_all_limits_of_the_run() -> None:
    values = [1.0, 1.3, 0.9]
    alone = read(values, level=0.5)
    many = judge_repeated_points.judge_kpis_against_limits([(MOST, [kpi(one) for one in values])] * 20, 0.5)
    assert alone.result == "within"
    assert {one.result for one in many} == {"across"}
    assert many[0].high > alone.high


def test_a_range_is_within_only_if_both_ends_are_decided() -> None:
    both = KpiLimit("latency", 0.5, 2.0, "max 2 s and min 500 ms", "s")
    assert read([1.0, 1.05, 0.95, 1.0, 1.02], both).result == "within"
    assert read([0.52, 0.5, 0.49, 0.51, 0.5], both).result == "across"
    assert read([0.1, 0.11, 0.1, 0.09, 0.1], both).result == "outside"


def test_intervals_within_the_attempts_are_the_least_noise() -> None:
    exact = judge_repeated_points.judge_kpis_against_limits([(MOST, [kpi(1.8), kpi(1.81), kpi(1.79)])], 0.05)[0]
    blurred = judge_repeated_points.judge_kpis_against_limits(
        [(MOST, [kpi(one, 0.9, 2.7) for one in (1.8, 1.81, 1.79)])], 0.05
    )[0]
    assert (exact.result, blurred.result) == ("within", "across")


def test_figures_without_noise_count_if_all_attempts_agree() -> None:
    assert read([1.5]).result == "across"
    found = read([1.5, 1.5])
    assert (found.result, found.text) == ("within", "2 attempts agree: 1.50 s is within the limit, max 2 s.")
    assert math.isnan(found.p)
    bound = {**kpi(None), "note": "", "lower_bound": None}
    assert judge_repeated_points.judge_kpis_against_limits([(MOST, [kpi(1.5), bound])], 0.01)[0].result == "across"


def test_a_limit_for_each_attempt_is_broken_by_one() -> None:
    limit = KpiLimit("workloads_failed", None, 0.0, "max 0 workloads", "workloads")
    attempts = [kpi(value, name="workloads_failed", unit="workloads") for value in (0, 0, 1)]
    (found,) = judge_repeated_points.judge_kpis_against_limits([(limit, attempts)], 0.01, ["workloads_failed"])
    assert (found.result, found.text) == ("outside", "1 workload is outside the limit, max 0 workloads.")
    (found,) = judge_repeated_points.judge_kpis_against_limits([(limit, attempts[:1])], 0.01, ["workloads_failed"])
    assert found.result == "within"


@pytest.mark.parametrize("distribution", ["normal", "skewed"])
def test_wrong_decisions_are_as_rare_as_stated(distribution: str) -> None:
    """300 figures exactly at their limit, looked at after each of 2 to 15 attempts: at 5 % at most 25 (99 %)."""
    random = numpy.random.default_rng(16)
    wrong = 0
    for _suite in range(300):
        noise = random.standard_normal(15) if distribution == "normal" else random.gumbel(-0.5772, 1.0, 15)
        values = list(2.0 * numpy.exp(0.05 * noise))
        wrong += any(read(values[:looks], level=0.05).result != "across" for looks in range(2, 16))
    assert wrong <= 25


@given(st.lists(st.floats(0, 1e6) | st.none(), min_size=1, max_size=8), st.floats(0, 1e6))
def test_no_figures_are_an_error(values: list[float | None], most: float) -> None:
    limit = KpiLimit("latency", None, most, "max", "s")
    attempts = [{**kpi(one), "note": "none"} for one in values]
    (found,) = judge_repeated_points.judge_kpis_against_limits([(limit, attempts)], 0.01)
    assert found.result in ("within", "outside", "across", "not measured")
    if found.result == "within" and not math.isnan(found.p):
        assert found.high <= most * (1 + 1e-9)


NUMBERS = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0, 1.0])
ENDS = st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([1e308, -1e308, 0.0])
LIMITS = st.builds(KpiLimit, st.just("*"), ENDS, ENDS, st.just("max"), st.just("s")).filter(
    lambda one: (one.least, one.most) != (None, None)
)
ODD = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["mean", "each"]),
        "unit": st.just("s"),
        "value": st.none() | NUMBERS,
        "interval": st.none() | st.tuples(NUMBERS, NUMBERS),
        "confidence": st.none() | st.fixed_dictionaries({"low": st.none() | NUMBERS, "high": st.none() | NUMBERS}),
    }
)


@given(st.lists(st.tuples(LIMITS, st.lists(ODD, min_size=1, max_size=4)), max_size=3), st.floats(0.001, 0.5))
def test_any_figures_are_read(suite, level):
    found = judge_repeated_points.judge_kpis_against_limits(suite, level, ["each"])
    assert len(found) == len(suite)
    for (_limit, kpis), one in zip(suite, found, strict=True):
        assert one.result in ("within", "outside", "across", "not measured")
        assert one.text and "nan" not in one.text
        if all(kpi["value"] is None or math.isnan(kpi["value"]) for kpi in kpis):
            assert one.result == "not measured"
