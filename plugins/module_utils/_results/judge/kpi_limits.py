# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of KPIs (setting ``results_limits``): parse them, and judge a KPI of one point by its interval.

A limit is a promise, so there is no p-value: a KPI is within its limit if the whole interval is, outside if the whole
interval is, and across otherwise. The interval is the union of measurement interval and confidence interval.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeVar

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name

from ..statistics import comparison_scale
from ..statistics.readings_from_p_values import (
    ACROSS,
    NO_HISTORY,
    NOT_JUDGED,
    NOT_MEASURED,
    OUTSIDE,
    WITHIN,
    classify_interval_by_limits,
)

SETTING = "results_limits"
ENDS = ("max", "min")
#: Results, the one that outweighs the others last.
_GRAVITY = (WITHIN, NOT_MEASURED, ACROSS, OUTSIDE)
#: Result -> verb of its sentence.
VERBS = {WITHIN: "is within", OUTSIDE: "is outside", ACROSS: "may be within or outside"}
_KEYWORD = re.compile(r"{[^{}]*}")


def kpi_names_of_definition(definition: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that a KPI definition yields; ``*`` for a keyword whose values depend on the point."""
    keywords = definition.get("for_each") or {}
    listed = {keyword: values for keyword, values in keywords.items() if isinstance(values, list)}
    for values in itertools.product(*listed.values()):
        name = str(definition["name"])
        for keyword, value in zip(listed, values, strict=True):
            name = name.replace("{" + keyword + "}", str(value))
        yield _KEYWORD.sub("*", name)


def do_patterns_overlap(first: str, second: str) -> bool:
    """Return whether a KPI name exists that both patterns match; ``*`` matches any text."""

    @cache
    def from_(i: int, j: int) -> bool:
        if i == len(first) and j == len(second):
            return True
        if i < len(first) and first[i] == "*":
            return from_(i + 1, j) or (j < len(second) and from_(i, j + 1))
        if j < len(second) and second[j] == "*":
            return from_(i, j + 1) or (i < len(first) and from_(i + 1, j))
        return i < len(first) and j < len(second) and first[i] == second[j] and from_(i + 1, j + 1)

    return from_(0, 0)


@dataclass(frozen=True)
class KpiLimit:
    """The limits of all KPIs that ``pattern`` matches, in their unit, None for none; the limits are allowed values."""

    pattern: str
    least: float | None
    most: float | None
    text: str  # as written: "max 2 s"
    unit: str = ""  # of the KPIs, empty if they differ

    def matches(self, name: str) -> bool:
        """Return whether the limit applies to the KPI ``name``."""
        return do_patterns_overlap(self.pattern, name)


class JudgedValue(Protocol):
    """What was read of a figure by a limit."""

    @property
    def result(self) -> str:
        """Whether the limit holds."""

    @property
    def text(self) -> str:
        """The reading in words."""


JudgedT = TypeVar("JudgedT", bound=JudgedValue)


@dataclass(frozen=True)
class LimitReading:
    """``result``: within, outside, across or not measured. ``text``: the sentence that explains it."""

    result: str
    text: str


def parse_kpi_limits(
    raw: Mapping[str, Any], definitions: Iterable[Mapping[str, Any]], origins: Mapping[str, str] | None = None
) -> list[KpiLimit]:
    """Return the limits that a setting states.

    Args:
        raw: KPI name or pattern with ``*`` -> {max, min}, numbers or text with a unit.
        definitions: KPI definitions of the run.
        origins: Key of ``raw`` -> where it was written.

    Raises:
        InputError: For an unknown KPI, and a limit that is no number in the unit of the KPI.
    """
    units = {
        name: str(definition["unit"]) for definition in definitions for name in kpi_names_of_definition(definition)
    }
    return [_parse_kpi_limit(str(name), ends, units, (origins or {}).get(str(name), "")) for name, ends in raw.items()]


def _parse_kpi_limit(name: str, ends: Any, units: Mapping[str, str], origin: str) -> KpiLimit:
    written = f" (from {origin})" if origin else ""
    matched = sorted({unit for known, unit in units.items() if do_patterns_overlap(name, known)})
    if not matched:
        raise InputError(f"{SETTING}: KPI '{name}'{written} is not defined{suggest_similar_name(name, units)}")
    where = f"{SETTING}: {name}{written}"
    if not isinstance(ends, Mapping) or not ends or any(key not in ENDS for key in ends):
        wrong = next((str(key) for key in ends if key not in ENDS), "") if isinstance(ends, Mapping) else ""
        raise InputError(f"{where}: needs max or min, got {_raw_text(ends)}{suggest_similar_name(wrong, ENDS)}")
    most, least = (_parse_limit_bound(ends[key], matched, f"{where}: {key}") if key in ends else None for key in ENDS)
    texts = {key: _limit_text(ends[key], matched) for key in ENDS if key in ends}
    if most is not None and least is not None and most < least:
        raise InputError(f"{where}: max {texts['max']} is below min {texts['min']}")
    text = " and ".join(f"{key} {value}" for key, value in texts.items())
    return KpiLimit(name, least, most, text, matched[0] if len(matched) == 1 else "")


def _parse_limit_bound(value: Any, units: Iterable[str], where: str) -> float:
    bound = 0.0
    for unit in units:
        try:
            bound = formats.parse_number_with_unit(value, unit, "the KPI")
        except InputError as error:
            raise InputError(f"{where} {error}") from error
    return bound


def _limit_text(value: Any, units: Sequence[str]) -> str:
    if isinstance(value, str) or len(units) > 1:
        return str(value)
    return formats.format_with_unit(float(value), units[0])


def _raw_text(ends: Any) -> str:
    if isinstance(ends, Mapping):
        return "{" + ", ".join(f"{key}: {value}" for key, value in ends.items()) + "}"
    return repr(ends)


def check_kpi_against_limit(limit: KpiLimit, kpi: Mapping[str, Any]) -> LimitReading:
    """Judge one KPI of one point by a limit."""
    low, high = kpi_uncertainty_interval(kpi)
    if low is None and high is None:
        note = str(kpi.get("note") or "it has no value")
        return LimitReading(NOT_MEASURED, f"The limit is {limit.text}, and the figure was not measured: {note}.")
    result = classify_interval_by_limits(low, high, limit.least, limit.most)
    return LimitReading(result, f"{_figure_text(kpi, low, high, limit)} {VERBS[result]} the limit, {limit.text}.")


def worst_reading(readings: Sequence[JudgedT]) -> JudgedT:
    """Return the reading that outweighs the others, of at least one."""
    return max(readings, key=lambda reading: _GRAVITY.index(reading.result))


def kpi_uncertainty_interval(kpi: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the union of a KPI's measurement and confidence interval; None for an end that is not known.

    A KPI without a value has a lower bound at most (``at_least``). Both ends are None if nothing is known.
    """
    value = finite_kpi_value(kpi)
    if value is None:
        return _value_if_finite(kpi.get("at_least")) if kpi["value"] is None else None, None
    low, high = kpi.get("interval") or (value, value)
    sampled = kpi.get("confidence") or {"low": low, "high": high}
    lows, highs = (
        (_value_if_finite(low), _value_if_finite(sampled["low"])),
        (_value_if_finite(high), _value_if_finite(sampled["high"])),
    )
    return (
        None if None in lows else min(value, *(end for end in lows if end is not None)),
        None if None in highs else max(value, *(end for end in highs if end is not None)),
    )


def finite_kpi_value(kpi: Mapping[str, Any]) -> float | None:
    """Return the value of a KPI; None without one, and for one that is NaN, infinite or beyond LARGEST."""
    return _value_if_finite(kpi["value"])


def _value_if_finite(value: float | None) -> float | None:
    return value if value is not None and abs(value) < comparison_scale.LARGEST else None


def format_value_near_limit(limit: KpiLimit, amount: float, unit: str) -> str:
    """Return a figure with its unit, with more digits if it would read as on another side of the limit."""
    text = formats.format_with_unit(amount, unit)
    for end in (limit.least, limit.most):
        alike = end is not None and formats.format_with_unit(
            _round_to_displayed_digits(amount), unit
        ) == formats.format_with_unit(_round_to_displayed_digits(end), unit)
        # Of equal numbers the limit may have been written with more digits.
        if alike and (amount != end or text not in limit.text):
            return formats.format_exact_figure(amount, unit)
    return text


def _round_to_displayed_digits(amount: float) -> float:
    """Return a number with as many digits as formats.value() shows."""
    return float(f"{amount:.3g}") if abs(amount) < 1000 else amount


def _figure_text(kpi: Mapping[str, Any], low: float | None, high: float | None, limit: KpiLimit) -> str:
    unit, amount = kpi["unit"], finite_kpi_value(kpi)
    if amount is None:
        return f"At least {formats.format_with_unit(low, unit)}"
    value = format_value_near_limit(limit, amount, unit)
    if low == high:
        return value
    if low is not None and high is not None:
        return f"{value} ({formats.format_interval_words(low, high, unit)})"
    end = (
        f"at least {formats.format_with_unit(low, unit)}"
        if high is None
        else f"at most {formats.format_with_unit(high, unit)}"
    )
    return f"{value} ({end})"


def judge_kpi_by_limits(
    point: str, kpi: Mapping[str, Any], own: Sequence[KpiLimit], readings: Sequence[JudgedValue], compared: bool
) -> dict[str, Any]:
    """Return the judged KPI of a point as in schema verdict/2, before its comparison with history.

    Args:
        point: Number of the point.
        kpi: The KPI, as in kpis/2.
        own: The limits of the KPI.
        readings: The reading by each of them.
        compared: Whether it is compared with history.
    """
    read = worst_reading(readings) if readings else None
    reading, why = (NO_HISTORY, "There is no past run to compare with.") if compared else (NOT_JUDGED, "")
    return {
        "point": point,
        **{key: kpi[key] for key in ("name", "unit", "direction", "value", "simulated")},
        "title": kpi.get("title") or kpi["name"],
        "reading": reading,
        "why": read.text if read and (read.result != WITHIN or not why) else why,
        **({"limit": {"text": read.text, "result": read.result, **_tightest_limit_bounds(own)}} if read else {}),
    }


def _tightest_limit_bounds(own: Sequence[KpiLimit]) -> dict[str, float]:
    """Return the tightest ends of the limits of a KPI."""
    least = [limit.least for limit in own if limit.least is not None]
    most = [limit.most for limit in own if limit.most is not None]
    return {**({"min": max(least)} if least else {}), **({"max": min(most)} if most else {})}


def entry_of_missing_kpi(point: str, limit: KpiLimit) -> dict[str, Any]:
    """Return the entry of a limit whose KPI the point does not have, as in schema verdict/2."""
    text = f"The limit is {limit.text}, and the test point has no such figure."
    return {
        "point": point,
        "name": limit.pattern,
        "title": limit.pattern,
        "unit": limit.unit,
        "direction": "none",
        "value": None,
        "simulated": False,
        "reading": NOT_JUDGED,
        "why": text,
        "limit": {"text": text, "result": NOT_MEASURED},
    }
