"""The time that a run has spent on measuring."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import choose_next_point
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
    assert choose_next_point.seconds_spent_on_attempts(lines, at(3625)) == 60 + 60 + 20


def test_a_killed_attempt_counts_as_the_longest_complete_one() -> None:
    lines = [line("session", 0), line("decided", 10), line("decided", 70), line("session", 3600)]
    assert choose_next_point.seconds_spent_on_attempts(lines, at(3600)) == 60 + 60
    assert (
        choose_next_point.seconds_spent_on_attempts(
            [line("session", 0), line("decided", 10), line("session", 15)], at(15)
        )
        == 5
    )


def test_no_attempt_takes_no_time() -> None:
    assert choose_next_point.seconds_spent_on_attempts([], at(10)) == 0
    assert choose_next_point.seconds_spent_on_attempts([line("session", 0)], at(10)) == 0


def test_without_a_budget_there_is_none() -> None:
    assert choose_next_point.parse_budget(None, "repeat") is None
    assert choose_next_point.parse_budget("", "bisect") is None
    assert choose_next_point.parse_budget(90, "repeat") == 90
    assert choose_next_point.parse_budget("2h", "repeat") == 7200


KINDS = ("session", "decided", "decided", "finished")


def written(steps: list[tuple[str, int]]) -> list[Line]:
    """Return lines from (kind, seconds since the line before)."""
    now, lines = 0, []
    for kind, gap in steps:
        now += gap
        lines.append(line(kind, now))
    return lines


@given(st.lists(st.tuples(st.sampled_from(KINDS[1:]), st.integers(0, 300)), max_size=20), st.integers(0, 20))
def test_within_a_session_the_time_spent_only_grows(steps: list[tuple[str, int]], kept: int) -> None:
    lines = [line("session", 0), *written(steps)]
    spent = [
        choose_next_point.seconds_spent_on_attempts(some, str(some[-1]["at"])) for some in (lines[: 1 + kept], lines)
    ]
    assert 0 <= spent[0] <= spent[1]


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 300)), max_size=20))
def test_no_more_time_is_spent_than_has_passed(steps: list[tuple[str, int]]) -> None:
    """A killed attempt has an unknown length: what it counts may become less once another one is complete."""
    passed = sum(gap for _kind, gap in steps)
    assert 0 <= choose_next_point.seconds_spent_on_attempts(written(steps), at(passed)) <= passed


@pytest.mark.parametrize("pause", [0, 60, 3000])
def test_a_pause_between_sessions_changes_nothing(pause: int) -> None:
    lines = [line("session", 0), line("decided", 0), line("finished", 50)]
    lines += [line("session", 50 + pause), line("decided", 60 + pause)]
    assert choose_next_point.seconds_spent_on_attempts(lines, at(100 + pause)) == 50 + 40
