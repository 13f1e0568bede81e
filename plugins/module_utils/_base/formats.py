# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Format figures for readers, and read them: numbers, durations, Kubernetes quantities, counts and lists.

Figures have three significant digits and a suitable unit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime, timezone
from math import isfinite, isnan
from typing import Any

from .errors import InputError, suggest_similar_name

#: From these seconds on a duration is written in minutes, hours.
_MINUTES, _HOURS = 120.0, 7200.0
#: Units of durations that parse_number_with_unit() reads, in seconds; from the longest to the shortest, as in a text.
_SECONDS = {"d": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6}
#: Further spellings of units: minutes as in the durations of Go and Kubernetes, 1h30m.
_ALIASES = {"m": "min"}
#: Shares beyond this are not written out.
_LARGEST_SHARE = 10.0
#: A number as number() writes it: commas stand between groups of three digits only.
_NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?|\.[0-9]+"
_QUANTITY = re.compile(rf"(-?)({_NUMBER})\s*(.*)", re.DOTALL)
_DURATION_PART = re.compile(rf"({_NUMBER})\s*([a-zµ]+)\s*")


def format_number(value: float) -> str:
    """Return ``value`` with three significant digits, integers without decimals, thousands with commas."""
    if not isfinite(value):
        return "–"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 1:
        return f"{value:.2f}"
    if size >= 0.001:
        return f"{value:.3f}" if size < 0.1 else f"{value:.2f}"
    return f"{value:.2g}"


def format_duration(value: float) -> str:
    """Return a duration: 3.4 ms, 850 ms, 42.1 s, 3 min 5 s, 2 h 10 min."""
    if not isfinite(value):
        return "–"
    size = abs(value)
    sign = "-" if value < 0 else ""
    if size == 0:
        return "0 s"
    if size < 0.9995e-3:
        return f"{sign}{format_number(round(size * 1e6))} µs"
    if size < 0.9995:
        return f"{sign}{format_number(float(f'{size * 1e3:.3g}'))} ms"
    if size < _MINUTES:
        return f"{sign}{format_number(float(f'{size:.3g}'))} s"
    if size < _HOURS:
        return f"{sign}{int(round(size)) // 60} min {int(round(size)) % 60} s"
    return f"{sign}{int(round(size / 60)) // 60} h {int(round(size / 60)) % 60} min"


def format_with_unit(amount: float | None, unit: str) -> str:
    """Return a figure with its unit: 42.1 s, 0.73/s, 12 workloads; "–" for None."""
    if amount is None:
        return "–"
    if unit == "s":
        return format_duration(amount)
    return f"{format_number(amount)}{_unit_suffix(_singular_unit(unit) if amount == 1 else unit)}"


def format_exact_figure(amount: float, unit: str) -> str:
    """Return a figure with six significant digits, in its own unit: 10.9142 s."""
    return f"{amount:.6g}{_unit_suffix(unit)}"


def _singular_unit(unit: str) -> str:
    noun, slash, rest = unit.partition("/")
    return (noun.removesuffix("s") if len(noun) > 2 else noun) + slash + rest


def _unit_suffix(unit: str) -> str:
    if not unit:
        return ""
    return f"/{unit[2:]}" if unit.startswith("1/") else f" {unit}"


def parse_number_with_unit(text: object, unit: str, of: str = "") -> float:
    """Return the number that ``text`` states, in ``unit``: the inverse of value(), within its three significant digits.

    Args:
        text: A number, or text with or without the unit; durations in any unit: ``2 s``, ``150 ms``, ``3 min 5 s``.
        unit: The unit of the result.
        of: What has this unit, in messages.

    Raises:
        InputError: If it is no number, or has another unit.
    """
    if isinstance(text, (int, float)) and not isinstance(text, bool) and isfinite(text):
        return float(text)
    match = _QUANTITY.fullmatch(text.strip()) if isinstance(text, str) else None
    if not match:
        raise InputError(f"{text!r} is no number{f' with or without the unit {unit}' if unit else ''}")
    amount: float | None
    if not match[3] or match[3] in _unit_spellings(unit):
        amount = float(match[2].replace(",", ""))
    else:
        amount = _parse_duration(f"{match[2]} {match[3]}") if unit == "s" else None
    if amount is None:
        raise InputError(f"{text!r} has another unit than {f'{of}, ' if of else ''}{unit or 'a plain number'}")
    if not isfinite(amount):
        raise InputError(f"{text!r} is too large a number")
    return -amount if match[1] else amount


def _unit_spellings(unit: str) -> set[str]:
    """Return how value() and people write a unit behind a number."""
    return {unit, _singular_unit(unit), _unit_suffix(unit).strip()}


def _parse_duration(text: str) -> float | None:
    """Return seconds of ``3 min 5 s``; None if it is no duration."""
    total, units, at = 0.0, list(_SECONDS), 0
    while at < len(text):
        part = _DURATION_PART.match(text, at)
        unit = _ALIASES.get(part[2], part[2]) if part else ""
        if not part or unit not in units:
            return None
        total += float(part[1].replace(",", "")) * _SECONDS[unit]
        units, at = units[units.index(unit) + 1 :], part.end()
    return total


def format_range(low: float, high: float, unit: str) -> str:
    """Return a range, with the unit once if it is the same: 12.1 – 48 s, 850 ms – 2.3 s."""
    first, last = format_with_unit(low, unit), format_with_unit(high, unit)
    if first == last:
        return first
    ends = [text.rpartition(" ") for text in (first, last)]
    if unit == "s" and ends[0][2] == ends[1][2] and " " not in ends[0][0] + ends[1][0]:
        return f"{ends[0][0]} – {last}"
    return f"{first} – {last}" if unit == "s" else f"{format_number(low)} – {last}"


