"""Student's t distribution and the power of its test, against published and computed values."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics import student_t
from hypothesis import given
from hypothesis import strategies as st

#: t, degrees of freedom, upper tail: computed with scipy.stats.t.sf of scipy 1.17.
TAILS = [
    (-3.0, 0.5, 0.816345922),
    (0.1, 0.5, 0.4731658106),
    (30.0, 0.5, 0.05854684149),
    (1.0, 1, 0.25),
    (8.0, 1, 0.03958342416),
    (2.5, 2.5, 0.05228498154),
    (30.0, 2.5, 0.0001455323546),
    (-3.0, 4, 0.980029016),
    (2.5, 4, 0.03338327241),
    (0.1, 10, 0.4611603593),
    (30.0, 10, 1.980896171e-11),
    (2.5, 38, 0.008426738861),
    (30.0, 38, 2.294661773e-28),
    (1.0, 200, 0.159259424),
    (8.0, 200, 4.939600455e-14),
]
#: Level, degrees of freedom, noncentrality, power: scipy.stats.nct.sf at the critical value.
POWERS = [
    (0.01, 8, 3.0, 0.565654),
    (0.01, 38, 3.0, 0.714371),
    (0.0005, 8, 5.77, 0.715107),
    (0.0005, 18, 4.0, 0.546039),
    (0.05, 1, 2.0, 0.24669),
    (0.05, 3, 1.0, 0.196134),
    (0.0001, 200, 6.0, 0.98525),
    (0.3, 2, 0.5, 0.482854),
    (0.01, 5, 0.0, 0.01),
]


@pytest.mark.parametrize(
    ("probability", "df", "value"),
    [(0.025, 1, 12.7062), (0.025, 4, 2.77645), (0.005, 10, 3.16927), (0.0005, 8, 5.04131), (0.05, 120, 1.65765)],
)
def test_quantiles_are_those_of_the_table(probability: float, df: float, value: float) -> None:
    assert student_t.student_t_upper_tail_quantile(probability, df) == pytest.approx(value, rel=1e-5)
    assert student_t.student_t_upper_tail(value, df) == pytest.approx(probability, rel=1e-4)


@pytest.mark.parametrize(("t", "df", "tail"), TAILS)
def test_tails_are_those_of_the_table(t: float, df: float, tail: float) -> None:
    assert student_t.student_t_upper_tail(t, df) == pytest.approx(tail, rel=1e-8)


@pytest.mark.parametrize(("level", "df", "shift", "power"), POWERS)
def test_power_is_that_of_the_noncentral_t(level: float, df: float, shift: float, power: float) -> None:
    assert student_t.power_of_t_test(level, df, shift) == pytest.approx(power, abs=2e-3)


@given(st.floats(-40, 40), st.floats(0.2, 400))
def test_the_two_tails_add_up_to_one(t: float, df: float) -> None:
    assert student_t.student_t_upper_tail(t, df) + student_t.student_t_upper_tail(-t, df) == pytest.approx(1.0)


@given(st.floats(1e-6, 0.999), st.floats(0.5, 400))
def test_quantile_is_the_inverse_of_the_tail(probability: float, df: float) -> None:
    assert student_t.student_t_upper_tail(
        student_t.student_t_upper_tail_quantile(probability, df), df
    ) == pytest.approx(probability, rel=1e-6)


def test_a_probability_of_one_has_no_quantile() -> None:
    with pytest.raises(ValueError, match="probability 1.0 and 5"):
        student_t.student_t_upper_tail_quantile(1.0, 5)
