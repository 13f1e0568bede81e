"""Values of a KPI over runs."""

from __future__ import annotations

import math

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.past_runs import RunValue


def test_the_standard_error_is_that_of_the_interval_within_the_run() -> None:
    assert RunValue("a", 10.0, 9.02, 10.98).error == pytest.approx(0.5)


@pytest.mark.parametrize(("low", "high"), [(None, 3.0), (1.0, None), (None, None)])
def test_an_open_interval_has_no_standard_error(low: float | None, high: float | None) -> None:
    assert math.isnan(RunValue("a", 2.0, low, high).error)
