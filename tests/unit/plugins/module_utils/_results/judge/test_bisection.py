"""What a bisection measures next, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import bisection, bisection_plan
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.bisection import BisectionEnd, NextValue
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.bisection_plan import (
    BisectionMeasurement,
    BisectionPlan,
)
from hypothesis import given, settings
from hypothesis import strategies as st

RAW = {"over": "fine_tuning_count", "values": [1, 2, 4, 8], "kpi": "latency_p95"}


def plan(values: int, **more: object) -> BisectionPlan:
    parsed = bisection_plan.parse_bisect_keyword({**RAW, "values": list(range(values)), **more})
    assert parsed is not None
    return parsed


def run(of: BisectionPlan, figure: Callable[[int], float | None]) -> tuple[BisectionEnd, list[BisectionMeasurement]]:
    """Bisect until the end; figure: index of a value -> what one run measures."""
    measured: list[BisectionMeasurement] = []
    while True:
        found = bisection.next_value(of, measured, 0.0)
        if isinstance(found, BisectionEnd):
            return found, measured
        assert len(measured) < of.most, "it did not end"
        measured.append(BisectionMeasurement(found.index, figure(found.index)))


def means(of: Sequence[float], seed: int, noise: float = 0.05) -> Callable[[int], float]:
    random = numpy.random.default_rng(seed)
    return lambda index: float(of[index] * numpy.exp(noise * random.standard_normal()))


@pytest.mark.parametrize("values", [2, 3, 6, 8])
def test_a_step_is_found(values: int) -> None:
    for step in range(values - 1):
        end, measured = run(plan(values), means([1.0] * (step + 1) + [1.4] * (values - 1 - step), step))
        assert (end.verdict, end.step) == ("pass", step), end
        assert f"fine_tuning_count = {step} and {step + 1}" in end.why
        assert len(measured) <= 25


def bounded(of: BisectionPlan, figure: Callable[[int], float], limit: float) -> BisectionEnd:
    """Bisect figures of which only "limit or more" is known if they are higher."""
    measured: list[BisectionMeasurement] = []
    while not isinstance(found := bisection.next_value(of, measured, 0.0), BisectionEnd):
        value = figure(found.index)
        known = (value, None) if value < limit else (None, limit)
        measured.append(BisectionMeasurement(found.index, *known))
    return found


@pytest.mark.parametrize("step", [0, 2, 4])
def test_a_bound_is_evidence_of_the_step(step: int) -> None:
    """Beyond the step the observation ends before the slowest workload, so "1.3 or longer" is all that is known."""
    of = plan(6)
    end = bounded(of, means([1.0] * (step + 1) + [2.0] * (5 - step), step), 1.3)
    assert (end.verdict, end.step) == ("pass", step), end
    failed = bisection.next_value(of, [BisectionMeasurement(index, None) for index in (0, 5, 5)], 0.0)
    assert isinstance(failed, BisectionEnd) and failed.verdict == "invalid", "a run without figure or bound is none"


def test_a_bound_that_is_too_low_says_nothing() -> None:
    exact = [BisectionMeasurement(index, value) for index, value in ((0, 1.0), (0, 1.02), (5, 2.0), (5, 2.04))]
    low = [*exact, BisectionMeasurement(2, None, 1.1)]
    assert bisection.next_value(plan(6), low, 0.0) == bisection.next_value(plan(6), exact, 0.0)
    end = bisection.next_value(plan(6), [*low, BisectionMeasurement(2, None, 1.2)], 0.0)
    assert isinstance(end, BisectionEnd) and "only a bound of latency_p95, too low" in end.why
    both = [BisectionMeasurement(index, None, 9.0) for index in (0, 5)]
    assert bisection.fill_figures_from_lower_bounds(plan(6), both) == both, (
        "of two bounds none is known to be the lower"
    )


@pytest.mark.long
def test_wrong_steps_are_rarer_than_stated() -> None:
    """Of 60 bisections with a step of two deviations at most 8 name a wrong one: 5 % with a binomial bound of 99 %."""
    random = numpy.random.default_rng(7)
    wrong = 0
    for seed in range(60):
        step = int(random.integers(0, 5))
        end, _measured = run(plan(6), means([1.0] * (step + 1) + [1.1] * (5 - step), seed))
        wrong += end.verdict == "pass" and end.step != step
    assert wrong <= 8


@pytest.mark.long
def test_equal_ends_are_rarely_found_to_differ() -> None:
    """200 bisections without a difference, each looked at 20 times: at most 7 at 1 % (binomial bound of 99.5 %)."""
    found = [run(plan(4, max=20), means([1.0] * 4, seed)) for seed in range(200)]
    assert sum(end.why.startswith("no difference") is False for end, _measured in found) <= 7
    quiet = next(end for end, _measured in found if end.why.startswith("no difference"))
    assert quiet.verdict == "inconclusive"
    assert quiet.why == (
        "no difference of latency_p95 between 0 and 3 after 20 runs: nothing to bisect (max is 20 runs)"
    )


def test_the_ends_alternate_until_they_differ() -> None:
    _end, measured = run(plan(4, max=10), means([1.0] * 4, 3))
    assert [one.index for one in measured] == [0, 3] * 5


def test_figures_without_noise_are_bisected_too() -> None:
    end, _measured = run(plan(6), lambda index: 5.0 if index < 2 else 7.0)
    assert (end.verdict, end.step) == ("pass", 1)
    end, _measured = run(plan(6), lambda _index: 5.0)
    assert end.why.startswith("no difference")


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.05])
def test_a_gradual_change_is_called_gradual(noise: float) -> None:
    for seed in range(10):
        end, _measured = run(plan(8), means([1.0 + 0.1 * index for index in range(8)], seed, noise))
        assert end.verdict == "inconclusive", end
        assert end.step is None
        assert "gradual" in end.why


def test_a_figure_that_is_missing_twice_ends_it() -> None:
    end, measured = run(plan(4), lambda index: 1.0 if index == 0 else None)
    assert end == BisectionEnd("invalid", "2 runs in a row with fine_tuning_count = 3 have no latency_p95")
    assert len(measured) == 4


def test_a_value_without_a_figure_is_left_out() -> None:
    """As a revision that can't be built, the ends excepted."""
    of = plan(6)
    low, high = means([1.0] * 6, 1), means([1.5] * 6, 1)
    end, measured = run(of, lambda index: None if index in (2, 3) else high(index) if index > 3 else low(index))
    assert (end.verdict, end.step) == ("pass", 1), end
    assert end.why.startswith("the step of latency_p95 is between fine_tuning_count = 1 and 4: probability")
    assert end.why.endswith("; no run at 2 and 3 had this figure")
    assert max(sum(one.index == index for one in measured) for index in (2, 3)) == 2
    document = bisection.bisection_state_document(of, measured, [f"{at:03}" for at in range(len(measured))], end)
    assert document["step"] == {"index": 1, "before": 1, "after": 4, "probability": document["probabilities"][1]}
    assert document["probabilities"][1] >= 0.95
    assert document["probabilities"][2:4] == [0.0, 0.0]
    assert sum(document["probabilities"]) == pytest.approx(1.0)


