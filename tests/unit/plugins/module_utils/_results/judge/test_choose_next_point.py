# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which point is next: the order, and that sessions of any outcome end without measuring a point twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.choose_next_point import (
    PlannedPoint,
    PointAttempt,
    ScheduleFinished,
    ScheduleState,
    attempts_demanded_by_redo,
    choose_next_point,
    parse_points_to_redo,
)
from hypothesis import given
from hypothesis import strategies as st


def attempt(name: str, status: str, **record: Any) -> PointAttempt:
    of, _dash, number = name.partition("-")
    return PointAttempt(of, int(number or 1), {"status": status, **record})


def state(*attempts: PointAttempt, **more: Any) -> ScheduleState:
    return ScheduleState(tuple(attempts), **more)


def names(found: ScheduleState) -> list[str]:
    """What a session that begins in this state measures, if each attempt passes."""
    order = []
    while isinstance(one := choose_next_point(found), PlannedPoint):
        order.append(one.name)
        ended = tuple(
            replace(each, record={"status": "passed"}) if each.name == one.name else each for each in found.attempts
        )
        found = replace(found, attempts=ended, decided=found.decided | {one.name})
    return order


def test_an_interrupted_point_comes_first_then_further_attempts_then_points_that_were_not_begun() -> None:
    found = state(
        attempt("001", "passed"),
        attempt("001-2", "planned", why="redo=001"),
        attempt("002", "failed"),
        attempt("003", "planned"),
        attempt("004", "running"),
        attempt("005", "skipped", why="too large"),
    )
    assert names(found) == ["004", "001-2", "003"]
    assert [one.why for one in map(choose_next_point, (found,)) if isinstance(one, PlannedPoint)] == [
        "The session that measured it was interrupted."
    ]


def test_the_end_names_what_passed_and_what_failed() -> None:
    end = choose_next_point(state(attempt("001", "passed"), attempt("002", "failed"), attempt("003", "skipped")))
    assert end == ScheduleFinished("Each point has been measured: 001 passed; 002 failed.")
    assert choose_next_point(state()) == ScheduleFinished("There is no point to measure.")


def test_after_a_failure_in_this_session_the_rest_is_left_if_so_set() -> None:
    attempts = (attempt("001", "failed"), attempt("002", "failed"), attempt("003", "planned"))
    now = state(*attempts, decided=frozenset({"002"}), stop_on_error=True)
    assert choose_next_point(now) == ScheduleFinished(
        "Point 002 failed, and run_stop_on_error is set; not measured: 003."
    )
    later = choose_next_point(state(*attempts, stop_on_error=True))
    assert isinstance(later, PlannedPoint), "the failures of an earlier session stop nothing"
    assert (later.name, later.last) == ("003", True)


def test_a_point_whose_end_could_not_be_recorded_is_not_measured_again_in_the_same_session() -> None:
    found = state(attempt("001", "running"), decided=frozenset({"001"}))
    assert isinstance(choose_next_point(found), ScheduleFinished)


def test_a_chooser_gets_a_fresh_attempt_and_only_after_everything_else() -> None:
    asked: list[int] = []

    def choose(found: ScheduleState) -> PlannedPoint | None:
        asked.append(len(found.attempts))
        return PlannedPoint("001", 1, "again") if len(found.attempts) < 3 else None

    first = choose_next_point(state(attempt("001", "planned")), [choose])
    assert isinstance(first, PlannedPoint)
    assert (first.name, first.last, asked) == ("001", False, [])
    again = choose_next_point(state(attempt("001", "passed"), attempt("001-2", "failed"), stop_on_error=True), [choose])
    assert isinstance(again, PlannedPoint)
    assert (again.name, again.why) == ("001-3", "again")
    both = state(attempt("001", "passed"), attempt("001-2", "failed"), attempt("001-3", "passed"))
    assert isinstance(choose_next_point(both, [choose]), ScheduleFinished)


STATUS = st.sampled_from(["planned", "running", "passed", "failed", "skipped"])


