"""Arrivals: what each type promises, the same on every machine, and bad input named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import arrival_times as module
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.arrival_times import arrivals_from_options
from hypothesis import given, settings
from hypothesis import strategies as st

GOLDEN = Path(__file__).parent / "moments.json"
PACED = ("constant", "poisson", "gamma", "uniform", "normal", "bimodal", "burst")
PLACED = ("uniform", "normal", "bimodal")


def moments(given_: dict[str, Any], count: int, seed: int | None = 1) -> list[float]:
    found = arrivals_from_options(given_, count, seed).offsets
    assert all(one is not None for one in found)
    return [one for one in found if one is not None]


@settings(deadline=None)
@given(
    st.sampled_from(PACED),
    st.integers(0, 300),
    st.floats(0.01, 5000),
    st.sampled_from(["rate", "timespan"]),
    st.integers(0, 2**64),
)
def test_every_type_gives_its_count_in_order_from_0_on(
    kind: str, count: int, value: float, key: str, seed: int
) -> None:
    found = moments({"type": kind, key: value}, count, seed)
    assert len(found) == count
    assert found == sorted(found) and all(one >= 0 for one in found)
    if kind in PLACED and count:
        assert found[-1] <= (value if key == "timespan" else count / value) + 1e-6
    assert found == moments({"type": kind, key: value}, count, seed), "the same seed gave other moments"


@settings(deadline=None)
@given(st.floats(0.001, 100_000), st.integers(0, 400))
def test_constant_arrivals_keep_their_rate_to_the_last_one(rate: float, count: int) -> None:
    assert moments({"rate": rate}, count, None) == [index / rate for index in range(count)]


@pytest.mark.parametrize("kind", sorted(module.RANDOM_TYPES))
def test_drawn_moments_are_those_of_the_first_day(kind: str) -> None:
    """Written down once: another numpy, Python or machine must give the same plan."""
    golden = json.loads(GOLDEN.read_text())
    assert moments({"type": kind, "rate": 20}, 40, 20261121) == golden[kind]


def test_another_seed_is_another_load() -> None:
    drawn = [tuple(moments({"type": "poisson", "rate": 5}, 50, seed)) for seed in range(20)]
    assert len(set(drawn)) == 20


@pytest.mark.parametrize(
    ("asked", "variation"),
    [({"type": "poisson"}, 1.0), ({"type": "gamma"}, 2**0.5), ({"type": "gamma", "shape": 4}, 0.5)],
)
def test_gaps_have_the_mean_and_the_variation_of_their_distribution(asked: dict[str, Any], variation: float) -> None:
    gaps = np.diff([0.0, *moments({**asked, "rate": 20}, 40_000)])
    assert np.mean(gaps) == pytest.approx(1 / 20, rel=0.03)
    assert np.std(gaps) / np.mean(gaps) == pytest.approx(variation, rel=0.03)


def test_poisson_gaps_are_exponential_and_gamma_ones_of_shape_1_too() -> None:
    """By the largest difference of the empirical and the exponential distribution function (Kolmogorov)."""
    for asked in ({"type": "poisson"}, {"type": "gamma", "shape": 1}):
        gaps = np.sort(np.diff([0.0, *moments({**asked, "rate": 1}, 20_000)]))
        steps = np.arange(1, len(gaps) + 1) / len(gaps)
        # 1.95/√n is exceeded by chance once in a thousand; the seed is fixed.
        assert np.max(np.abs(steps - (1 - np.exp(-gaps)))) < 1.95 / len(gaps) ** 0.5


def test_placed_moments_lie_where_their_shape_says() -> None:
    span = 100.0
    found = {kind: np.array(moments({"type": kind, "timespan": span}, 20_000)) for kind in PLACED}
    assert np.mean(found["uniform"]) == pytest.approx(50, abs=1) and np.std(found["uniform"]) == pytest.approx(
        span / 12**0.5, rel=0.02
    )
    assert np.mean(found["normal"]) == pytest.approx(50, abs=0.5)
    # Cut at three standard deviations, a normal distribution keeps 98.7 % of its own.
    assert np.std(found["normal"]) == pytest.approx(0.987 * span / 6, rel=0.02)
    halves = found["bimodal"][found["bimodal"] < 50], found["bimodal"][found["bimodal"] >= 50]
    assert len(halves[0]) == pytest.approx(10_000, rel=0.05)
    assert [np.mean(half) for half in halves] == pytest.approx([25, 75], abs=1)


def test_a_share_of_all_leaves_the_second_peak_empty() -> None:
    found = moments({"type": "bimodal", "timespan": 10, "share": 1, "spread": 0.01}, 500)
    assert max(found) < 4 and min(found) > 1


def test_bursts_go_together_and_keep_the_rate() -> None:
    found = moments({"type": "burst", "rate": 5, "size": 4}, 10, None)
    assert found == [0.0] * 4 + [0.8] * 4 + [1.6] * 2


def test_steps_hold_their_rates_and_a_rate_of_0_is_a_pause() -> None:
    steps = [{"rate": 2, "duration": 2}, {"rate": 0, "duration": 3}, {"rate": 4, "duration": 0.5}]
    assert moments({"type": "steps", "steps": steps}, 0, None) == [0, 0.5, 1.0, 1.5, 5.0, 5.25]
    assert moments({"type": "steps", "steps": steps}, 3, None) == [0, 0.5, 1.0]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=6).filter(
        lambda steps: sum(rate * span for rate, span in steps) > 0
    )
)
def test_at_the_end_of_each_step_as_many_are_due_as_it_holds(steps: list[tuple[int, int]]) -> None:
    asked = [{"rate": rate, "duration": span} for rate, span in steps]
    found = moments({"type": "steps", "steps": asked}, 0, None)
    end = due = 0
    for rate, span in steps:
        end, due = end + span, due + rate * span
        assert sum(one < end - 1e-9 for one in found) == due
    assert found == sorted(found)


@settings(deadline=None)
@given(st.floats(0, 200), st.floats(0, 200), st.integers(0, 400))
def test_a_ramp_has_sent_what_the_area_under_its_rate_says(first: float, last: float, count: int) -> None:
    if first + last < 0.1:
        return
    found = moments({"type": "ramp", "rate": first, "to_rate": last}, count, None)
    span = 2 * count / (first + last)
    assert len(found) == count and found == sorted(found)
    for index, at in enumerate(found):
        area = first * at + (last - first) / span * at * at / 2
        assert area == pytest.approx(index, abs=1e-6 * max(count, 1))
        assert at <= span * (1 + 1e-9)


def test_a_ramp_over_a_timespan_tells_its_count() -> None:
    assert len(moments({"type": "ramp", "rate": 0, "to_rate": 20, "timespan": 10}, 0, None)) == 100


def test_rate_and_timespan_together_tell_the_count() -> None:
    assert arrivals_from_options({"rate": 20, "timespan": 3}, 0, None).count == 60
    assert arrivals_from_options({"timespan": 5}, 50, None).header == {"type": "constant", "rate": 10.0}


def test_a_trace_is_replayed_by_time_and_speed() -> None:
    found = arrivals_from_options({"type": "trace", "content": "offset,template\n3,b\n1,a\n2,\n", "speed": 2}, 0, None)
    assert (found.offsets, found.templates, found.header["rows"]) == ([0.5, 1.0, 1.5], ["a", "", "b"], 3)
    assert arrivals_from_options({"type": "trace", "content": "1\n2\n4\n"}, 2, None).offsets == [1.0, 2.0]
    lines = '{"offset": 0.25, "user": "x"}\n{"offset": 0.5, "template": "t"}\n'
    found = arrivals_from_options({"type": "trace", "content": lines}, 0, None)
    assert (found.offsets, found.templates) == ([0.25, 0.5], ["", "t"])


def test_a_closed_loop_has_no_moments() -> None:
    found = arrivals_from_options({"type": "closed", "batch": 4, "delay": 1.5}, 3, None)
    assert (found.header, found.offsets) == ({"type": "closed", "batch": 4, "delay": 1.5}, [None] * 3)


@pytest.mark.parametrize(
    ("asked", "count", "words"),
    [
        ({"type": "poison"}, 1, "unknown arrival type 'poison' (did you mean 'poisson'?)"),
        ({"type": "constant", "rate": 0}, 1, "arrival rate 0 must be above 0"),
        ({"rate": -1.0}, 1, "arrival rate -1.0"),
        ({"rate": float("nan")}, 1, "rate is nan, it must be finite"),
        ({"shape": 1}, 1, "arrival type 'constant' takes rate and timespan, not 'shape'"),
        ({"type": "gamma", "shpe": 1}, 1, "did you mean 'shape'?"),
        ({"type": "gamma", "shape": 0}, 1, "shape is 0, it must be more than 0"),
        ({"rate": 2, "timespan": 5}, 11, "gives 10 workloads, count is 11"),
        ({"type": "steps"}, 1, "needs steps"),
        ({"type": "steps", "steps": [{"rate": 1}]}, 1, "step 1 is {'rate': 1}"),
        ({"type": "steps", "steps": [{"rate": 1, "duration": 5}]}, 6, "the steps hold 5 workloads, count is 6"),
        ({"type": "ramp", "rate": 5}, 1, "needs to_rate"),
        ({"type": "ramp", "rate": 0, "to_rate": 0}, 1, "both 0"),
        ({"type": "bimodal", "peaks": [0.5]}, 1, "must be two places"),
        ({"type": "bimodal", "share": 2}, 1, "share is 2, it must be 1 or less"),
        ({"type": "trace"}, 1, "needs src"),
        ({"type": "trace", "content": "1\n-2\n", "src": "t.csv"}, 0, "t.csv, line 2: offset '-2' is not a number"),
        ({"type": "trace", "content": "when,what\n1,2\n"}, 0, "no column has the name offset"),
        ({"type": "trace", "content": '{"ofset": 1}\n'}, 0, "it has no offset (did you mean 'ofset'?)"),
        ({"type": "trace", "content": '{"offset": 1}\n{\n'}, 0, "line 2: not JSON"),
        ({"type": "trace", "content": "# nothing\n"}, 0, "it contains no arrivals"),
        ({"type": "trace", "content": "1\n"}, 2, "the trace holds 1 workloads, count is 2"),
        ({"type": "closed", "delay": 3}, 1, "requires batch"),
        ({"type": "closed", "rate": 3}, 1, "takes batch, delay and at_once, not 'rate'"),
    ],
)
def test_what_can_not_be_is_named(asked: dict[str, Any], count: int, words: str) -> None:
    with pytest.raises(InputError) as caught:
        arrivals_from_options(asked, count, 1)
    assert words in str(caught.value)


def test_random_arrivals_without_a_seed_are_refused() -> None:
    with pytest.raises(InputError, match="is random and needs a seed"):
        arrivals_from_options({"type": "poisson"}, 1, None)


EXTREMES = (None, 0, 1e-300, 1e-9, 1, 100, 1e9, 1e300, 10**400, -1, "x")


@pytest.mark.parametrize("kind", [*PACED, "ramp", "closed"])
@settings(deadline=None, max_examples=60)
@given(st.sampled_from([0, 1, 200, 10**6 + 1, 10**12, 10**30]), st.sampled_from(EXTREMES), st.sampled_from(EXTREMES))
def test_no_number_makes_a_list_or_a_time_without_bound(kind: str, count: int, first: Any, second: Any) -> None:
    keys = {"closed": ("batch", "delay"), "ramp": ("rate", "to_rate")}.get(kind, ("rate", "timespan"))
    try:
        found = arrivals_from_options({"type": kind, **dict(zip(keys, (first, second), strict=True))}, count, 1)
    except InputError as error:
        assert len(str(error)) < 250
        return
    assert found.count <= module.MOST_WORKLOADS
    assert all(one is None or 0 <= one <= 100 * module.LONGEST for one in found.offsets)


@pytest.mark.parametrize(
    ("asked", "count", "words"),
    [
        ({"type": "closed"}, 10**12, "1,000,000,000,000 workloads, and 1,000,000 are the most of one load"),
        ({"rate": 1000, "timespan": 1e6}, 0, "rate 1000 over timespan 1e+06 s gives 1,000,000,000 workloads"),
        ({"type": "steps", "steps": [{"rate": 1e5, "duration": 1e5}]}, 0, "the steps hold 10,000,000,000 workloads"),
        ({"type": "ramp", "to_rate": 1e6, "timespan": 1e9}, 0, "the ramp holds 500,000,000,000,000 workloads"),
        ({"type": "poisson", "rate": 1e300}, 4, "rate is 1e+300, it must be 1e+06 or less"),
        ({"rate": 1e-10}, 4, "count / rate is 40000000000.0, it must be 1e+09 or less"),
        ({"type": "trace", "content": "1e30", "src": "t.csv"}, 0, "offset / speed is 1e+30, it must be 1e+09 or less"),
    ],
)
def test_a_load_without_bound_is_refused_before_a_list_is_made_of_it(
    asked: dict[str, Any], count: int, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        arrivals_from_options(asked, count, 1)
    assert words in str(caught.value)
