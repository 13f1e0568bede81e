# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a figure by its limit from several attempts at a point, at every look with one error rate (word ``repeat``).

The figure is the mean over the attempts. The test of always_valid_interval.py says whether it differs from the limit;
Holm's correction covers all limits of all points, so that ``results_level`` is the chance of any wrong decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite, nan
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..statistics import always_valid_interval, comparison_scale, multiple_testing
from ..statistics.always_valid_interval import AnytimeDifference
from ..statistics.readings import ACROSS, NOT_MEASURED, OUTSIDE, WITHIN
from . import limits
from .kpi_series import WIDTH
from .limits import Limit

Kpi = Mapping[str, Any]
#: Logarithm of a number beyond any figure.
_LARGEST = 700.0
METHOD = "mean of the attempts, at every look"


@dataclass(frozen=True)
class RepeatedReading:
    """A figure by its limit. value, low, high: in its unit, NaN or infinite if unknown. p: NaN if it was not tested."""

    result: str
    text: str
    value: float = nan
    low: float = nan
    high: float = nan
    p: float = nan
    p_corrected: float = nan


def read(suite: Sequence[tuple[Limit, Sequence[Kpi]]], level: float, each: Sequence[str] = ()) -> list[RepeatedReading]:
    """Return a reading for each limit with the figure of each attempt, at least one.

    level: chance of any wrong decision. each: names of figures whose limit holds for each attempt and not for the mean.
    """
    tested = [None if kpis[0]["name"] in each else _tested(limit, kpis) for limit, kpis in suite]
    p_values = [one.p if one else 1.0 for one in tested]
    corrected = multiple_testing.holm(p_values)
    places = {index: place for place, index in enumerate(sorted(range(len(suite)), key=lambda at: p_values[at]))}
    return [
        _reading(limit, kpis, one, adjusted, level / (len(suite) - places[index]), level)
        if one
        else _agreed(limit, kpis, kpis[0]["name"] in each)
        for index, ((limit, kpis), one, adjusted) in enumerate(zip(suite, tested, corrected, strict=True))
    ]


@dataclass(frozen=True)
class _Tested:
    """The comparison of the mean with the ends of a limit. p: of the side that it lies on."""

    logarithmic: bool
    result: str
    p: float


def _tested(limit: Limit, kpis: Sequence[Kpi]) -> _Tested | None:
    """Return the test of a figure, None for one without noise, or of which an end is not known in some attempt."""
    if any(None in (limits.value_of(one), *limits.interval_of(one)) for one in kpis):
        return None
    given = [one for one in (limit.least, limit.most) if one is not None]
    logarithmic = all(one > 0 for one in [*given, *_values(kpis, False)])
    values = _values(kpis, logarithmic)
    if len(kpis) > 1 and not comparison_scale.noise_of([values]).variance and not _within(kpis, logarithmic):
        return None
    ends = _ends(limit, kpis, logarithmic, 0.05)
    outside = [found.p_value for most, found in ends if (found.difference > 0 if most else found.difference < 0)]
    if outside:
        return _Tested(logarithmic, OUTSIDE, min(1.0, min(outside) * len(ends)))
    return _Tested(logarithmic, WITHIN, max(found.p_value for _most, found in ends))


def _ends(limit: Limit, kpis: Sequence[Kpi], logarithmic: bool, alpha: float) -> list[tuple[bool, AnytimeDifference]]:
    """Return the difference from each end of a limit, with whether it is an upper one."""
    values, within = list(_values(kpis, logarithmic)), _within(kpis, logarithmic)
    return [
        (
            most,
            always_valid_interval.against_limit(
                values, float(comparison_scale.scaled(end, logarithmic)), None, alpha, within
            ),
        )
        for most, end in ((True, limit.most), (False, limit.least))
        if end is not None
    ]


def _values(kpis: Sequence[Kpi], logarithmic: bool) -> Any:
    return comparison_scale.scaled(comparison_scale.as_array([one["value"] for one in kpis]), logarithmic)


def _within(kpis: Sequence[Kpi], logarithmic: bool) -> float:
    """Return the mean variance within the attempts, from the widths of their intervals."""
    widths = []
    for one in kpis:
        low, high = limits.interval_of(one)
        if low is not None and high is not None:
            widths.append((high - low) / (one["value"] if logarithmic else 1.0))
    return sum((width / WIDTH) ** 2 for width in widths) / len(widths) if widths else 0.0


def _reading(
    limit: Limit, kpis: Sequence[Kpi], tested: _Tested, corrected: float, alpha: float, level: float
) -> RepeatedReading:
    """Return the reading of a tested figure. alpha: of its interval, as Holm's correction gives it."""
    logarithmic = tested.logarithmic
    ends = _ends(limit, kpis, logarithmic, alpha)
    most, found = ends[0]
    origin = float(comparison_scale.scaled(limit.most if most else limit.least, logarithmic))

    def back(amount: float) -> float:
        return (exp(amount) if amount < _LARGEST else inf) if logarithmic else amount

    value, low, high = (back(origin + one) for one in (found.difference, found.low, found.high))
    result = tested.result if corrected <= level else ACROSS
    return RepeatedReading(
        result, _sentence(limit, kpis, result, value, low, high), value, low, high, tested.p, corrected
    )


def _sentence(limit: Limit, kpis: Sequence[Kpi], result: str, value: float, low: float, high: float) -> str:
    unit = kpis[0]["unit"]
    if len(kpis) == 1:
        return f"One attempt does not show how much attempts differ; the limit is {limit.text}."
    about = f" ({formats.interval(low, high, unit)} at every look)" if isfinite(high) and isfinite(low) else ""
    words = limits.WORDS[result]
    mean = limits.beside(limit, value, unit)
    return f"The mean of {len(kpis)} attempts is {mean}{about}. It {words} the limit, {limit.text}."


def _agreed(limit: Limit, kpis: Sequence[Kpi], each: bool) -> RepeatedReading:
    """Return the reading that all attempts agree on, without a test; the gravest if the limit is for each."""
    plain = [limits.judge(limit, one) for one in kpis]
    worst = limits.worst(plain)
    results = {one.result for one in plain}
    result = worst.result if each or len(results) == 1 else ACROSS
    known = [value for one in kpis if (value := limits.value_of(one)) is not None]
    value = sum(known) / len(known) if known else nan
    lows, highs = zip(*(limits.interval_of(one) for one in kpis), strict=True)
    low = nan if None in lows else min(lows)
    high = nan if None in highs else max(highs)
    if len(kpis) == 1 or result == NOT_MEASURED or each:
        return RepeatedReading(result, worst.text, value, low, high)
    verb = "agree" if len(results) == 1 else "do not agree"
    return RepeatedReading(result, f"{len(kpis)} attempts {verb}: {worst.text}", value, low, high)
