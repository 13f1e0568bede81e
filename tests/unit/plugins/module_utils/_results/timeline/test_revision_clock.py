"""The bounds of the revision clock always contain the true moment of a commit."""

from __future__ import annotations

from math import inf

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.revision_and_server_clocks import (
    RevisionClock,
    parse_resource_version,
)
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
    ruler = RevisionClock((at, moment - lags[0], moment + lags[1]) for at, (moment, lags) in numbered if lags)
    for at, (moment, _lags) in numbered:
        assert ruler.after(at) <= moment <= ruler.before(at)


@given(COMMITS, st.integers(0, 200))
def test_bounds_never_turn_back_as_versions_grow(commits, at):
    numbered = enumerate(sorted(commits, key=lambda one: one[0]), start=100)
    ruler = RevisionClock((number, moment - lags[0], moment + lags[1]) for number, (moment, lags) in numbered if lags)
    assert ruler.after(at) <= ruler.after(at + 1)
    assert ruler.before(at) <= ruler.before(at + 1)


@given(COMMITS)
def test_a_commit_of_our_own_lies_between_sent_and_answered(commits):
    numbered = list(enumerate(sorted(commits, key=lambda one: one[0]), start=100))
    ruler = RevisionClock((at, moment - lags[0], moment + lags[1]) for at, (moment, lags) in numbered if lags)
    for at, (moment, lags) in numbered:
        if lags:
            assert ruler.after(at) >= moment - lags[0]
            assert ruler.before(at) <= moment + lags[1]


def test_without_own_writes_nothing_is_known():
    ruler = RevisionClock([])
    assert (ruler.after(7), ruler.before(7)) == (-inf, inf)


def test_a_slow_answer_of_an_early_write_does_not_widen_the_bounds_of_a_later_one():
    # Sent first and answered last: others that were quicker bound more tightly.
    ruler = RevisionClock([(10, 0.0, 9.0), (20, 1.0, 1.5), (30, 2.0, 2.5)])
    assert (ruler.after(25), ruler.before(15)) == (1.0, 1.5)


@pytest.mark.parametrize(
    ("text", "number"), [("123", 123), ("0", None), ("", None), (None, None), ("12a", None), ("-3", None)]
)
def test_a_version_that_is_no_number_of_etcd_is_left_out(text, number):
    assert parse_resource_version(text) == number


READINGS = st.lists(st.tuples(MOMENTS, LAGS, LAGS), max_size=20)


@given(COMMITS, READINGS)
def test_readings_of_the_revision_leave_no_true_moment_out_and_narrow(commits, readings):
    numbered = list(enumerate(sorted(commits, key=lambda one: one[0]), start=100))
    writes = [(at, moment - lags[0], moment + lags[1]) for at, (moment, lags) in numbered if lags]
    probes = []
    for read, before, after in readings:
        revision = max((at for at, (moment, _lags) in numbered if moment <= read), default=99)
        probes.append((revision, read - before, read + after))
    with_them, without = RevisionClock(writes, probes), RevisionClock(writes)
    assert len(with_them) == len(without) == len(writes)
    for at, (moment, _lags) in numbered:
        assert without.after(at) <= with_them.after(at) <= moment <= with_them.before(at) <= without.before(at)
    for revision, sent, answered in probes:
        assert with_them.after(revision + 1) >= sent
        assert with_them.before(revision) <= answered


def test_what_has_the_revision_that_was_read_may_be_older_than_the_question():
    ruler = RevisionClock([(10, 0.0, 0.1), (30, 2.0, 2.1)], [(20, 1.0, 1.1)])
    assert (ruler.after(20), ruler.before(20)) == (0.0, 1.1)
    assert (ruler.after(21), ruler.before(21)) == (1.0, 2.1)
