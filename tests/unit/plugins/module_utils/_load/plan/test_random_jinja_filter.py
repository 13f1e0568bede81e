"""Numbers drawn for each workload: the same for a seed, of the distribution that was asked for."""

from __future__ import annotations

from math import exp, log
from statistics import mean, median

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.random_draws import drawn, uniform
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.templates import Template, render
from hypothesis import given
from hypothesis import strategies as st

COUNT = 4000
FIRST = [50.320974, 71.751863, 51.115898]
LOGNORMAL = {"type": "lognormal", "mean": 60, "sigma": 0.5}


def test_the_numbers_of_a_seed_never_change() -> None:
    # Written down once: a load of one seed must be the same on every machine and in every release.
    assert [drawn(index, {"type": "exponential", "mean": 60}, 1) for index in range(3)] == FIRST


@given(index=st.integers(0, 10**6), seed=st.integers(0, 2**32))
def test_a_number_lies_within_0_and_1_and_differs_between_seeds_and_streams(index: int, seed: int) -> None:
    value = uniform(index, seed)
    assert 0 < value < 1
    assert value not in (uniform(index, seed + 1), uniform(index + 1, seed), uniform(index, seed, "other"))


def test_numbers_are_of_their_distribution() -> None:
    fixed = {drawn(index, {"type": "fixed", "mean": 5}) for index in range(COUNT)}
    even = [drawn(index, {"type": "uniform", "low": 2, "high": 4}) for index in range(COUNT)]
    gaps = [drawn(index, {"type": "exponential", "mean": 10}) for index in range(COUNT)]
    sizes = [drawn(index, LOGNORMAL) for index in range(COUNT)]
    assert fixed == {5.0}
    assert min(even) >= 2
    assert max(even) <= 4
    assert mean(even) == pytest.approx(3, rel=0.02)
    assert mean(gaps) == pytest.approx(10, rel=0.05)
    assert median(gaps) == pytest.approx(10 * log(2), rel=0.05)
    assert mean(sizes) == pytest.approx(60, rel=0.05)
    assert median(sizes) == pytest.approx(60 * exp(-0.125), rel=0.05)


@given(index=st.integers(0, 10**6), low=st.floats(0, 50), width=st.floats(0, 50))
def test_low_and_high_cut_off(index: int, low: float, width: float) -> None:
    value = drawn(index, {**LOGNORMAL, "low": low, "high": low + width})
    assert low - 1e-6 <= value <= low + width + 1e-6


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"type": "exponental", "mean": 1}, "did you mean 'exponential'"),
        ({"type": "exponential"}, "needs 'mean'"),
        ({"type": "fixed", "men": 1}, "did you mean 'mean'"),
        ({"type": "fixed", "mean": "long"}, "not a number"),
        ({"type": "fixed", "mean": -1}, "0 or more"),
        ({"type": "uniform", "low": 3, "high": 2}, "below low"),
        (5, "not a distribution"),
    ],
)
def test_what_is_no_distribution_is_refused(spec: object, told: str) -> None:
    with pytest.raises(InputError, match=told):
        drawn(0, spec)


def test_a_template_draws_for_each_workload_the_same_in_every_template() -> None:
    text = "apiVersion: v1\nkind: {kind}\nspec: {{seconds: {{{{ index | drawn(times, 7) }}}}}}\n"
    made = [
        render(Template("x", text.format(kind=kind), parameters={"times": LOGNORMAL}), "run-01", "001", "n", range(3))
        for kind in ("Job", "Other")
    ]
    first, second = ([one.workload.manifest(index)["spec"]["seconds"] for index in range(3)] for one in made)
    assert first == second == [drawn(index, LOGNORMAL, 7) for index in range(3)]
    assert len(set(first)) == 3
