# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sentence that a report leads with: the figure whose definition has an ``answer`` (docs/kpis.md), in words.

Of several such figures the last one counts that has a value: a project's definitions stand after those of every
project.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _format
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir.run_files import Point

Kpi = Mapping[str, Any]
#: With more test points than this the lowest and the highest are named only.
MOST_NAMED = 4
#: What the matrix set is named up to this length, else the number of the point.
LONGEST = 40


def sentences(points: Sequence[Point], labels: Mapping[str, str]) -> list[str]:
    """Return the answer of a run, empty when no figure gives one. labels: point number -> what the matrix set."""
    found = _chosen(points)
    if not found:
        return []
    labels = {number: text if len(text) <= LONGEST else f"point {number}" for number, text in labels.items()}
    whole = _of_one(next(iter(found.values()))) if len(points) == 1 else _of_many(found, labels)
    return [whole + (" (SIMULATED)" if any(one["simulated"] for one in found.values()) else "")]


def figure(points: Sequence[Point]) -> str:
    """Return the name of the figure that answers, empty when none does."""
    return next((str(one["name"]) for one in _chosen(points).values()), "")


def _chosen(points: Sequence[Point]) -> dict[str, Kpi]:
    """Return the figure that answers, at each point that has it."""
    rows: dict[str, dict[str, Kpi]] = {}
    for point in points:
        for kpi in point.kpis or []:
            if kpi.get("answer"):
                rows.setdefault(kpi["name"], {})[point.number] = kpi
    for found in reversed(rows.values()):
        if not any(_said(one) for one in found.values()):
            continue
        if any(one["simulated"] and one["answer"].get("only_real") for one in found.values()):
            continue
        return found
    return {}


def bound(kpi: Kpi) -> str:
    """Return the value that a figure has at least, in words, where nothing else is known of it; else nothing."""
    note = str(kpi.get("note") or "")
    return note.partition(":")[0].removeprefix("≥").strip() if kpi["value"] is None and note.startswith("≥") else ""


def _said(kpi: Kpi) -> str:
    if kpi["value"] is not None:
        return _format.value(kpi["value"], kpi["unit"])
    return f"at least {bound(kpi)}" if bound(kpi) else ""


def _of_one(kpi: Kpi) -> str:
    answer = kpi["answer"]
    if kpi["value"] is None and "bound" in answer:
        return str(answer["bound"]).replace("{value}", bound(kpi))
    counted = "steps" if "curve" in kpi.get("labels", {}) else "workloads"
    rest = f" ({kpi['n']:,} of {kpi['of']:,} {counted})" if kpi["n"] < kpi["of"] else ""
    return str(answer["text"]).replace("{value}", _said(kpi)) + rest


def _of_many(found: Mapping[str, Kpi], labels: Mapping[str, str]) -> str:
    kpis = list(found.values())
    title = kpis[0].get("title") or kpis[0]["name"]
    known = [(number, one) for number, one in found.items() if one["value"] is not None]
    if len(found) > MOST_NAMED and known:
        low, high = (pick(known, key=lambda pair: pair[1]["value"]) for pick in (min, max))
        ends = [f"{_said(one)} ({_name(one, labels[number]) or labels[number]})" for number, one in (low, high)]
        return f"{title}: lowest {ends[0]}, highest {ends[1]}, of {len(found)} test points"
    if len(known) == len(found) == 2:
        return f"{title}: {_of_two(known, labels)}"
    parts = [_called(one, labels[number], _against(one, found)) for number, one in found.items()]
    return f"{title}: {', '.join(parts)}"


def _of_two(known: Sequence[tuple[str, Kpi]], labels: Mapping[str, str]) -> str:
    """The better one first, then how far they are apart."""
    higher = known[0][1]["direction"] == "higher"
    ordered = sorted(known, key=lambda pair: pair[1]["value"], reverse=higher)
    parts = [_called(one, labels[number]) for number, one in ordered]
    return f"{', '.join(parts)}, {_difference(known[1][1], known[0][1])}"


def _difference(kpi: Kpi, first: Kpi) -> str:
    """Return by how much a figure differs from that of the first point, without its sign; if known as an interval."""
    value = kpi["value"] - first["value"]
    if not value:
        return "no difference"
    interval = (kpi.get("difference") or {}).get("confidence")
    if not interval or interval["low"] is None or interval["high"] is None:
        return f"difference {_format.value(abs(value), kpi['unit'])}"
    low, high = interval["low"], interval["high"]
    if low <= 0 <= high:
        return f"no clear difference: {_format.interval(low, high, kpi['unit'])} at 95 %"
    low, high = sorted((abs(low), abs(high)))
    return f"difference {_format.interval(low, high, kpi['unit'])}"


def _against(kpi: Kpi, found: Mapping[str, Kpi]) -> str:
    """Return how a figure differs from that of the first point; nothing of what is not known."""
    first = found.get((kpi.get("difference") or {}).get("point", ""))
    if first is None or first["value"] is None or kpi["value"] is None:
        return ""
    said = _difference(kpi, first)
    if said.startswith("no "):
        return said
    more = "more" if kpi["value"] > first["value"] else "less"
    return f"{said.removeprefix('difference ')} {more}"


def _called(kpi: Kpi, label: str, against: str = "") -> str:
    """Return the value with the name of its point before it; without a name what the matrix set stands behind it."""
    name, said = _name(kpi, label), _said(kpi) or "not known"
    behind = "; ".join(part for part in ("" if name else label, against) if part)
    return f"{f'{name} ' if name else ''}{said}{f' ({behind})' if behind else ''}"


def _name(kpi: Kpi, label: str) -> str:
    """Return the name that the definition gives to the value that the matrix set, empty when it gives none."""
    return str((kpi["answer"].get("names") or {}).get(label.partition(" = ")[2], ""))
