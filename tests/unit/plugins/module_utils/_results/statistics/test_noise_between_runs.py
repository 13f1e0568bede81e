"""The comparison of a suite of figures, whose noise is learned from all of them."""

from __future__ import annotations

from math import comb, inf, log, sqrt

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics import (
    readings_from_p_values,
    student_t,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics.noise_between_runs import (
    Shift,
    estimate_shifts_of_suite,
    independent_figures,
    least_scale_of_rounded_figures,
    likeliest_error_shape,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics.shift_posterior import (
    ErrorShape,
    FigureRuns,
    location_and_scale,
)
from hypothesis import given, settings
from hypothesis import strategies as st

KPIS, LEVEL = 20, 0.01


def shifts(suite, old: int = 20, interval: float | None = None) -> list[Shift]:
    """Compare the runs of a suite of positive figures, an array [figure, run]."""
    figures = [FigureRuns(one[:old], one[old:]) for one in numpy.log(suite)]
    return estimate_shifts_of_suite(figures, [1.0] * len(figures), interval)


def drawn(seed: int, noise: float = 0.05, runs: int = 25, kpis: int = KPIS):
    """Return a suite of figures with normal noise."""
    return 100.0 * (1.0 + noise * numpy.random.default_rng(seed).standard_normal((kpis, runs)))


def alarms(found: list[Shift]) -> list[bool]:
    """Return which figures are regressions: lower is better, 5 % matter."""
    adjusted = readings_from_p_values.adjust_by_holm([one.p_greater for one in found])
    return [p <= LEVEL and one.difference >= log(1.05) for p, one in zip(adjusted, found, strict=True)]


@given(st.integers(0, 99), st.integers(2, 29), st.floats(-0.1, 0.3))  # 30 runs may show another shape than the normal
@settings(max_examples=10, deadline=None)
def test_one_new_run_of_one_figure_is_judged_by_the_prediction_interval_of_student_and_its_rank(
    seed: int, n: int, by: float
) -> None:
    runs = numpy.log(drawn(seed, runs=n + 1, kpis=1)[0])
    runs[-1] += by
    old, new = runs[:-1], runs[-1]
    (found,) = estimate_shifts_of_suite([FigureRuns(old, runs[-1:])], [1.0])
    error = old.std(ddof=1) * sqrt(1 + 1 / n)
    as_high = int((old >= new).sum())
    rank = (as_high + 1) / (n + 1) if as_high else 0.0
    expected = max(rank, student_t.student_t_upper_tail((new - old.mean()) / error, n - 1))
    assert found.p_greater == pytest.approx(expected, rel=0.1, abs=3e-3)
    reach = student_t.student_t_upper_tail_quantile(0.025, n - 1) * error
    assert (found.high - found.low) / 2 == pytest.approx(reach, rel=0.08)


@given(st.integers(0, 99), st.integers(6, 30), st.integers(1, 3), st.sampled_from([1, -1]))
@settings(max_examples=20, deadline=None)
def test_one_new_run_is_no_rarer_than_its_rank_beside_old_outliers_as_far_out(
    seed: int, n: int, outliers: int, sign: int
) -> None:
    runs = sign * numpy.log(drawn(seed, noise=0.02, runs=n + 1, kpis=1)[0])
    runs[:outliers] += 0.41
    runs[-1] += 0.4 - runs[-1] + runs[:outliers].min() - 0.41
    (found,) = estimate_shifts_of_suite([FigureRuns(runs[:-1], runs[-1:])], [1.0])
    assert (found.p_greater if sign > 0 else found.p_less) >= (outliers + 1) / (n + 1)


def test_one_new_run_beyond_all_outliers_keeps_its_p_value() -> None:
    runs = numpy.log(drawn(3, noise=0.02, runs=20, kpis=1)[0])
    runs[4] += 0.1
    runs[-1] += 0.8
    (found,) = estimate_shifts_of_suite([FigureRuns(runs[:-1], runs[-1:])], [1.0])
    assert found.p_greater < 0.01


@pytest.mark.parametrize(("new", "share"), [(1, 0.5), (3, 0.2), (5, 0.2)])
def test_a_few_new_runs_beside_twenty_show_a_change(new: int, share: float) -> None:
    suite = drawn(1, runs=20 + new)
    suite[:4, 20:] *= 1.0 + share
    assert alarms(shifts(suite)) == [True] * 4 + [False] * 16


def test_new_runs_that_differ_more_raise_no_alarm() -> None:
    for seed in range(6):
        noise = numpy.where(numpy.arange(25) < 20, 0.02, 0.1)
        assert not any(alarms(shifts(drawn(seed, noise))))


def test_a_figure_that_alone_became_noisier_is_judged_by_its_own_noise() -> None:
    suite = drawn(3, 0.02)
    new = numpy.array([1.07, 1.06, 1.24, 1.02, 1.0])
    alone, *_ = shifts(numpy.vstack([numpy.append(suite[0, :20], 100 * new), suite[1:]]))
    assert alone.p_greater > LEVEL / KPIS


def test_outliers_hide_no_change_and_are_none() -> None:
    draw = numpy.random.default_rng(5)
    suite = drawn(5) * numpy.where(draw.random((KPIS, 25)) < 0.1, 1.3, 1.0)
    assert not any(alarms(shifts(suite)))
    suite[:4, 20:] *= 1.2
    assert sum(alarms(shifts(suite))[:4]) >= 3


def test_one_run_in_ten_that_is_slower_hides_no_change() -> None:
    """Student's t distribution alone finds two thirds of these."""
    found = 0
    for seed in range(3):
        draw = numpy.random.default_rng(seed)
        suite = drawn(seed) * numpy.where(draw.random((KPIS, 25)) < 0.1, 1.5, 1.0)
        suite[:4, 20:] *= 1.2
        found += sum(alarms(shifts(suite))[:4])
    assert found >= 11


def test_more_noise_of_all_figures_is_learned_from_all() -> None:
    noise = numpy.where(numpy.arange(25) < 20, 0.02, 0.1)
    found = []
    for seed in range(3):
        suite = drawn(seed, noise)
        suite[:4, 20:] *= 1.25
        found += alarms(shifts(suite))
    assert sum(found) >= 8


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.05, 0.12]), st.sampled_from([0.25, 1.0, 4.0]))
@settings(max_examples=10, deadline=None, derandomize=True)  # of rare samples the scale is doubled
def test_a_density_with_outliers_is_one(seed: int, share: float, skew: float) -> None:
    shape = ErrorShape(outliers=share, skew=skew)
    z = numpy.sinh(numpy.linspace(-14, 14, 20001))
    density = numpy.exp(shape.log_density(z))
    assert numpy.trapezoid(density, z) == pytest.approx(1.0, abs=1e-3)
    assert numpy.trapezoid(density[z > 6], z[z > 6]) > numpy.trapezoid(density[z < -6], z[z < -6]) * (skew**2 - 0.1)
    group = numpy.random.default_rng(seed).standard_normal(20)
    centre, scale = location_and_scale(group, shape)
    apart, wide = location_and_scale(numpy.append(group, [30.0, 40.0]), shape)
    assert (apart, wide) == (pytest.approx(centre, abs=0.6), pytest.approx(scale, rel=0.6))


