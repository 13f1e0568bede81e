"""The sentence that explains a reading against history."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.history_settings import HistorySettings
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.judge_history import judge_history
from history_series import noisy, series

OLD, SAME, SLOW, FAST = noisy(1, 100, 18), noisy(2, 100, 18), noisy(3, 120, 6), noisy(4, 80, 6)


def why(*suite, **settings) -> str:
    """Return the sentence of the first KPI of a suite."""
    return judge_history(suite, HistorySettings(**settings))[0].why


def test_a_regression_names_size_interval_baseline_and_p_value() -> None:
    one = series(OLD, SLOW, baseline="4.19.3")
    assert why(one) == "18 % slower than 18 runs of 4.19.3 (9.5 to 27 %), p 0.0004"
    assert why(*[one] * 5).endswith("p 0.002 after correction for 5 figures")
    assert why(*[one] * 5, correction="none").endswith("p 0.0004, not corrected for 5 figures")


def test_an_improvement_is_written_as_such() -> None:
    assert why(series(OLD, FAST)).startswith("21 % faster than 18 runs (")
    assert why(series(OLD, FAST, unit="1/s", direction="higher")).startswith("21 % lower than 18 runs (")


def test_an_inconclusive_kpi_says_how_many_runs_are_missing() -> None:
    one = series(OLD, SAME[:1])
    assert why(one).startswith("inconclusive: ")
    assert why(one).endswith("; about 6 more runs would find 5 %")
    assert why(one, least=0.001).endswith("; no practical number of further runs would find 0.1 %")
    assert why(series(OLD, SAME), least=0.005, power=0.01).endswith("; further runs narrow the interval")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ([], [1.0], "not enough history: no past run with this figure"),
        ([2.0], [1.0], "not enough history: 1 past run"),
        ([], [None], "not enough history: no past run with this figure"),
        ([2.0, 3.0, None], [None], "not measured in this run; the history has it in 2 runs"),
        ([0.0] * 20, [0.0], "0 s as in 20 runs"),
        ([0.0] * 20, [3.0] * 3, "3 s instead of 0 s in 20 runs, p 0.0006"),
        ([-1e-3, 2e-3] * 5, [40.0], "over 1,000 % slower than 10 runs (over 1,000 to over 1,000 %), p < 0.0001"),
    ],
)
def test_special_histories_are_explained(old: list, new: list, sentence: str) -> None:
    assert why(series(old, new)).startswith(sentence)


def test_a_figure_that_is_the_same_in_all_runs_is_no_percentage() -> None:
    assert why(series([20.0] * 6, [20.0])) == "as in 6 runs"
