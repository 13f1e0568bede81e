# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of KPIs (setting ``results_limits``): parse them, and judge a KPI of one point by its interval.

A limit is a promise, so there is no p-value: a KPI is within its limit if the whole interval is, outside if the whole
interval is, and across otherwise. The interval is the union of measurement interval and confidence interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol, TypeVar

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest

from ..statistics import comparison_scale
from ..statistics.readings import ACROSS, NO_HISTORY, NOT_MEASURED, OUTSIDE, WITHIN, read_limit
from . import headline_answer, kpi_patterns
from .overall_verdict import NOT_JUDGED

SETTING = "results_limits"
ENDS = ("max", "min")
#: Results, the one that outweighs the others last.
_GRAVITY = (WITHIN, NOT_MEASURED, ACROSS, OUTSIDE)


@dataclass(frozen=True)
class Limit:
    """The limits of all KPIs that ``pattern`` matches, in their unit, None for none; the limits are allowed values."""

    pattern: str
    least: float | None
    most: float | None
    text: str  # as written: "max 2 s"
    unit: str = ""  # of the KPIs, empty if they differ

    def matches(self, name: str) -> bool:
        """Return whether the limit applies to the KPI ``name``."""
        return kpi_patterns.overlap(self.pattern, name)


@dataclass(frozen=True)
class LimitReading:
    """``result``: within, outside, across or not measured. ``text``: the sentence that explains it."""

    result: str
    text: str


def parse(
    raw: Mapping[str, Any], definitions: Iterable[Mapping[str, Any]], origins: Mapping[str, str] | None = None
) -> list[Limit]:
    """Return the limits of ``raw``: KPI name or pattern with ``*`` -> {max, min}, numbers or text with a unit.

    definitions: KPI definitions of the run. origins: key of ``raw`` -> where it was written. Raises InputError.
    """
    units = {name: str(one["unit"]) for one in definitions for name in kpi_patterns.names_of(one)}
    return [_limit(str(name), ends, units, (origins or {}).get(str(name), "")) for name, ends in raw.items()]


def _limit(name: str, ends: Any, units: Mapping[str, str], origin: str) -> Limit:
    written = f" (from {origin})" if origin else ""
    matched = sorted({unit for known, unit in units.items() if kpi_patterns.overlap(name, known)})
    if not matched:
        message = f"{SETTING}: KPI '{name}'{written} is not defined{nearest(name, units)}"
        raise InputError(message)
    where = f"{SETTING}: {name}{written}"
    if not isinstance(ends, Mapping) or not ends or any(key not in ENDS for key in ends):
        wrong = next((str(key) for key in ends if key not in ENDS), "") if isinstance(ends, Mapping) else ""
        raise InputError(f"{where}: needs max or min, got {_shown(ends)}{nearest(wrong, ENDS)}")
    most, least = (_bound(ends[key], matched, f"{where}: {key}") if key in ends else None for key in ENDS)
    text = " and ".join(f"{key} {_written(ends[key], matched)}" for key in ENDS if key in ends)
    if most is not None and least is not None and most < least:
        raise InputError(f"{where}: max {_written(ends['max'], matched)} is below min {_written(ends['min'], matched)}")
    return Limit(name, least, most, text, matched[0] if len(matched) == 1 else "")


def _bound(value: Any, units: Iterable[str], where: str) -> float:
    found = 0.0
    for unit in units:
        try:
            found = formats.parse_value(value, unit)
        except InputError as error:
            other = str(error)
            if isinstance(error, formats.UnitError):
                other = other.replace(" than ", " than the KPI, ")
            raise InputError(f"{where} {other}") from error
    return found


def _written(value: Any, units: list[str]) -> str:
    if isinstance(value, str) or len(units) > 1:
        return str(value)
    return formats.value(float(value), units[0])


def _shown(ends: Any) -> str:
    if isinstance(ends, Mapping):
        return "{" + ", ".join(f"{key}: {value}" for key, value in ends.items()) + "}"
    return repr(ends)


class Judged(Protocol):
    """What was read of a figure by a limit."""

    @property
    def result(self) -> str: ...

    @property
    def text(self) -> str: ...


