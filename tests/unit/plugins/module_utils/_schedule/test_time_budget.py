"""The time that a run has spent on measuring."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._schedule import time_budget
from hypothesis import given
from hypothesis import strategies as st

Line = dict[str, object]


def at(second: float) -> str:
    whole = int(second)
    return f"2026-11-22T{10 + whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}Z"


def line(kind: str, second: float) -> Line:
    return {"type": kind, "at": at(second)}


def test_attempts_count_and_the_time_between_sessions_does_not() -> None:
    lines = [line("session", 0), line("decided", 10), line("decided", 70), line("finished", 130)]
    lines += [line("session", 3600), line("decided", 3605)]
    assert time_budget.spent(lines, at(3625)) == 60 + 60 + 20


def test_a_killed_attempt_counts_as_the_longest_complete_one() -> None:
    lines = [line("session", 0), line("decided", 10), line("decided", 70), line("session", 3600)]
    assert time_budget.spent(lines, at(3600)) == 60 + 60
    assert time_budget.spent([line("session", 0), line("decided", 10), line("session", 15)], at(15)) == 5


def test_no_attempt_takes_no_time() -> None:
    assert time_budget.spent([], at(10)) == 0
    assert time_budget.spent([line("session", 0)], at(10)) == 0


def test_without_a_budget_there_is_none() -> None:
    assert time_budget.parse(None, "repeat") is None
    assert time_budget.parse("", "bisect") is None
    assert time_budget.parse(90, "repeat") == 90
    assert time_budget.parse("2h", "repeat") == 7200


@given(
    st.lists(
        st.tuples(st.sampled_from(["session", "decided", "decided", "finished"]), st.integers(0, 300)), max_size=20
    ),
    st.integers(0, 20),
)
def test_lines_that_were_cut_off_never_shorten_what_is_left(steps: list[tuple[str, int]], kept: int) -> None:
    """A file that was cut gives the same attempts at least as much time: a budget never ends earlier by a kill."""
    now, lines = 0, []
    for kind, gap in steps:
        now += gap
        lines.append(line(kind, now))
    whole = time_budget.spent(lines, at(now))
    cut = lines[:kept]
    last = [str(one["at"]) for one in cut][-1:] or [at(0)]
    assert 0 <= time_budget.spent(cut, last[0]) <= whole or len(cut) > kept


@pytest.mark.parametrize("pause", [0, 60, 3000])
def test_a_pause_between_sessions_changes_nothing(pause: int) -> None:
    lines = [line("session", 0), line("decided", 0), line("finished", 50)]
    lines += [line("session", 50 + pause), line("decided", 60 + pause)]
    assert time_budget.spent(lines, at(100 + pause)) == 50 + 40