def test_one_run_from_a_long_tail_is_no_alarm() -> None:
    tails = 100.0 * numpy.exp(0.03 * numpy.random.default_rng(7).standard_t(2.2, (KPIS, 21)))
    tails[0, 20] = 100 * 1.25
    assert not any(alarms(shifts(tails)))


def test_the_shape_of_errors_is_learned_from_the_suite() -> None:
    draw = numpy.random.default_rng(1)
    assert likeliest_error_shape(draw.standard_normal((KPIS, 20))) == ErrorShape()
    assert likeliest_error_shape(draw.standard_t(2.2, (KPIS, 20))).df < 5
    assert likeliest_error_shape(draw.standard_exponential((KPIS, 20))).skew > 1
    assert likeliest_error_shape(draw.standard_t(2.2, (1, 20))) == ErrorShape(), "one figure shows no shape"
    slower = drawn(2, runs=20) * numpy.where(draw.random((KPIS, 20)) < 0.1, 1.5, 1.0)
    assert likeliest_error_shape(numpy.log(slower)).outliers
    assert not likeliest_error_shape(numpy.log(slower), 0.2).outliers, "runs as a whole may be the outliers"
    assert not likeliest_error_shape(numpy.round(drawn(3, runs=20) / 8)).outliers, "rounded figures have none"


