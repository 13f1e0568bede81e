"""Repeating points until their figures are decided."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import repeat_until_decided
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.choose_next_point import (
    PlannedPoint,
    ScheduleFinished,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.repeat_until_decided import (
    RepeatedFigureReading,
    RepeatedPoint,
    RepetitionPlan,
)
from hypothesis import given
from hypothesis import strategies as st

READINGS = ("within", "outside", "across", "pass", "regression", "improvement", "inconclusive", "not measured")
points = st.lists(
    st.builds(
        RepeatedPoint,
        st.sampled_from(["001", "002", "003"]),
        st.integers(1, 12),
        st.booleans(),
        st.lists(st.builds(RepeatedFigureReading, st.just("latency"), st.sampled_from(READINGS)), max_size=3).map(
            tuple
        ),
    ),
    unique_by=lambda one: one.point,
)


def test_nothing_is_repeated_by_default() -> None:
    assert repeat_until_decided.parse_repeat_keyword({}) is None
    assert repeat_until_decided.parse_repeat_keyword(None) is None


def test_a_budget_is_a_duration() -> None:
    asked = {"until": "decided", "max": "12", "budget": "1 h 30 min", "least": 3}
    assert repeat_until_decided.parse_repeat_keyword(asked) == RepetitionPlan(12, 5400.0, 3)
    assert repeat_until_decided.parse_repeat_keyword({"budget": "2h"}) == RepetitionPlan(10, 7200.0, 2)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"untill": "decided"}, r"repeat: unknown key 'untill' \(did you mean 'until'\?\)"),
        ({"until": "decide"}, r"until 'decide' is unknown \(did you mean 'decided'\?\)"),
        ({"budget": "2x"}, "repeat: budget '2x' is not a valid duration"),
        ({"budget": "-2 h"}, "repeat: budget '-2 h' is not a valid duration"),
        ({"max": 0}, "repeat: max '0' is not a valid number of attempts, 1 to 500"),
        ({"max": True}, "repeat: max 'True' is not a valid number"),
        ({"max": 2, "least": 3}, "repeat: least 3 is more than max 2"),
        ("decided", "repeat needs a dictionary"),
    ],
)
def test_a_wrong_word_is_refused(raw: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        repeat_until_decided.parse_repeat_keyword(raw)


def test_the_undecided_point_with_the_fewest_attempts_is_next() -> None:
    across = RepeatedFigureReading("latency_p95", "across", "1.9 to 2.3 s may be within or outside the limit, max 2 s.")
    found = repeat_until_decided.next_attempt(
        RepetitionPlan(),
        [
            RepeatedPoint("001", 3, readings=(across,)),
            RepeatedPoint("002", 2, readings=(RepeatedFigureReading("latency_p95", "within"),)),
            RepeatedPoint("003", 2, readings=(across,)),
        ],
        0.0,
    )
    assert found == PlannedPoint("003", 3, f"After 2 attempts latency_p95 is not decided: {across.text}")


def test_a_decided_point_gets_its_least_attempts() -> None:
    within = RepeatedPoint("001", 1, readings=(RepeatedFigureReading("latency", "within"),))
    assert repeat_until_decided.next_attempt(RepetitionPlan(), [within], 0.0) == PlannedPoint(
        "001", 2, "2 attempts are the least"
    )
    assert isinstance(repeat_until_decided.next_attempt(RepetitionPlan(least=1), [within], 0.0), ScheduleFinished)


def test_the_end_names_what_is_not_decided() -> None:
    across = RepeatedPoint("001", 4, readings=(RepeatedFigureReading("latency", "across"),))
    used = repeat_until_decided.next_attempt(RepetitionPlan(budget=60.0), [across], 61.0)
    assert used == ScheduleFinished("The budget of 60 s is used up (61 s); not decided: point 001.")
    most = repeat_until_decided.next_attempt(RepetitionPlan(most=4), [across], 0.0)
    assert most == ScheduleFinished("4 attempts at each undecided point were made; not decided: point 001.")
    failed = RepeatedPoint("002", 1, True, (RepeatedFigureReading("latency", "not measured"),))
    end = repeat_until_decided.next_attempt(RepetitionPlan(), [failed], 0.0)
    assert end == ScheduleFinished("Every judged figure is decided, but the last attempt failed at point 002.")


def test_a_figure_that_no_attempt_can_decide_ends_the_repetition_undecided() -> None:
    why = "not enough history: no past run with this figure; history could not be read: s3://a: no answer"
    stuck = RepeatedFigureReading("latency", "inconclusive", why, can_change=False)
    points = [RepeatedPoint("001", 2, readings=(stuck,)), RepeatedPoint("002", 2, readings=(stuck,))]
    end = repeat_until_decided.next_attempt(RepetitionPlan(), points, 0.0)
    assert end == ScheduleFinished(f"No further attempt can decide latency (and 1 further figure): {why}.")
    across = RepeatedPoint("003", 2, readings=(stuck, RepeatedFigureReading("latency", "across", "It may be.")))
    found = repeat_until_decided.next_attempt(RepetitionPlan(), [*points, across], 0.0)
    assert found == PlannedPoint("003", 3, "After 2 attempts latency is not decided: It may be.")


@given(points, st.integers(1, 12), st.integers(1, 4), st.none() | st.floats(0.1, 100), st.floats(0, 200))
def test_an_attempt_is_made_only_where_something_is_open(
    of: list[RepeatedPoint], most: int, least: int, budget: float | None, spent: float
) -> None:
    plan = RepetitionPlan(max(most, least), budget, least)
    found = repeat_until_decided.next_attempt(plan, of, spent)
    if isinstance(found, PlannedPoint):
        (point,) = [one for one in of if one.point == found.of]
        assert found.attempt == point.attempts + 1 <= plan.most
        assert not point.failed
        assert repeat_until_decided.undecided_kpi_readings(point) or point.attempts < least
        assert budget is None or spent < budget
    else:
        able = [one for one in of if not one.failed and one.attempts < plan.most]
        left = [one for one in able if repeat_until_decided.undecided_kpi_readings(one) or one.attempts < least]
        assert not left or (budget is not None and spent >= budget)


@given(points.filter(bool), st.integers(2, 12))
def test_repetition_ends(of: list[RepeatedPoint], most: int) -> None:
    """No reading changes, and yet it ends: after at most ``most`` attempts at each point."""
    state = {one.point: one for one in of}
    for _step in range(most * len(of) + 1):
        found = repeat_until_decided.next_attempt(RepetitionPlan(most), list(state.values()), 0.0)
        if isinstance(found, ScheduleFinished):
            return
        old = state[found.of]
        state[found.of] = RepeatedPoint(old.point, found.attempt, old.failed, old.readings)
    raise AssertionError("it did not end")
