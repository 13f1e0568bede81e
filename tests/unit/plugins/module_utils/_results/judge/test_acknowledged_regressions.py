"""Known regressions, with which a run passes."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import history_settings, overall_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.judge_history import (
    HistoryReading,
    judge_history,
)
from history_series import noisy, series

OLD = noisy(1, 100, 20)
ENTRY = {"kpi": "time_to_*", "since": "new0", "until": "2999-12-31", "ticket": "PERF-7"}


def judged(new: list[float], labels: frozenset[str] = frozenset(), **changed: Any) -> HistoryReading:
    """Judge new runs with one acknowledgement."""
    chosen = history_settings.comparison_settings_from_params({"acknowledged": [{**ENTRY, **changed}]})
    return judge_history([replace(series(OLD, new), labels=labels)], chosen)[0]


@pytest.mark.parametrize("nights", [1, 2, 5])
def test_a_known_regression_passes_and_says_so_first(nights: int) -> None:
    found = judged(noisy(4, 130, nights))
    assert found.result == "acknowledged"
    assert found.why.startswith("known regression (PERF-7), acknowledged until 2999-12-31: ")
    kpi = {"name": "a", "point": "000", "reading": found.result, "why": found.why}
    verdict = {**overall_verdict.verdict_with_exit_status([], [found.result]), "kpis": [kpi]}
    assert (verdict["verdict"], verdict["exit_status"]) == ("pass", 0)
    assert overall_verdict.verdict_with_first_reason(verdict).startswith(
        "pass: a (point 000): known regression (PERF-7)"
    )


def test_a_version_is_acknowledged_by_its_label() -> None:
    new = noisy(2, 130, 3)
    assert judged(new, frozenset({"4.19.4"}), since="4.19.4").result == "acknowledged"
    assert judged(new, frozenset({"4.19.5"}), since="4.19.4").result == "regression"


@pytest.mark.parametrize("nights", [1, 2, 5])
def test_a_further_step_is_a_regression(nights: int) -> None:
    found = judged([*noisy(2, 130, nights), 200.0])
    assert found.result == "regression"
    assert found.why.startswith("worse than the known regression (PERF-7)")


@pytest.mark.parametrize("nights", [2, 3, 6])
@pytest.mark.parametrize(("last", "result"), [(130.0, "acknowledged"), (200.0, "regression")])
def test_later_nights_are_covered_from_the_first_one_on(nights: int, last: float, result: str) -> None:
    """In nightly use the first run with the regression is a past run of the next night."""
    known = series(OLD, [*noisy(4, 130, nights - 1), last])
    nightly = replace(known, old=(*known.old, *known.new[:-1]), new=known.new[-1:])
    chosen = history_settings.comparison_settings_from_params({"acknowledged": [ENTRY]})
    (found,) = judge_history([nightly], chosen)
    assert found.result == result
    assert "known regression (PERF-7)" in found.why
    ended = history_settings.comparison_settings_from_params({"acknowledged": [{**ENTRY, "until": "2020-01-31"}]})
    assert "PERF-7" not in judge_history([nightly], ended)[0].why


def test_it_ends_by_itself() -> None:
    new = noisy(2, 130, 3)
    assert judged(new, until="2020-01-31").result == "regression"
    (known,) = history_settings.parse_acknowledgements([{**ENTRY, "until": date(2026, 12, 31)}])
    assert known.applies(series(OLD, new), date(2026, 12, 31))
    assert not known.applies(series(OLD, new), date(2027, 1, 1))


@pytest.mark.parametrize("changed", [{"kpi": "makespan"}, {"since": "another"}])
def test_other_figures_and_runs_are_judged_as_ever(changed: dict[str, str]) -> None:
    assert judged(noisy(2, 130, 3), **changed).result == "regression"
    assert judged(noisy(2, 100, 3)).result in ("pass", "inconclusive")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("makespan", "is 'makespan', and it must be a list"),
        (["makespan"], r"\[0\] is 'makespan', and it must have the keys kpi, since, until, ticket"),
        ([{**ENTRY, "tickets": "x"}], r"\[0\]: unknown key 'tickets' \(did you mean 'ticket'\?\)"),
        ([ENTRY, {**ENTRY, "ticket": ""}], r"\[1\]: 'ticket' is missing"),
        ([{**ENTRY, "until": "next week"}], r"\[0\]: until 'next week' is no day, such as 2026-12-31"),
        ([{**ENTRY, "until": 2026}], r"until '2026' is no day"),
    ],
)
def test_anything_else_is_refused(given: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        history_settings.comparison_settings_from_params({"acknowledged": given})


def test_a_figure_that_does_not_exist_is_refused() -> None:
    known = history_settings.parse_acknowledgements([{**ENTRY, "kpi": "makspan"}])
    definition = {"name": "makespan", "kind": "quantiles", "quantiles": []}
    with pytest.raises(InputError, match=r"results_acknowledged: KPI 'makspan' is not defined"):
        history_settings.check_named_kpis_are_defined((), None, [definition], known)
