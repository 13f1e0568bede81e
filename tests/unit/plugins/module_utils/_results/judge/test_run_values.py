"""Values of a KPI over runs."""

from __future__ import annotations

import math

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.past_run_data import (
    PastValue,
    RunValue,
    kpis_by_name,
    mean_kpi_of_attempts,
)


def test_the_standard_error_is_that_of_the_interval_within_the_run() -> None:
    assert RunValue("a", 10.0, 9.02, 10.98).error == pytest.approx(0.5)


@pytest.mark.parametrize(("low", "high"), [(None, 3.0), (1.0, None), (None, None)])
def test_an_open_interval_has_no_standard_error(low: float | None, high: float | None) -> None:
    assert math.isnan(RunValue("a", 2.0, low, high).error)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"at_least": 100.0}, 100.0),
        ({"interval": [100.0, None]}, 100.0),
        ({"interval": {"low": 100.0, "high": None}}, 100.0),
        ({"confidence": {"low": 3.0, "high": None}}, None),  # of the value, which is unknown
        ({"at_least": math.inf}, None),
        ({}, None),
    ],
)
def test_a_figure_without_a_value_has_its_bound(more: dict[str, object], expected: float | None) -> None:
    (value,) = kpis_by_name([{"name": "a", "unit": "s", "value": None, **more}], "here").values()
    assert (value.value, value.at_least, value.known) == (None, expected, expected)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, -1e308])
def test_a_figure_that_cannot_be_used_has_no_bound(value: float) -> None:
    kpi = {"name": "a", "unit": "s", "value": value, "at_least": 3.0, "interval": [3.0, 4.0]}
    assert kpis_by_name([kpi], "here")["a"].known is None


def test_the_mean_of_attempts_is_a_bound_if_one_of_them_is() -> None:
    attempts = [PastValue(4.0, 3.0, 5.0, "s"), PastValue(None, 9.0, None, "s"), PastValue(None, None, None, "s")]
    mean = mean_kpi_of_attempts(attempts)
    assert (mean.value, mean.at_least) == (None, pytest.approx(6.0))


def test_two_figures_of_one_name_are_refused_because_one_would_count() -> None:
    kpis = [{"name": name, "unit": "s", "value": value} for name, value in (("a", 1.0), ("b", 2.0), ("a", 3.0))]
    with pytest.raises(DataError, match=r"here: KPI 'a' is there twice"):
        kpis_by_name(kpis, "here")
