"""Limits: how they are written, and how a KPI's interval is judged by them."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import kpi_limits
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.kpi_limits import KpiLimit
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import (
    load_and_check_kpi_definitions,
)
from hypothesis import given
from hypothesis import strategies as st

ROLES = Path(__file__).parents[6] / "roles"
DEFINITIONS = load_and_check_kpi_definitions(
    [str(ROLES / "results/files/kpis/workload.yml"), str(ROLES / "fine_tuning/files/kpis.yml")]
)


def parsed(raw, **origins):
    return kpi_limits.parse_kpi_limits(raw, DEFINITIONS, origins)


def kpi(value, unit="s", **more):
    return {"name": "x", "value": value, "unit": unit, "interval": None, "confidence": None, **more}


@pytest.mark.parametrize(
    ("name", "ends", "least", "most", "text"),
    [
        ("time_to_scheduled_p95", {"max": "2 s"}, None, 2.0, "max 2 s"),
        ("time_to_scheduled_p95", {"max": "150 ms"}, None, 0.15, "max 150 ms"),
        ("time_to_scheduled_p95", {"max": 2}, None, 2.0, "max 2 s"),
        ("workloads_failed", {"max": 0}, None, 0.0, "max 0 workloads"),
        ("gpu_utilization_mean", {"min": "95 %"}, 95.0, None, "min 95 %"),
        ("throughput_done", {"min": "5/s", "max": 9}, 5.0, 9.0, "max 9/s and min 5/s"),
        ("duration_pods_running_p95", {"max": "1 min 5 s"}, None, 65.0, "max 1 min 5 s"),
        ("duration_*_p95", {"max": 3}, None, 3.0, "max 3 s"),
        ("errors_TooManyRequests", {"max": 1}, None, 1.0, "max 1 attempt"),
        ("*", {"max": 5}, None, 5.0, "max 5"),
    ],
)
def test_a_limit_is_a_number_or_text_with_a_unit(name, ends, least, most, text):
    (found,) = parsed({name: ends})
    assert (found.pattern, found.least, found.most, found.text) == (name, least, most, text)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            {"time_to_schedule_p95": {"max": 1}},
            "results_limits: KPI 'time_to_schedule_p95' (from preset light, presets.yml:12) is not defined "
            "(did you mean 'time_to_scheduled_p95'?)",
        ),
        (
            {"time_to_scheduled_p95": {"max": "2 GB"}},
            "results_limits: time_to_scheduled_p95: max '2 GB' has another unit than the KPI, s",
        ),
        (
            {"time_to_scheduled_p95": {"max": "fast"}},
            "results_limits: time_to_scheduled_p95: max 'fast' is no number with or without the unit s",
        ),
        (
            {"time_to_scheduled_p95": {"max": "1 s", "min": "2 s"}},
            "results_limits: time_to_scheduled_p95: max 1 s is below min 2 s",
        ),
        (
            {"time_to_scheduled_p95": {"maximum": 2}},
            "results_limits: time_to_scheduled_p95: needs max or min, got {maximum: 2} (did you mean 'max'?)",
        ),
        ({"makespan": {}}, "results_limits: makespan: needs max or min, got {}"),
        ({"makespan": 3}, "results_limits: makespan: needs max or min, got 3"),
        ({"makespan": {"max": None}}, "results_limits: makespan: max None is no number"),
        ({"makespan": {"max": True}}, "results_limits: makespan: max True is no number"),
        ({"through*": {"max": "2 s"}}, "results_limits: through*: max '2 s' has another unit than the KPI, 1/s"),
        ({"nothing_*": {"max": 2}}, "results_limits: KPI 'nothing_*' is not defined"),
        ({"*": {"max": "2 s"}}, "has another unit than the KPI"),
    ],
)
def test_a_wrong_limit_is_named_with_the_right_one(raw, message):
    with pytest.raises(InputError) as error:
        parsed(raw, time_to_schedule_p95="preset light, presets.yml:12")
    assert message in str(error.value)


def test_a_pattern_applies_to_the_names_that_it_matches():
    (one,) = parsed({"duration_*_p95": {"max": 3}})
    names = ("duration_pods_running_p95", "duration_pods_running_p99", "since_sending_ended_p95")
    assert [one.matches(name) for name in names] == [True, False, False]


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        (kpi(12.0), (12.0, 12.0)),
        (kpi(12.0, interval=[11.0, 13.0]), (11.0, 13.0)),
        (kpi(12.0, interval=[11.0, 13.0], confidence={"low": 9.0, "high": 12.5}), (9.0, 13.0)),
        (kpi(12.0, confidence={"low": 9.0, "high": None}), (9.0, None)),
        (kpi(None, at_least=14.6), (14.6, None)),
        (kpi(None, at_least=185.0), (185.0, None)),
        (kpi(None, unit="1/s", at_least=5.0), (5.0, None)),
        (kpi(None, note="nothing was planned"), (None, None)),
    ],
)
def test_the_interval_is_the_union_of_measurement_and_sampling(figure, expected):
    assert kpi_limits.kpi_uncertainty_interval(figure) == expected


@pytest.mark.parametrize(
    ("figure", "ends", "result", "text"),
    [
        (kpi(1.0, interval=[0.9, 1.1]), {"max": 2}, "within", "1 s (900 ms to 1.10 s) is within the limit, max 2 s."),
        (kpi(2.0), {"max": 2}, "within", "2 s is within the limit, max 2 s."),
        (kpi(3.0, interval=[2.5, 3.5]), {"max": 2}, "outside", "3 s (2.50 to 3.50 s) is outside the limit, max 2 s."),
        (
            kpi(3.0, interval=[1.5, 3.5]),
            {"max": 2},
            "across",
            "3 s (1.50 to 3.50 s) may be within or outside the limit, max 2 s.",
        ),
        (kpi(None, at_least=14.6), {"max": 2}, "outside", "At least 14.6 s is outside the limit, max 2 s."),
        (
            kpi(None, at_least=1.0),
            {"max": 2},
            "across",
            "At least 1 s may be within or outside the limit, max 2 s.",
        ),
        (kpi(None, at_least=3.0), {"min": 2}, "within", "At least 3 s is within the limit, min 2 s."),
        (
            kpi(None, note="no pod ran"),
            {"max": 2},
            "not measured",
            "The limit is max 2 s, and the figure was not measured: no pod ran.",
        ),
    ],
)
def test_a_figure_is_within_outside_or_across(figure, ends, result, text):
    (limit,) = parsed({"makespan": ends})
    found = kpi_limits.check_kpi_against_limit(limit, figure)
    assert (found.result, found.text) == (result, text)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308])
def test_what_is_no_number_was_not_measured(value):
    limit = KpiLimit("x", None, 2.0, "max 2 s")
    found = kpi_limits.check_kpi_against_limit(limit, kpi(value))
    assert (found.result, found.text) == (
        "not measured",
        "The limit is max 2 s, and the figure was not measured: it has no value.",
    )


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_without_an_interval_a_figure_is_never_across(value, most):
    limit = KpiLimit("x", None, most, "")
    assert kpi_limits.check_kpi_against_limit(limit, kpi(value)).result == (
        kpi_limits.WITHIN if value <= most else kpi_limits.OUTSIDE
    )


def test_a_figure_that_would_read_like_its_limit_has_more_digits():
    limit = KpiLimit("x", None, 10.9, "max 10.9 s", "s")
    assert kpi_limits.check_kpi_against_limit(limit, kpi(10.9142)).text == "10.9142 s is outside the limit, max 10.9 s."
    assert kpi_limits.check_kpi_against_limit(limit, kpi(10.9)).text == "10.9 s is within the limit, max 10.9 s."
    assert (
        kpi_limits.format_value_near_limit(KpiLimit("x", None, 10.91, "max 10.91 s", "s"), 10.9142, "s") == "10.9142 s"
    )
    rate = KpiLimit("x", 5.0, None, "min 5/s", "1/s")
    assert kpi_limits.check_kpi_against_limit(rate, kpi(4.999, "1/s")).text == "4.999/s is outside the limit, min 5/s."


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_a_pattern_matches_as_a_regular_expression_would(pattern, name):
    expected = re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name) is not None
    assert KpiLimit(pattern, None, 1.0, "").matches(name) is expected
