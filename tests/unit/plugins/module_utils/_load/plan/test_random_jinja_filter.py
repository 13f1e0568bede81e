"""Numbers drawn for each workload: the same for a seed, of the distribution that was asked for."""

from __future__ import annotations

from math import exp, log
from statistics import mean, median

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.random_draws import (
    draw_number_for_workload,
    uniform_number_by_index,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.rendered_workload_templates import (
    WorkloadTemplate,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.template_renderer import (
    render_template_for_indices,
)
from hypothesis import given
from hypothesis import strategies as st

COUNT = 4000
FIRST = [50.320974, 71.751863, 51.115898]
LOGNORMAL = {"type": "lognormal", "mean": 60, "sigma": 0.5}


def test_the_numbers_of_a_seed_never_change() -> None:
    # Written down once: a load of one seed must be the same on every machine and in every release.
    assert [draw_number_for_workload(index, {"type": "exponential", "mean": 60}, 1) for index in range(3)] == FIRST


@given(index=st.integers(0, 10**6), seed=st.integers(0, 2**32))
def test_a_number_lies_within_0_and_1_and_differs_between_seeds_and_streams(index: int, seed: int) -> None:
    value = uniform_number_by_index(index, seed)
    assert 0 < value < 1
    assert value not in (
        uniform_number_by_index(index, seed + 1),
        uniform_number_by_index(index + 1, seed),
        uniform_number_by_index(index, seed, "other"),
    )


def test_numbers_are_of_their_distribution() -> None:
    fixed = {draw_number_for_workload(index, {"type": "fixed", "mean": 5}) for index in range(COUNT)}
    even = [draw_number_for_workload(index, {"type": "uniform", "low": 2, "high": 4}) for index in range(COUNT)]
    gaps = [draw_number_for_workload(index, {"type": "exponential", "mean": 10}) for index in range(COUNT)]
    sizes = [draw_number_for_workload(index, LOGNORMAL) for index in range(COUNT)]
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
    value = draw_number_for_workload(index, {**LOGNORMAL, "low": low, "high": low + width})
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
        draw_number_for_workload(0, spec)


def test_a_template_draws_for_each_workload_the_same_in_every_template() -> None:
    text = "apiVersion: v1\nkind: {kind}\nspec: {{seconds: {{{{ index | drawn(times, 7) }}}}}}\n"
    made = [
        render_template_for_indices(
            WorkloadTemplate("x", text.format(kind=kind), parameters={"times": LOGNORMAL}),
            "run-01",
            "001",
            "n",
            range(3),
        )
        for kind in ("Job", "Other")
    ]
    first, second = ([one.workload.manifest(index)["spec"]["seconds"] for index in range(3)] for one in made)
    assert first == second == [draw_number_for_workload(index, LOGNORMAL, 7) for index in range(3)]
    assert len(set(first)) == 3