One = TypeVar("One", bound=Judged)


def worst(readings: Sequence[One]) -> One:
    """Return the reading that outweighs the others, of at least one."""
    return max(readings, key=lambda one: _GRAVITY.index(one.result))


def entry(
    point: str, kpi: Mapping[str, Any], own: Sequence[Limit], readings: Sequence[Judged], compared: bool
) -> dict[str, Any]:
    """Return the judged KPI of a point as in schema verdict/2, before its comparison with history.

    own: the limits of the KPI. readings: by each of them. compared: whether it is compared with history.
    """
    read = worst(readings) if readings else None
    reading, why = (NO_HISTORY, "There is no past run to compare with.") if compared else (NOT_JUDGED, "")
    return {
        "point": point,
        **{key: kpi[key] for key in ("name", "unit", "direction", "value", "simulated")},
        "title": kpi.get("title") or kpi["name"],
        "reading": reading,
        "why": read.text if read and (read.result != WITHIN or not why) else why,
        **({"limit": {"text": read.text, "result": read.result, **_ends(own)}} if read else {}),
    }


def _ends(own: Sequence[Limit]) -> dict[str, float]:
    """Return the tightest ends of the limits of a KPI."""
    least = [one.least for one in own if one.least is not None]
    most = [one.most for one in own if one.most is not None]
    return {**({"min": max(least)} if least else {}), **({"max": min(most)} if most else {})}


def interval_of(kpi: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the union of a KPI's measurement and confidence interval; None for an end that is not known.

    A KPI without a value has a lower bound at most ("≥ 14.6 s"). Both ends are None if nothing is known.
    """
    value = value_of(kpi)
    if value is None:
        bound = headline_answer.bound(kpi)
        return (formats.parse_value(bound, kpi["unit"]) if bound else None), None
    low, high = kpi.get("interval") or (value, value)
    sampled = kpi.get("confidence") or {"low": low, "high": high}
    lows, highs = (low, sampled["low"]), (high, sampled["high"])
    return (
        None if None in map(_known, lows) else min(*lows, value),
        None if None in map(_known, highs) else max(*highs, value),
    )


def value_of(kpi: Mapping[str, Any]) -> float | None:
    """Return the value of a KPI; None without one, and for one that is NaN, infinite or beyond LARGEST."""
    return _known(kpi["value"])


def _known(value: float | None) -> float | None:
    return value if value is not None and abs(value) < comparison_scale.LARGEST else None


def judge(limit: Limit, kpi: Mapping[str, Any]) -> LimitReading:
    """Judge one KPI of one point by a limit."""
    interval = interval_of(kpi)
    if interval == (None, None):
        note = str(kpi.get("note") or "it has no value")
        return LimitReading(NOT_MEASURED, f"The limit is {limit.text}, and the figure was not measured: {note}.")
    result = read_limit(*interval, limit.least, limit.most)
    return LimitReading(result, f"{_amount(kpi, interval, limit)} {WORDS[result]} the limit, {limit.text}.")


WORDS = {WITHIN: "is within", OUTSIDE: "is outside", ACROSS: "may be within or outside"}


def beside(limit: Limit, amount: float, unit: str) -> str:
    """Return a figure with its unit, with more digits if it would read as on another side of the limit."""
    text = formats.value(amount, unit)
    shown = formats.parse_value(text, unit) if isfinite(amount) else amount
    ends = [one for one in (limit.least, limit.most) if one is not None]
    same = all((shown > one, shown < one) == (amount > one, amount < one) for one in ends)
    return text if same else formats.exact(amount, unit)


def _amount(kpi: Mapping[str, Any], interval: tuple[float | None, float | None], limit: Limit) -> str:
    (low, high), unit, amount = interval, kpi["unit"], value_of(kpi)
    if amount is None:
        return f"At least {formats.value(low, unit)}"
    value = beside(limit, amount, unit)
    if low == high:
        return value
    if low is not None and high is not None:
        return f"{value} ({formats.interval(low, high, unit)})"
    end = f"at least {formats.value(low, unit)}" if high is None else f"at most {formats.value(high, unit)}"
    return f"{value} ({end})"
