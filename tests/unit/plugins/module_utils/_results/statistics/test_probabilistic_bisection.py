"""Finding the step between two values of a setting."""

from __future__ import annotations

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics.probabilistic_bisection import (
    locate_step_and_next_value,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from statistics_strategies import SERIES


@given(st.dictionaries(st.integers(0, 5), SERIES, max_size=6))
def test_no_measurement_breaks_the_bisection(measured: dict[int, list[float | None]]) -> None:
    found = locate_step_and_next_value(measured, 6)
    assert sum(found.probabilities) == pytest.approx(1.0)
    assert 0 <= found.next < 6 and 0 <= found.step < 5


@given(st.integers(0, 8), st.integers(0, 1000))
@settings(max_examples=20, derandomize=True)  # one in a hundred may be wrong
def test_bisection_finds_the_step_in_a_few_measurements(step: int, seed: int) -> None:
    draw = numpy.random.default_rng(seed)
    measured: dict[int, list[float]] = {}
    for _run in range(60):
        found = locate_step_and_next_value(measured, 10)
        if found.probability >= 0.99 and len(measured) >= 2:
            break
        value = 100.0 if found.next <= step else 120.0
        measured.setdefault(found.next, []).append(value * (1 + 0.03 * draw.standard_normal()))
    assert found.probability >= 0.99
    assert found.step == step


@pytest.mark.parametrize(
    ("measured", "values", "named"), [({}, 1, "1 values"), ({7: [1.0]}, 3, "value 7 was measured")]
)
def test_values_that_cannot_be_bisected_are_refused(measured: dict[int, list[float]], values: int, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        locate_step_and_next_value(measured, values)
