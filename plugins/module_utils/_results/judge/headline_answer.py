# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compose the sentence that a report leads with, from the figure whose definition has an ``answer`` (docs/kpis.md).

Of several such figures the last one with a value is used; a project's definitions come after the common ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point

Kpi = Mapping[str, Any]
#: With more test points than this, only the lowest and the highest are named.
MOST_NAMED = 4
#: Maximum length of a label; the number of the point replaces a longer one.
LONGEST = 40


def sentences(points: Sequence[Point], labels: Mapping[str, str]) -> list[str]:
    """Return the answer of a run, empty if no figure provides one. labels: point number -> matrix values."""
    found = _chosen(points)
    if not found:
        return []
    labels = {number: text if len(text) <= LONGEST else f"point {number}" for number, text in labels.items()}
    whole = _of_one(next(iter(found.values()))) if len(points) == 1 else _of_many(found, labels)
    return [whole + (" (SIMULATED)" if any(one["simulated"] for one in found.values()) else "")]


def figure(points: Sequence[Point]) -> str:
    """Return the name of the figure that provides the answer, empty if none does."""
    return next((str(one["name"]) for one in _chosen(points).values()), "")


def _chosen(points: Sequence[Point]) -> dict[str, Kpi]:
    """Return the figure that provides the answer, by point number."""
    rows: dict[str, dict[str, Kpi]] = {}
    for point in points:
        for kpi in point.kpis or []:
            if kpi.get("answer"):
                rows.setdefault(kpi["name"], {})[point.number] = kpi
    for found in reversed(rows.values()):
        if not any(_value(one) for one in found.values()):
            continue
        if any(one["simulated"] and one["answer"].get("only_real") for one in found.values()):
            continue
        return found
    return {}


def bound(kpi: Kpi) -> str:
    """Return the lower bound of a figure without a value, as text; empty if there is none."""
    note = str(kpi.get("note") or "")
    return note.partition(":")[0].removeprefix("≥").strip() if kpi["value"] is None and note.startswith("≥") else ""


def _value(kpi: Kpi) -> str:
    if kpi["value"] is not None:
        return formats.value(kpi["value"], kpi["unit"])
    return f"at least {bound(kpi)}" if bound(kpi) else ""


def _of_one(kpi: Kpi) -> str:
    answer = kpi["answer"]
    stepped = "curve" in kpi.get("labels", {})
    single = kpi["of"] == 1 and not stepped
    text, at_least = (answer.get("one"), answer.get("one_bound")) if single else (None, None)
    at_least = at_least or answer.get("bound")
    if kpi["value"] is None and at_least:
        return str(at_least).replace("{value}", bound(kpi))
    counted = "steps" if stepped else "workloads"
    rest = f" ({kpi['n']:,} of {kpi['of']:,} {counted})" if kpi["n"] < kpi["of"] and not single else ""
    return str(text or answer["text"]).replace("{value}", _value(kpi)) + rest


def _of_many(found: Mapping[str, Kpi], labels: Mapping[str, str]) -> str:
    kpis = list(found.values())
    title = kpis[0].get("title") or kpis[0]["name"]
    known = [(number, one) for number, one in found.items() if one["value"] is not None]
    if len(found) > MOST_NAMED and known:
        low, high = (pick(known, key=lambda pair: pair[1]["value"]) for pick in (min, max))
        ends = [f"{_value(one)} ({_name(one, labels[number]) or labels[number]})" for number, one in (low, high)]
        return f"{title}: lowest {ends[0]}, highest {ends[1]}, of {len(found)} test points"
    if len(known) == len(found) == 2:
        return f"{title}: {_of_two(known, labels)}"
    parts = [_called(one, labels[number], _against(one, found)) for number, one in found.items()]
    return f"{title}: {', '.join(parts)}"


def _of_two(known: Sequence[tuple[str, Kpi]], labels: Mapping[str, str]) -> str:
    """Return both values, the better one first, and their difference."""
    higher = known[0][1]["direction"] == "higher"
    ordered = sorted(known, key=lambda pair: pair[1]["value"], reverse=higher)
    parts = [_called(one, labels[number]) for number, one in ordered]
    return f"{', '.join(parts)}, {_difference(known[1][1], known[0][1])}"


def _difference(kpi: Kpi, first: Kpi) -> str:
    """Return the absolute difference from the first point, as an interval where known."""
    value = kpi["value"] - first["value"]
    if not value:
        return "no difference"
    interval = (kpi.get("difference") or {}).get("confidence")
    if not interval or interval["low"] is None or interval["high"] is None:
        return f"difference {formats.value(abs(value), kpi['unit'])}"
    low, high = interval["low"], interval["high"]
    if low <= 0 <= high:
        return f"no clear difference: {formats.interval(low, high, kpi['unit'])} at 95 %"
    low, high = sorted((abs(low), abs(high)))
    return f"difference {formats.interval(low, high, kpi['unit'])}"


def _against(kpi: Kpi, found: Mapping[str, Kpi]) -> str:
    """Return the difference from the first point; empty if unknown."""
    first = found.get((kpi.get("difference") or {}).get("point", ""))
    if first is None or first["value"] is None or kpi["value"] is None:
        return ""
    text = _difference(kpi, first)
    if text.startswith("no "):
        return text
    more = "more" if kpi["value"] > first["value"] else "less"
    return f"{text.removeprefix('difference ')} {more}"


def _called(kpi: Kpi, label: str, against: str = "") -> str:
    """Return the value after the name of its point, or before its matrix values if it has no name."""
    name, value = _name(kpi, label), _value(kpi) or "unknown"
    behind = "; ".join(part for part in ("" if name else label, against) if part)
    return f"{f'{name} ' if name else ''}{value}{f' ({behind})' if behind else ''}"


def _name(kpi: Kpi, label: str) -> str:
    """Return the display name that the definition gives to the matrix value, empty without one."""
    return str((kpi["answer"].get("names") or {}).get(label.partition(" = ")[2], ""))