def test_a_figure_that_never_differed_is_judged_by_an_exact_test() -> None:
    constant = FigureRuns(numpy.zeros(20), numpy.array([0.0, 0.0, 3.0]))
    (found,) = estimate_shifts_of_suite([constant], [1.0])
    assert (found.p_greater, found.p_less) == (pytest.approx(3 / 23), 1.0)
    (found,) = estimate_shifts_of_suite([FigureRuns(numpy.zeros(20), numpy.full(3, 3.0))], [1.0])
    assert found.p_greater == pytest.approx(1 / comb(23, 3))


@pytest.mark.parametrize(("runs", "low"), [(2, -inf), (5, 0.0)])
def test_two_equal_runs_do_not_show_that_a_figure_is_constant(runs: int, low: float) -> None:
    (found,) = estimate_shifts_of_suite([FigureRuns(numpy.full(runs, 3.0), numpy.array([3.0]))], [1.0])
    assert (found.low, found.p_greater) == (low, 1.0)


@pytest.mark.parametrize(("values", "floor"), [([3, 3, 3, 4, 3, 3], 0.1), ([3.0, 3.1, 3.25, 3.3], 0.0), ([3, 3], 0.0)])
def test_rounding_is_the_least_noise(values: list[float], floor: float) -> None:
    assert least_scale_of_rounded_figures(numpy.array(values, dtype=float), 3.0) == pytest.approx(floor)


def test_a_stretched_variance_widens_the_interval_and_raises_the_p_value() -> None:
    one = FigureRuns(*numpy.split(numpy.log(drawn(4, kpis=1)[0]) + 0.1 * (numpy.arange(25) >= 20), [20]))
    (free,), (bound,) = estimate_shifts_of_suite([one], [1.0]), estimate_shifts_of_suite([one], [4.0])
    assert bound.high - bound.low == pytest.approx(2 * (free.high - free.low), rel=0.01)
    assert free.p_greater < bound.p_greater < 0.5


@given(st.integers(0, 99), st.integers(6, 29), st.floats(0.0, 0.2), st.floats(0.3, 1.0))
@settings(max_examples=10, deadline=None)
def test_fewer_degrees_of_freedom_are_those_of_the_prediction_interval(
    seed: int, n: int, by: float, freedom: float
) -> None:
    runs = numpy.log(drawn(seed, runs=n + 1, kpis=1)[0])
    old, new = runs[:-1], max(runs[:-1].max() + 1e-6, runs[-1] + by)  # beyond all old runs: its rank says nothing
    (found,) = estimate_shifts_of_suite([FigureRuns(old, numpy.array([new]), freedom=(freedom, 1.0))], [1.0])
    error = old.std(ddof=1) * sqrt(1 + 1 / n)
    expected = student_t.student_t_upper_tail((new - old.mean()) / error, freedom * (n - 1))
    assert found.p_greater == pytest.approx(expected, rel=0.1, abs=3e-3)
    reach = student_t.student_t_upper_tail_quantile(0.025, freedom * (n - 1)) * error
    assert (found.high - found.low) / 2 == pytest.approx(reach, rel=0.08)


def test_noise_that_all_figures_share_is_seen_once() -> None:
    """Two machines, of which a run gets one: five new runs on the slow one are no change, however many figures."""
    draw = numpy.random.default_rng(4)
    slow = numpy.array([0, 1, 0, 1, 0] * 4 + [1] * 5)
    suite = 100 * (1 + 0.02 * draw.standard_normal((KPIS, 25))) * (1 + 0.1 * slow)
    assert independent_figures([one[:20] for one in suite]) < 2
    assert independent_figures([one[:20] for one in drawn(1)]) > KPIS / 2
    assert not any(alarms(shifts(suite)))


@pytest.mark.parametrize("ratio", [1e-2, 1e-5])
@pytest.mark.parametrize("new", [1, 5])
def test_a_figure_that_hardly_varies_beside_noisy_ones_is_compared(ratio: float, new: int) -> None:
    noisy, quiet = drawn(3, 0.1, 20 + new, 7), drawn(4, 0.1 * ratio, 20 + new, 1)
    figures = [FigureRuns(numpy.log(one[:20]), numpy.log(one[20:])) for one in (*noisy, *quiet)]
    found = estimate_shifts_of_suite(figures, [1.0] * 8, others=1)
    assert all(0.0 <= shift.p_greater <= 1.0 and shift.low <= shift.difference <= shift.high for shift in found)
