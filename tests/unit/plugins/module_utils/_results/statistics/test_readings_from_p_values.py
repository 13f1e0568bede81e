"""Readings from intervals and p-values."""

from __future__ import annotations

import math

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics import readings_from_p_values
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics.readings_from_p_values import (
    FigureEvidence,
)


@pytest.mark.parametrize(
    ("low", "high", "least", "most", "reading"),
    [
        (1.0, 2.0, None, 2.0, "within"),
        (2.1, 3.0, None, 2.0, "outside"),
        (1.9, 2.1, None, 2.0, "across"),
        (1.0, None, None, 2.0, "across"),
        (3.0, None, None, 2.0, "outside"),
        (5.0, 6.0, 5.0, 10.0, "within"),
        (1.0, 4.0, 5.0, None, "outside"),
        (math.nan, 1.0, None, 2.0, "across"),
    ],
)
def test_an_interval_decides_a_limit(
    low: float, high: float | None, least: float | None, most: float | None, reading: str
) -> None:
    assert readings_from_p_values.classify_interval_by_limits(low, high, least, most) == reading


def test_a_limit_has_at_least_one_end() -> None:
    with pytest.raises(ValueError, match="neither"):
        readings_from_p_values.classify_interval_by_limits(1.0, 2.0, None, None)


def evidence(direction: str, difference: float, half: float, p: float, least: float = 0.05) -> FigureEvidence:
    """Return evidence of a difference, whose p-value in its own direction is ``p``."""
    greater = p if difference > 0 else 1 - p
    return FigureEvidence(direction, difference, difference - half, difference + half, greater, 1 - greater, least)


def results(suite: list[FigureEvidence]) -> list[str]:
    """Return the results of a suite at a level of 1 %."""
    return [one.result for one in readings_from_p_values.classify_figures_of_suite(suite, 0.01)]


def test_the_direction_of_a_figure_is_respected() -> None:
    assert results([evidence(one, 0.2, 0.05, 1e-6) for one in ("lower", "higher")]) == ["regression", "improvement"]
    assert results([evidence(one, -0.2, 0.05, 1e-6) for one in ("lower", "higher")]) == ["improvement", "regression"]


def test_an_alarm_needs_effect_and_p_value_and_a_pass_needs_the_interval() -> None:
    suite = [
        evidence("lower", 0.01, 0.005, 1e-6),  # certain, but too small to matter
        evidence("lower", 0.20, 0.30, 0.1),  # large, but not certain
        evidence("lower", -0.01, 0.02, 0.2),
        FigureEvidence("lower", math.nan, -math.inf, math.inf, math.nan, math.nan, 0.05),
    ]
    assert results(suite) == ["pass", "inconclusive", "pass", "not enough history"]


def test_each_figure_has_its_own_least_difference() -> None:
    assert results([evidence("lower", 0.1, 0.02, 1e-6, least) for least in (0.05, 0.5)]) == ["regression", "pass"]


def test_a_figure_that_was_always_zero_passes_while_it_is_zero() -> None:
    same, more = evidence("lower", 0.0, 0.0, 1.0, 0.0), evidence("lower", 2.0, 0.0, 1e-6, 0.0)
    assert results([same, more]) == ["pass", "regression"]


def test_the_correction_counts_all_figures_of_the_suite() -> None:
    one = evidence("lower", 0.2, 0.3, 0.004)
    assert results([one]) == ["regression"]
    assert results([one, *[evidence("lower", 0.0, 0.01, 0.9)] * 4])[0] == "inconclusive"
    assert (
        readings_from_p_values.classify_figures_of_suite(
            [one] * 5, 0.01, readings_from_p_values.leave_p_values_uncorrected
        )[0].result
        == "regression"
    )


@pytest.mark.parametrize(
    ("suite", "verdict"),
    [
        ([], "pass"),
        (["pass", "not enough history", "not judged"], "pass"),
        (["pass", "improvement"], "improvement"),
        (["improvement", "inconclusive"], "inconclusive"),
        (["pass", "not measured"], "inconclusive"),
        (["within", "across"], "inconclusive"),
        (["across", "regression"], "regression"),
        (["improvement", "outside"], "regression"),
    ],
)
def test_the_gravest_reading_is_the_verdict(suite: list[str], verdict: str) -> None:
    assert readings_from_p_values.gravest_reading(suite) == verdict