def format_interval_words(low: float, high: float, unit: str) -> str:
    """Return the ends of an interval in words, with the unit once if it is the same: 14 to 19 s, -850 ms to 2.3 s."""
    return format_range(low, high, unit).replace(" – ", " to ")


def format_count(amount: int, singular: str, many: str = "") -> str:
    """Return "1 workload", "12 workloads"."""
    return f"{amount:,} {singular if amount == 1 else many or singular + 's'}"


def format_list(names: Iterable[str], most: int = 5) -> str:
    """Return up to ``most`` names and the number of further ones."""
    all_ = list(names)
    more = f" and {len(all_) - most:,} more" if len(all_) > most else ""
    return ", ".join(all_[:most]) + more


def stage_display_name(name: str) -> str:
    """Return the display name of a stage: pods running, first pod running, quota reserved."""
    if name.startswith("pods_") and name.endswith("_first"):
        return f"first pod {name[5:-6].replace('_', ' ')}"
    return name.replace("_", " ")


def stage_writer_display_name(name: str) -> str:
    """Return the display name of a writer."""
    return {"api-server": "API server", "kueue": "Kueue"}.get(name, name) or "unknown writer"


def format_percent(share: float) -> str:
    """Return a share in percent with at most one decimal, "over 1,000" for one that says nothing."""
    if isnan(share):
        return "?"
    if abs(share) > _LARGEST_SHARE:
        return f"over {100 * _LARGEST_SHARE:,.0f}" if share > 0 else f"under -{100 * _LARGEST_SHARE:,.0f}"
    size = 100 * share
    text = f"{size:.0f}" if abs(size) >= 9.95 else f"{size:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def capitalize_first_letter(text: str) -> str:
    """Return ``text`` with an upper-case first letter and the rest unchanged."""
    return text[:1].upper() + text[1:]


def join_with_and(names: Iterable[str]) -> str:
    """Return "a", "a and b", "a, b and c"."""
    *first, last = list(names) or ["nothing"]
    return f"{', '.join(first)} and {last}" if first else last


def unknown_value_error(what: str, choice: object, known: Iterable[str]) -> InputError:
    """Return the error for an unknown value, naming the known ones and the nearest."""
    names = [str(name) for name in known]
    return InputError(f"{what} '{choice}' is none of {', '.join(names)}{suggest_similar_name(str(choice), names)}")


#: Maximum length of a setting's value in a table.
LONGEST_SETTING = 200


def format_setting_value(value: Any, longest: int = LONGEST_SETTING) -> str:
    """Return the value of a setting as text, cut after ``longest`` characters; an empty or blank text in quotes."""
    text = value if isinstance(value, str) and value.strip() else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


_GO_PART = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>h|ms|us|µs|ns|m|s)")
_GO_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def parse_go_duration(text: str) -> float | None:
    """Return the seconds of a duration; None for an invalid one (time.ParseDuration)."""
    parts = list(_GO_PART.finditer(text or ""))
    if not parts or "".join(part.group() for part in parts) != text:
        return None
    return sum(float(part["number"]) * _GO_UNITS[part["unit"]] for part in parts)


# The grammar of the Kubernetes API (apimachinery, resource.Quantity). 1E is 10**18, 1E3 is 1000.
_KUBE_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?:(?P<exponent>[eE][+-]?\d+)|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)"
)
_KUBE_FACTORS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0}
_KUBE_FACTORS |= {suffix: 1000.0**power for power, suffix in enumerate("kMGTPE", start=1)}
_KUBE_FACTORS |= {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", start=1)}


def is_kube_quantity(text: object) -> bool:
    """Return whether an API server would take ``text`` as the request of a container, which is not negative."""
    match = _KUBE_QUANTITY.fullmatch(str(text))
    return match is not None and not match["number"].startswith("-")


def parse_timestamp(text: object) -> datetime | None:
    """Return an ISO 8601 time in UTC, also of a file from elsewhere; None for other text. Without a zone, it is UTC."""
    try:
        moment = datetime.fromisoformat(str(text))
        return moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


def normalize_time_to_utc_text(text: object) -> str:
    """Return a time of any zone as text in UTC, which compares with others as text; other text as it is."""
    moment = None if str(text or "").endswith("Z") else parse_timestamp(text)
    return str(text or "") if moment is None else moment.isoformat().replace("+00:00", "Z")


def parse_whole_number(text: object, digits: int = 9) -> int | None:
    """Return the number that a text of ASCII digits is, None for any other text or one with more than ``digits``.

    For texts of others: str.isdigit() also accepts characters such as a superscript two, which int() refuses.
    """
    found = isinstance(text, str) and re.fullmatch(f"[0-9]{{1,{digits}}}", text)
    return int(found[0]) if found else None


def parse_kube_quantity(text: object) -> float:
    """Return a quantity as a number (``500m`` is 0.5, ``1Gi`` 2**30, ``1e3`` 1000), NaN for other text and ``1e999``.

    The server normalizes 1024Gi to 1Ti, so quantities must be compared as numbers.
    """
    match = _KUBE_QUANTITY.fullmatch(str(text))
    if not match:
        return float("nan")
    amount = float(match["number"] + (match["exponent"] or "")) * _KUBE_FACTORS[match["suffix"] or ""]
    return amount if isfinite(amount) else float("nan")


def parse_kube_count(text: object) -> int:
    """Return a quantity as a whole number, 0 for one that counts nothing: negative, or no number."""
    amount = parse_kube_quantity(text)
    return int(amount) if amount > 0 else 0
