# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From intervals and p-values to readings: of figures against limits, and of a suite of figures against history.

A regression needs both: a p-value that the correction for the whole suite leaves at or below the level, and a
difference of at least the size that matters. A pass needs an interval that excludes such a difference. Everything else
is inconclusive.

Many figures are judged at once. Holm (Scandinavian Journal of Statistics 6, 1979) keeps the chance of one false alarm
in the whole suite below the level, however the figures depend on each other; those of one run come from the same
workloads and depend strongly. Benjamini and Hochberg (JRSS B 57, 1995) limit the share of false ones among the alarms,
which needs figures that depend positively.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isnan, nan

PASS, REGRESSION, IMPROVEMENT = "pass", "regression", "improvement"
INCONCLUSIVE, NO_HISTORY, NOT_MEASURED = "inconclusive", "not enough history", "not measured"
NOT_JUDGED, ACKNOWLEDGED = "not judged", "acknowledged"
WITHIN, OUTSIDE, ACROSS = "within", "outside", "across"
#: Past runs without which a figure is not judged by history.
LEAST_HISTORY = 2


@dataclass(frozen=True)
class FigureEvidence:
    """What a method found for one figure; differences are positive when the figure is higher now.

    low, high: interval of the difference. p_greater, p_less: one-sided p-values; NaN when the method could not judge.
    direction: ``lower`` when lower is better, or ``higher``. least: the smallest difference that matters. Differences
    and ``least`` have one unit: shares of the old figure, or that of the figure when the old one is 0.
    """

    direction: str
    difference: float
    low: float
    high: float
    p_greater: float
    p_less: float
    least: float

    @property
    def worse(self) -> tuple[float, float, float]:
        """The difference and the ends of its interval, positive when the figure is worse."""
        if self.direction == "lower":
            return self.difference, self.low, self.high
        return -self.difference, -self.high, -self.low

    @property
    def p_value_of_worse(self) -> float:
        """The p-value of "it is not worse"."""
        return self.p_greater if self.direction == "lower" else self.p_less

    @property
    def p_value_of_better(self) -> float:
        """The p-value of "it is not better"."""
        return self.p_less if self.direction == "lower" else self.p_greater


@dataclass(frozen=True)
class FigureReading:
    """``result``: one of the constants above. p_value_of_worse, p_value_of_better: corrected for the suite."""

    result: str
    p_value_of_worse: float
    p_value_of_better: float


def adjust_by_holm(p_values: Sequence[float]) -> list[float]:
    """Return adjusted p-values: those up to the level are alarms at a chance of ``level`` for any false one.

    NaN (not judged) stays NaN and is not counted.
    """
    order = _indices_by_p_value(p_values)
    adjusted = [nan] * len(p_values)
    highest = 0.0
    for place, index in enumerate(order):
        highest = max(highest, min(1.0, p_values[index] * (len(order) - place)))
        adjusted[index] = highest
    return adjusted


def adjust_by_benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return adjusted p-values: of those up to the level a share of ``level`` is false, in the mean. NaN stays NaN."""
    order = _indices_by_p_value(p_values)
    adjusted = [nan] * len(p_values)
    lowest = 1.0
    for place, index in reversed(list(enumerate(order, start=1))):
        lowest = min(lowest, p_values[index] * len(order) / place)
        adjusted[index] = lowest
    return adjusted


def _indices_by_p_value(p_values: Sequence[float]) -> list[int]:
    known = [index for index, p in enumerate(p_values) if not isnan(p)]
    return sorted(known, key=lambda index: p_values[index])


def leave_p_values_uncorrected(p_values: Sequence[float]) -> list[float]:
    """Return the p-values as they are: no correction for the number of figures."""
    return list(p_values)


def classify_figures_of_suite(
    suite: Sequence[FigureEvidence],
    level: float,
    correct: Callable[[Sequence[float]], list[float]] = adjust_by_holm,
) -> list[FigureReading]:
    """Return a reading for each figure of a suite.

    level: chance of a false regression in the whole suite, and likewise of a false improvement.
    """
    worse = correct([evidence.p_value_of_worse for evidence in suite])
    better = correct([evidence.p_value_of_better for evidence in suite])
    return [
        FigureReading(
            _classify_figure(evidence, p_value_of_worse, p_value_of_better, level), p_value_of_worse, p_value_of_better
        )
        for evidence, p_value_of_worse, p_value_of_better in zip(suite, worse, better, strict=True)
    ]


def _classify_figure(evidence: FigureEvidence, p_value_of_worse: float, p_value_of_better: float, level: float) -> str:
    difference, _low, high = evidence.worse
    if isnan(p_value_of_worse) or isnan(difference):
        return NO_HISTORY
    if p_value_of_worse <= level and difference >= evidence.least and difference > 0:
        return REGRESSION
    if p_value_of_better <= level and -difference >= evidence.least and difference < 0:
        return IMPROVEMENT
    return PASS if high < evidence.least or high <= 0 else INCONCLUSIVE


def classify_interval_by_limits(low: float | None, high: float | None, least: float | None, most: float | None) -> str:
    """Return where the interval of a figure lies relative to its limits.

    low, high: of the figure; None for an unknown end (a latency of at least 12 s has no upper end). least, most: the
    limits, which are themselves allowed; None for none. Raises ValueError when there is no limit.
    """
    if least is None and most is None:
        raise ValueError("neither a least nor a largest value is given")
    bottom, top = -inf if low is None else low, inf if high is None else high
    floor, ceiling = -inf if least is None else least, inf if most is None else most
    if isnan(bottom) or isnan(top):
        return ACROSS
    if bottom > ceiling or top < floor:
        return OUTSIDE
    return WITHIN if floor <= bottom and top <= ceiling else ACROSS


def gravest_reading(readings: Sequence[str]) -> str:
    """Return the verdict from the readings of all judged figures: the gravest of them.

    A figure without enough history, or one that is not judged, changes nothing.
    """
    if REGRESSION in readings or OUTSIDE in readings:
        return REGRESSION
    if {INCONCLUSIVE, ACROSS, NOT_MEASURED} & set(readings):
        return INCONCLUSIVE
    return IMPROVEMENT if IMPROVEMENT in readings else PASS
