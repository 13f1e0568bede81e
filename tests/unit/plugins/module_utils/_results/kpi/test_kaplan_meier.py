"""Durations of partly censored rows: the Kaplan-Meier estimate."""

from __future__ import annotations

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.censored_quantiles import (
    DurationSample,
    kaplan_meier_shares,
)
from hypothesis import given
from hypothesis import strategies as st

TIMES = st.lists(st.integers(1, 20), max_size=25)


def sample(events, censored=(), never=0):
    middle = numpy.array([*events, *[numpy.nan] * (len(censored) + never)], dtype=float)
    waited = numpy.array([*[0.0] * len(events), *censored, *[50.0] * never], dtype=float)
    open_ = numpy.array([*[False] * len(events), *[True] * len(censored), *[False] * never])
    return DurationSample(middle, middle, middle, waited, open_)


def by_the_book(events, censored, of, at):
    """The product over distinct times t of 1 - d(t)/n(t), with n the rows at risk just before t."""
    survival = 1.0
    for moment in sorted({one for one in events if one <= at}):
        at_risk = of - sum(one < moment for one in events) - sum(one < moment for one in censored)
        survival *= 1 - sum(one == moment for one in events) / at_risk
    return 1 - survival


@given(st.lists(st.integers(1, 20), min_size=1, max_size=25), TIMES, st.integers(0, 5))
def test_the_share_is_that_of_the_textbook(events, censored, never):
    of = len(events) + len(censored) + never
    found = kaplan_meier_shares(
        numpy.sort(numpy.array(events, dtype=float)), numpy.sort(numpy.array(censored, dtype=float)), of
    )
    for moment in set(events):
        last = found[sorted(events).index(moment) + events.count(moment) - 1]
        assert last == pytest.approx(by_the_book(events, censored, of, moment), abs=1e-9)


def test_the_example_of_freireich_remission_times():
    """6-MP arm of the classic trial: 21 patients, S(10) = 0.753, S(23) = 0.448 (Cox and Oakes 1984)."""
    events = [6, 6, 6, 7, 10, 13, 16, 22, 23]
    censored = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    found = kaplan_meier_shares(numpy.array(events, dtype=float), numpy.array(censored, dtype=float), 21)
    assert 1 - found[4] == pytest.approx(0.753, abs=0.001)
    assert 1 - found[8] == pytest.approx(0.448, abs=0.001)
    assert sample(events, censored).quantile(0.5).value == pytest.approx(23, abs=1)


def test_rows_still_waiting_move_a_quantile_up_and_never_down():
    usual = sample(range(1, 11)).quantile(0.5).value
    assert sample(range(1, 11), [5, 5, 5, 5]).quantile(0.5).value > usual


def test_a_row_that_just_came_when_the_observation_ended_says_nothing():
    """A row censored at once has no influence; counted as never, it would raise the median."""
    assert sample([1, 2, 3], [0.0]).quantile(0.5).value == pytest.approx(2, abs=0.5)
    assert sample([1, 2, 3], never=1).quantile(0.5).value == 2.5


def test_the_maximum_is_not_known_as_long_as_a_row_has_no_value():
    found = sample([1, 2, 3], [0.5]).quantile(1.0)
    assert (found.value, found.n, found.of) == (None, 3, 4)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=25), TIMES, st.floats(0.01, 0.99))
def test_a_censored_row_never_makes_a_figure_smaller_than_leaving_it_out(events, censored, q):
    without = sample(events).quantile(q).value
    found = sample(events, censored).quantile(q).value
    assert found is None or found >= without - 1.0 - 1e-9 or found >= min(events)
    assert found is None or min(events) <= found <= max(events)
