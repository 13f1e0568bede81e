# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Format figures for readers: three significant digits and a suitable unit; counts and lists."""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import isfinite
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError, nearest

#: From these seconds on a duration is written in minutes, hours.
_MINUTES, _HOURS = 120.0, 7200.0


def number(value: float) -> str:
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


def seconds(value: float) -> str:
    """Return a duration: 3.4 ms, 850 ms, 42.1 s, 3 min 5 s, 2 h 10 min."""
    size = abs(value)
    sign = "-" if value < 0 else ""
    if size == 0:
        return "0 s"
    if size < 0.9995e-3:
        return f"{sign}{number(round(size * 1e6))} µs"
    if size < 0.9995:
        return f"{sign}{number(float(f'{size * 1e3:.3g}'))} ms"
    if size < _MINUTES:
        return f"{sign}{number(float(f'{size:.3g}'))} s"
    if size < _HOURS:
        return f"{sign}{int(round(size)) // 60} min {int(round(size)) % 60} s"
    return f"{sign}{int(round(size / 60)) // 60} h {int(round(size / 60)) % 60} min"


def value(amount: float | None, unit: str) -> str:
    """Return a figure with its unit: 42.1 s, 0.73/s, 12 workloads; "–" for None."""
    if amount is None:
        return "–"
    if unit == "s":
        return seconds(amount)
    return f"{number(amount)}{_behind(unit.removesuffix('s') if amount == 1 and len(unit) > 2 else unit)}"


def _behind(unit: str) -> str:
    if not unit:
        return ""
    return f"/{unit[2:]}" if unit.startswith("1/") else f" {unit}"


def span(low: float, high: float, unit: str) -> str:
    """Return a range, with the unit once if it is the same: 12.1 – 48 s, 850 ms – 2.3 s."""
    first, last = value(low, unit), value(high, unit)
    if first == last:
        return first
    ends = [text.rpartition(" ") for text in (first, last)]
    if unit == "s" and ends[0][2] == ends[1][2] and " " not in ends[0][0] + ends[1][0]:
        return f"{ends[0][0]} – {last}"
    return f"{first} – {last}" if unit == "s" else f"{number(low)} – {last}"


def interval(low: float, high: float, unit: str) -> str:
    """Return the ends of an interval in words, with the unit once if it is the same: 14 to 19 s, -850 ms to 2.3 s."""
    return span(low, high, unit).replace(" – ", " to ")


def count(amount: int, one: str, many: str = "") -> str:
    """Return "1 workload", "12 workloads"."""
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"


def listed(names: Iterable[str], most: int = 5) -> str:
    """Return up to ``most`` names and the number of further ones."""
    all_ = list(names)
    more = f" and {len(all_) - most:,} more" if len(all_) > most else ""
    return ", ".join(all_[:most]) + more


def stage(name: str) -> str:
    """Return the display name of a stage: pods running, first pod running, quota reserved."""
    if name.startswith("pods_") and name.endswith("_first"):
        return f"first pod {name[5:-6].replace('_', ' ')}"
    return name.replace("_", " ")


def writer(name: str) -> str:
    """Return the display name of a writer."""
    return {"api-server": "API server", "kueue": "Kueue"}.get(name, name) or "unknown writer"


def joined(names: Iterable[str]) -> str:
    """Return "a", "a and b", "a, b and c"."""
    *first, last = list(names) or ["nothing"]
    return f"{', '.join(first)} and {last}" if first else last


def unknown(what: str, given: object, known: Iterable[str]) -> InputError:
    """Return the error for an unknown value, naming the known ones and the nearest."""
    names = [str(one) for one in known]
    return InputError(f"{what} '{given}' is none of {', '.join(names)}{nearest(str(given), names)}")


#: Maximum length of a setting's value in a table.
LONGEST_SETTING = 200


def setting_text(value: Any, longest: int = LONGEST_SETTING) -> str:
    """Return the value of a setting as text, cut after ``longest`` characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