def test_the_budget_ends_it() -> None:
    found = bisection.next_value(plan(4, budget="1h"), [BisectionMeasurement(0, 1.0)], 3600.0)
    assert isinstance(found, BisectionEnd)
    assert "the budget of 60 min 0 s is used up" in found.why


@given(
    st.integers(2, 8),
    st.lists(st.tuples(st.integers(0, 7), st.none() | st.floats(0.01, 100)), max_size=30),
)
@settings(max_examples=50, deadline=None)
def test_what_comes_next_depends_on_the_runs_alone(values: int, runs: list[tuple[int, float | None]]) -> None:
    """So a bisection that was interrupted anywhere goes on as it would have gone on then."""
    of = plan(values)
    measured = [BisectionMeasurement(index % values, figure) for index, figure in runs]
    found = bisection.next_value(of, measured, 0.0)
    assert bisection.next_value(of, list(measured), 0.0) == found
    if isinstance(found, NextValue):
        assert 0 <= found.index < values
        assert len(measured) < of.most
    elif found.step is not None:
        assert sum(bisection.probabilities_of_step_places(of, measured)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"values": [1]}, "values: 1 value; a bisection needs a good and a bad one"),
        ({"values": "1,2"}, "values needs a list from a good to a bad value"),
        ({"values": [1, 2, 1]}, "values: 1 is given twice"),
        ({"kpi": ""}, "bisect: kpi needs a name"),
        ({"over": None}, "bisect: over needs a name"),
        ({"least": 2}, "bisect: least '2' is not a valid probability between 0.5 and 1"),
        ({"max": "x"}, "bisect: max 'x' is not a valid number of attempts"),
        ({"budget": "2x"}, "bisect: budget '2x' is not a valid duration"),
        ({"kpis": "latency"}, r"bisect: unknown key 'kpis' \(did you mean 'kpi'\?\)"),
    ],
)
def test_a_wrong_word_is_refused(more: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        bisection_plan.parse_bisect_keyword({**RAW, **more})


def test_nothing_is_bisected_by_default() -> None:
    assert bisection_plan.parse_bisect_keyword({}) is None
