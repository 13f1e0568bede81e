"""The resourceVersion ruler never leaves out the true moment of a commit."""

from __future__ import annotations

from math import inf

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.ruler import Ruler, version
from hypothesis import given
from hypothesis import strategies as st

#: A commit: its moment, how long before it was sent, how long after it was answered; None: not ours.
MOMENTS = st.floats(0, 1000, allow_nan=False)
LAGS = st.floats(0, 5, allow_nan=False)
COMMITS = st.lists(
    st.tuples(MOMENTS, st.one_of(st.none(), st.tuples(LAGS, LAGS))),
    min_size=1,
    max_size=40,
    unique_by=lambda one: one[0],
)


@given(COMMITS)
def test_the_true_moment_of_every_commit_lies_within_its_bounds(commits):
    numbered = list(enumerate(sorted(commits, key=lambda one: one[0]), start=100))
    ruler = Ruler((at, moment - lags[0], moment + lags[1]) for at, (moment, lags) in numbered if lags)
    for at, (moment, _lags) in numbered:
        assert ruler.after(at) <= moment <= ruler.before(at)


@given(COMMITS, st.integers(0, 200))
def test_bounds_never_turn_back_as_versions_grow(commits, at):
    numbered = enumerate(sorted(commits, key=lambda one: one[0]), start=100)
    ruler = Ruler((number, moment - lags[0], moment + lags[1]) for number, (moment, lags) in numbered if lags)
    assert ruler.after(at) <= ruler.after(at + 1)
    assert ruler.before(at) <= ruler.before(at + 1)


@given(COMMITS)
def test_a_commit_of_our_own_lies_between_sent_and_answered(commits):
    numbered = list(enumerate(sorted(commits, key=lambda one: one[0]), start=100))
    ruler = Ruler((at, moment - lags[0], moment + lags[1]) for at, (moment, lags) in numbered if lags)
    for at, (moment, lags) in numbered:
        if lags:
            assert ruler.after(at) >= moment - lags[0]
            assert ruler.before(at) <= moment + lags[1]


def test_without_own_writes_nothing_is_known():
    ruler = Ruler([])
    assert (ruler.after(7), ruler.before(7)) == (-inf, inf)


def test_a_slow_answer_of_an_early_write_does_not_widen_the_bounds_of_a_later_one():
    # Sent first and answered last: others that were quicker bound more tightly.
    ruler = Ruler([(10, 0.0, 9.0), (20, 1.0, 1.5), (30, 2.0, 2.5)])
    assert (ruler.after(25), ruler.before(15)) == (1.0, 1.5)


@pytest.mark.parametrize(
    ("text", "number"), [("123", 123), ("0", None), ("", None), (None, None), ("12a", None), ("-3", None)]
)
def test_a_version_that_is_no_number_of_etcd_is_left_out(text, number):
    assert version(text) == number


@given(COMMITS, st.integers(90, 160))
def test_both_bounds_at_once_are_the_same_as_one_by_one(commits, at):
    numbered = enumerate(sorted(commits, key=lambda one: one[0]), start=100)
    ruler = Ruler((number // 2, moment - lags[0], moment + lags[1]) for number, (moment, lags) in numbered if lags)
    assert ruler.bounds(at // 2) == (ruler.after(at // 2), ruler.before(at // 2))
