"""Readings of a suite of KPIs against history."""

from __future__ import annotations

from dataclasses import replace

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.verdict_and_comparison_schemas import (
    JUDGED_KPI,
    READINGS,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.history_settings import (
    CORRECTIONS,
    HistorySettings,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.judge_history import (
    HistoryReading,
    judge_history,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.past_run_data import KpiSeries, RunValue
from history_series import NOISE, at_least, noisy, series
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from statistics_strategies import SERIES

OLD, SAME, SLOW = noisy(1, 100, 18), noisy(2, 100, 18), noisy(3, 120, 6)
KPIS = st.builds(
    series,
    SERIES,
    SERIES,
    direction=st.sampled_from(["lower", "higher", "none"]),
    judged=st.booleans(),
    repeated=st.booleans(),
)
SETTINGS = st.builds(
    HistorySettings,
    correction=st.sampled_from(CORRECTIONS),
    level=st.sampled_from([0.01, 0.2]),
    least=st.sampled_from([0.0, 0.05, {"*": 0.5}]),
    minimum_segment=st.integers(2, 4),
)


def results(suite, **given) -> list[str]:
    """Return the results of a suite."""
    return [one.result for one in judge_history(suite, HistorySettings(**given))]


@given(st.lists(KPIS, max_size=4), SETTINGS)
@settings(max_examples=60)
@example([series([0.0, 0.0, 0.0, 0.0, 0.875], [-65.0])], HistorySettings(minimum_segment=2, least=0.0))
def test_no_history_breaks_the_judgement(suite, chosen: HistorySettings) -> None:
    validator = Draft202012Validator(JUDGED_KPI)
    found = judge_history(suite, chosen)
    assert [one.series for one in found] == suite
    for one in found:
        kpi = {"point": "000", "name": "a", "title": "a", "unit": "s", "direction": "lower", "value": 1.0}
        validator.validate({**kpi, "simulated": False, **one.comparison_document()})
        assert one.result in READINGS and one.why
        assert all(p is None or 0 <= p <= 1 for p in (one.p, one.p_corrected))


@given(st.lists(st.tuples(st.integers(0, 99), st.sampled_from([80, 95, 100, 120])), min_size=1, max_size=4))
@settings(max_examples=20)
def test_what_is_a_regression_in_one_direction_is_an_improvement_in_the_other(kpis) -> None:
    swapped = {"regression": "improvement", "improvement": "regression"}
    suite = [series(OLD, noisy(seed, mean, 6)) for seed, mean in kpis]
    mirrored = results([replace(one, direction="higher") for one in suite])
    for lower, higher in zip(results(suite), mirrored, strict=True):
        assert swapped.get(lower, "none") == higher or {lower, higher} <= {"pass", "inconclusive"}


@given(st.integers(-20, 20))
@settings(max_examples=10)
def test_the_unit_of_a_figure_changes_no_reading(power: int) -> None:
    suite = [series([one * 2.0**power for one in OLD], [one * 2.0**power for one in new]) for new in (SAME, SLOW)]
    assert results(suite) == results([series(OLD, SAME), series(OLD, SLOW)])


def test_a_slow_kpi_is_a_regression_and_an_unchanged_one_is_not() -> None:
    slow, same = results([series(OLD, SLOW), series(OLD, SAME)])
    assert slow == "regression"
    assert same in ("pass", "inconclusive")


def test_many_runs_without_a_change_pass() -> None:
    assert results([series(noisy(5, 100, 40), noisy(6, 100, 40))]) == ["pass"]


def test_the_first_run_has_not_enough_history() -> None:
    assert results([series([], [1.0]), series([1.0], [9.0])]) == ["not enough history"] * 2


def test_a_kpi_that_the_run_lacks_is_not_measured() -> None:
    assert results([series(OLD, [None])]) == ["not measured"]


def test_kpis_that_are_not_judged_change_nothing_for_the_others() -> None:
    ours = series(OLD, SLOW)
    others = [series(OLD, SLOW, judged=False), series(OLD, SLOW, direction="none"), series([], [1.0])]
    alone, *_ = judge_history([ours], HistorySettings())
    first, *rest = judge_history([ours, *others], HistorySettings())
    assert (first.p_corrected, first.why) == (alone.p_corrected, alone.why)
    assert [one.result for one in rest] == ["not judged", "not judged", "not enough history"]
    assert rest[0].why.startswith("18 % slower than 18 runs")


def test_the_correction_counts_the_judged_kpis() -> None:
    suite = [series(OLD, SLOW), *[series(OLD, SAME)] * 4]
    corrected, free = (judge_history(suite, HistorySettings(correction=one))[0] for one in ("holm", "none"))
    assert corrected.p_corrected == pytest.approx(5 * free.p_corrected)
    assert corrected.p == free.p == free.p_corrected


def test_a_difference_that_does_not_matter_is_no_regression() -> None:
    old, new = noisy(5, 100, 40), [one * 1.01 for one in noisy(5, 100, 40)]
    assert results([series(old, new)], least=0.001) != ["regression"]
    assert results([series(OLD, SLOW)], least={"time_*": 0.5}) == ["pass"]


def test_the_document_has_what_the_reader_needs() -> None:
    (found,) = judge_history([series(OLD, SLOW, baseline="4.19.3")], HistorySettings())
    document = found.comparison_document()
    assert document["reading"] == "regression" and document["method"] == "posterior of the shift"
    assert (document["old"]["n"], document["new"]["n"]) == (18, 6)
    assert document["change_low"] < document["change"] < document["change_high"]
    assert document["change"] == pytest.approx(document["new"]["value"] / document["old"]["value"] - 1)
    assert document["further_runs"] is None and document["change_points"] == []


def test_a_change_from_zero_has_no_share() -> None:
    document = judge_history([series([0.0] * 20, [3.0] * 3)], HistorySettings())[0].comparison_document()
    assert (document["reading"], document["change"], document["change_high"]) == ("regression", None, None)
    assert (document["old"]["value"], document["new"]["value"]) == (0.0, 3.0)


def test_the_further_runs_of_an_inconclusive_kpi_would_decide_it() -> None:
    (first,) = judge_history([series(OLD, SAME[:1])], HistorySettings())
    assert first.result == "inconclusive" and first.further_runs
    found = 0
    for seed in range(20):
        new = noisy(100 + seed, 105, 1 + first.further_runs)
        evidence: HistoryReading = judge_history([series(OLD, new)], HistorySettings())[0]
        found += evidence.p is not None and evidence.p <= 0.01 and evidence.finding.evidence.difference > 0
    assert found >= 11  # 16 expected at a power of 0.8; fewer than 11 once in 400


def test_unchanged_suites_of_five_kpis_raise_hardly_an_alarm() -> None:
    draw = numpy.random.default_rng(12).standard_normal
    alarms = 0
    for _suite in range(60):
        values = 100 * (1 + NOISE * draw((5, 25)))
        alarms += "regression" in results([series(one[:20], one[20:]) for one in values])
    assert alarms <= 4  # more than 4 of 60 at 1 % happen once in 3,000


@pytest.mark.parametrize(
    ("noise", "least", "past", "passes"),
    [(0.01, 0.05, 2, (0, 12)), (0.01, 0.05, 20, (15, 20)), (0.05, 0.05, 20, (0, 2)), (0.02, 0.1, 20, (14, 20))],
)
def test_a_nightly_run_passes_as_often_as_the_documentation_says(noise, least, past, passes) -> None:
    draw = numpy.random.default_rng(7).standard_normal
    found = []
    for _night in range(20):
        values = 100 * numpy.exp(noise * draw((5, past + 1)))
        found.append(set(results([series(one[:past], one[past:]) for one in values], least=least)))
    assert passes[0] <= sum(one == {"pass"} for one in found) <= passes[1]
    assert not any("regression" in one for one in found)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [({"level": 0.0}, "level 0"), ({"minimum_segment": 1}, "minimum_segment 1"), ({"power": 1.0}, "power 1")],
)
def test_settings_out_of_range_are_refused(wrong: dict, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        judge_history([series(OLD, SAME[:1])], HistorySettings(**wrong))


FIGURES = [1.58, 1.6, 1.57, 1.59, 1.61, 1.58, 1.56, 1.6, 1.62, 1.57, 1.59, 1.58]


def judged_with_bounds(one: KpiSeries, new: tuple[RunValue, ...]) -> HistoryReading:
    """Judge a KPI alone, with further new runs."""
    return judge_history([replace(one, new=(*one.new, *new))], HistorySettings())[0]


@pytest.mark.parametrize("direction", ["lower", "higher"])
def test_new_runs_with_only_a_lower_bound_count(direction: str) -> None:
    found = judged_with_bounds(series(FIGURES, [1.59], direction=direction), at_least(100, 4))
    assert found.result == ("regression" if direction == "lower" else "improvement")
    assert found.comparison_document()["new"]["n"] == 5
    assert "of 4 of 5 new runs only a lower bound is known" in found.why
    assert judged_with_bounds(series(FIGURES, [4.9]), at_least(5, 4)).why.startswith("at least 21")


def test_a_new_run_with_a_low_bound_is_no_pass_and_no_improvement() -> None:
    assert judged_with_bounds(series(FIGURES, [1.59, 1.6]), at_least(1.5, 1)).result == "inconclusive"
    assert judged_with_bounds(series(FIGURES, [1.0, 1.01, 1.0]), at_least(0.9, 2)).result == "inconclusive"


def test_bounds_on_both_sides_leave_the_difference_unknown() -> None:
    one = replace(series(FIGURES[:1], [5.0]), old=at_least(1.6, 3))
    found = judged_with_bounds(one, at_least(5, 2))
    assert found.result == "inconclusive"
    assert found.why.startswith("inconclusive: the difference from 3 runs is unknown; of 3 of 3 past runs only a lower")


def test_past_runs_with_only_a_lower_bound_make_no_regression() -> None:
    one = series([1.58] * 3, [2.9, 3.0, 3.1, 2.95])
    found = judge_history([replace(one, old=(*one.old, *at_least(1.6, 9)))], HistorySettings())[0]
    assert found.result == "inconclusive" and found.why.startswith("inconclusive: at most ")


@pytest.mark.parametrize("bound", [90.0, 100.0, 110.0, 130.0])
def test_a_past_run_with_a_bound_hides_no_regression(bound: float) -> None:
    past = (*series(OLD, []).old, *at_least(bound, 1))
    found = judge_history([replace(series([], SLOW), old=past)], HistorySettings())[0]
    assert found.result == "regression" and "of 1 of 19 past runs only a lower bound is known" in found.why
    assert 0 < found.comparison_document()["change_low"] < 0.2 < found.comparison_document()["change_high"]


def test_a_new_run_with_a_bound_hides_no_improvement() -> None:
    new = (*series([], noisy(4, 80, 9), direction="lower").new, *at_least(80.0, 1))
    found = judge_history([replace(series(OLD, []), new=new)], HistorySettings())[0]
    assert found.result == "improvement" and "of 1 of 10 new runs only a lower bound is known" in found.why


@pytest.mark.parametrize("bounds", [12, 18])
def test_many_past_runs_with_a_bound_make_no_regression(bounds: int) -> None:
    past = (*series(OLD[bounds:], []).old, *at_least(100.0, bounds))
    assert judge_history([replace(series([], SLOW), old=past)], HistorySettings())[0].result == "inconclusive"


def test_a_new_run_is_no_regression_if_a_past_one_may_have_been_as_high() -> None:
    past = (*series(OLD, []).old, *at_least(100.0, 1))
    assert judge_history([replace(series([], [300.0]), old=past)], HistorySettings())[0].result == "inconclusive"
    assert results([series(OLD, [300.0])]) == ["regression"]


@given(st.integers(0, 10_000), st.floats(0.0, 2.4))
@settings(max_examples=40, derandomize=True)  # between the places that are looked at it may be a little more
def test_the_reading_with_a_bound_is_no_more_certain_than_with_any_figure_above_it(seed: int, above: float) -> None:
    past, new = noisy(seed, 100, 12), noisy(seed + 1, 112, 6)
    with_bound = replace(series([], new), old=(*series(past, []).old, *at_least(100.0, 1)))
    exact = series([*past, 100.0 * (1 + NOISE * above)], new)
    bounded, known = (judge_history([one], HistorySettings())[0] for one in (with_bound, exact))
    if bounded.result == "regression":
        assert known.finding.evidence.p_greater <= 2.0 * bounded.finding.evidence.p_greater