@given(st.data())
def test_any_run_ends_and_measures_a_point_that_has_ended_only_on_redo(data: st.DataObject) -> None:
    """Sessions with any outcomes, each cut short after any number of points or not, with and without redo."""
    attempts = {f"{number:03d}": "planned" for number in range(1, data.draw(st.integers(1, 6)) + 1)}
    points = list(attempts)

    def now(decided: frozenset[str] = frozenset(), stop: bool = False) -> ScheduleState:
        return state(*(attempt(name, status) for name, status in attempts.items()), decided=decided, stop_on_error=stop)

    for _session in range(data.draw(st.integers(1, 5))):
        asked = data.draw(st.lists(st.sampled_from(["failed", "inconclusive", *points]), max_size=3))
        for one in attempts_demanded_by_redo(asked, now(), data.draw(st.sets(st.sampled_from(points)))):
            assert one.name not in attempts, "never two attempts with one number"
            attempts[one.name] = "planned"
        before = dict(attempts)
        decided: frozenset[str] = frozenset()
        stop = data.draw(st.booleans())
        for _round in range(len(attempts) + 1):
            found = choose_next_point(now(decided, stop))
            if isinstance(found, ScheduleFinished):
                break
            assert before[found.name] in ("planned", "running")
            assert found.name not in decided
            decided |= {found.name}
            attempts[found.name] = data.draw(st.sampled_from(["planned", "running", "passed", "failed"]))
            if data.draw(st.integers(0, 9)) == 0:
                break  # the session is killed
        else:
            pytest.fail("a session did not end")
        assert all(attempts[name] == status for name, status in before.items() if status in ("passed", "failed"))


@given(st.dictionaries(st.sampled_from(["001", "001-2", "002", "002-2", "002-3", "003"]), STATUS, min_size=1))
def test_the_attempt_that_counts_is_the_last_that_passed_else_the_last_begun(found: dict[str, str]) -> None:
    attempts = [attempt(name, status) for name, status in found.items()]
    counted = state(*attempts).counted()
    assert [one.of for one in counted] == sorted({one.of for one in attempts})
    for one in counted:
        mine = sorted((each for each in attempts if each.of == one.of), key=lambda each: each.attempt)
        passed = [each for each in mine if each.status == "passed"]
        begun = [each for each in mine if each.status in ("running", "failed")]
        assert one is (passed[-1] if passed else begun[-1] if begun else mine[0])


POINTS = ["001", "002", "003", "004", "005"]


@pytest.mark.parametrize("text", ["failed,003", "failed 003", ["failed", "003"], ["failed,003"]])
def test_redo_is_a_list_of_words_and_points(text: Any) -> None:
    assert parse_points_to_redo(text, POINTS) == ["failed", "003"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("03", r"redo: there is no point '03' \(did you mean '003'\?\); the run has 001 … 005"),
        ("17", r"redo: there is no point '17'; the run has 001 … 005"),
        (3, r"redo: there is no point '3' \(did you mean '003'\?\)"),
        ("faild", r"redo: 'faild' is neither failed, inconclusive nor a point \(did you mean 'failed'\?\)"),
        ("003-2", r"redo: '003-2' is an attempt; name its point, redo=003"),
        ("", r"-e redo= is empty; give failed, inconclusive or numbers of points"),
    ],
)
def test_a_wrong_redo_is_refused_with_what_there_is(text: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_points_to_redo(text, POINTS)


def test_redo_chooses_points_that_have_ended() -> None:
    found = state(
        attempt("001", "passed"),
        attempt("001-2", "failed"),
        attempt("002", "failed"),
        attempt("003", "failed"),
        attempt("003-2", "planned"),
        attempt("004", "planned"),
        attempt("005", "passed"),
    )
    assert [one.name for one in attempts_demanded_by_redo(["failed"], found)] == ["002-2"], "001 passed once"
    assert [one.name for one in attempts_demanded_by_redo(["failed"], found, repeats=True)] == ["001-3", "002-2"], (
        "all count"
    )
    assert [one.name for one in attempts_demanded_by_redo(["001", "003", "004"], found)] == ["001-3"]
    assert [one.name for one in attempts_demanded_by_redo(["inconclusive"], found, {"005"})] == ["005-2"]
    with pytest.raises(InputError, match=r"redo: point 006 is skipped: matrix_skip_if\[0\]"):
        attempts_demanded_by_redo(["006"], state(attempt("006", "skipped", why="matrix_skip_if[0]")))
