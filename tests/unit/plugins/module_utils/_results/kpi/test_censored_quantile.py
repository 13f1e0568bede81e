"""Quantiles over all rows, including those without a value."""

from __future__ import annotations

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.censored_quantiles import (
    DurationSample,
    compute_quantile,
)
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.floats(0, 1e6, allow_nan=False)
Q = st.floats(0, 1)


def sample(known, waited=(), half=0.0):
    middle = numpy.array([*known, *[numpy.nan] * len(waited)], dtype=float)
    return DurationSample(
        middle, middle - half, middle + half, numpy.array([*[0.0] * len(known), *waited], dtype=float)
    )


@given(st.lists(VALUES, min_size=1, max_size=50), Q)
def test_without_missing_rows_it_is_the_usual_quantile(values, q):
    assert sample(values).quantile(q).value == pytest.approx(
        numpy.quantile(values, q), rel=1e-9, abs=1e-8 * max(1, *values)
    )


@given(st.lists(VALUES, min_size=1, max_size=30), st.lists(VALUES, max_size=30), st.lists(VALUES, max_size=30), Q)
def test_the_bound_of_an_unknown_quantile_holds_whatever_the_missing_rows_would_have_taken(known, waited, more, q):
    found = sample(known, waited).quantile(q)
    # In truth each of them took what it had waited, or longer by any amount.
    truth = [*known, *(wait + extra for wait, extra in zip(waited, [*more, *[0.0] * len(waited)], strict=False))]
    true = float(numpy.quantile(truth, q))
    if found.value is None:
        assert found.at_least is not None
        assert found.at_least <= true + 1e-6


@given(st.lists(VALUES, min_size=1, max_size=30), st.integers(0, 30), Q)
def test_losing_slow_rows_never_makes_a_quantile_smaller(values, lost, q):
    ordered = sorted(values)
    kept = ordered[: max(1, len(ordered) - lost)]
    found = sample(kept, [0.0] * (len(ordered) - len(kept))).quantile(q).value
    assert found is None or found >= numpy.quantile(ordered, q) - 1e-6 * max(1.0, ordered[-1])


@given(st.lists(VALUES, min_size=1, max_size=30), st.floats(0, 10), Q)
def test_the_interval_holds_the_value(values, half, q):
    found = sample(values, half=half).quantile(q)
    assert found.interval[0] <= found.value <= found.interval[1]


def test_the_denominator_holds_rows_that_never_got_there():
    found = sample([1.0, 2.0, 3.0], [100.0]).quantile(0.5)
    assert (found.value, found.n, found.of) == (2.5, 3, 4)


def test_a_quantile_among_rows_that_never_got_there_has_a_bound_but_no_value():
    found = sample([1.0, 2.0, 3.0], [100.0]).quantile(1.0)
    assert (found.value, found.interval, found.at_least) == (None, None, 100.0)


def test_of_no_rows_nothing_is_known():
    assert compute_quantile([], 0, 0.5) is None
    assert sample([]).quantile(0.5).value is None
