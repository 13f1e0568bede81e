# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The headline figures of a run: one entry per KPI, with its value at each point and one text for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point

from . import headline_answer


def headline(of: Sequence[Point]) -> list[dict[str, Any]]:
    """Return the headline figures: one entry per KPI, with its value at each point and one text for all.

    The figure that provides the answer comes first.
    """
    entries: dict[str, dict[str, Any]] = {}
    for point in of:
        for kpi in point.kpis or []:
            if kpi.get("headline"):
                entry = entries.setdefault(
                    kpi["name"],
                    {
                        "name": kpi["name"],
                        "title": kpi.get("title", kpi["name"]),
                        "unit": kpi["unit"],
                        "direction": kpi["direction"],
                        "help": kpi["help"],
                        "simulated": False,
                        "points": [],
                    },
                )
                entry["simulated"] = entry["simulated"] or kpi["simulated"]
                entry["points"].append(
                    {
                        "point": point.number,
                        **{key: kpi.get(key) for key in ("value", "interval", "confidence", "n", "of", "note")},
                    }
                )
    for entry in entries.values():
        _sum_up(entry)
    first = headline_answer.figure(of)
    return sorted(entries.values(), key=lambda entry: entry["name"] != first)


#: With values at more test points than this, a line names only the lowest and the highest.
MOST_VALUES = 3


def _sum_up(entry: dict[str, Any]) -> None:
    """Add the fields of one line: n of N, text, detail, and value: a number, or text where points differ."""
    rows = entry["points"]
    entry["n"], entry["of"] = sum(one["n"] for one in rows), sum(one["of"] for one in rows)
    known = [one["value"] for one in rows if one["value"] is not None]
    several = f" in {len(rows)} test points" if len(rows) > 1 else ""
    note = next((one["note"] for one in rows if one["note"]), "")
    if entry["unit"] == "workloads" and len(known) == len(rows):
        entry["value"] = sum(known)
        entry["text"], entry["detail"] = (
            f"{formats.number(sum(known))} of {formats.number(entry['of'])}",
            several.strip(),
        )
        return
    short = note if note.startswith("≥") else ""
    entry["detail"] = f"{entry['n']:,} of {entry['of']:,}{several}" + (f"; {short}" if known and short else "")
    if not known:
        entry["value"] = None
        entry["text"] = note.split(":")[0] if short else "–"
        entry["detail"] = note.split(": ")[-1] if note else entry["detail"]
        return
    shown = [(formats.value(one["value"], entry["unit"]), one) for one in rows if one["value"] is not None]
    if len({text for text, _one in shown}) == 1:
        entry["text"], entry["value"] = shown[0][0], known[0]
    else:
        # Points are named, so that their values are not mistaken for an interval.
        entry["text"] = entry["value"] = _by_point(shown)


def _by_point(shown: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return the values of several points as text: all, or the lowest and the highest of many."""
    if len(shown) <= MOST_VALUES:
        return ", ".join(f"{text} ({one['point']})" for text, one in shown)
    low, high = (pick(shown, key=lambda pair: pair[1]["value"]) for pick in (min, max))
    return f"lowest {low[0]} ({low[1]['point']}), highest {high[0]} ({high[1]['point']})"
