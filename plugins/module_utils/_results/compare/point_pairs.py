# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pair the points of two runs with the same matrix values, and compute the differences of their figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point

from ..kpi import estimators
from ..kpi.point_data import KpiValue

#: KPIs of a point: name -> (document as in schema kpis/2, KpiValue).
Found = Mapping[str, tuple[Mapping[str, Any], KpiValue]]


def of_points(first: Sequence[Point], second: Sequence[Point]) -> list[tuple[Point, Point]]:
    """Return pairs of points with the same matrix values; two single points always form a pair."""
    if len(first) == len(second) == 1:
        return [(first[0], second[0])]
    pairs = []
    left = list(second)
    for one in first:
        same = next((other for other in left if other.settings == one.settings), None)
        if same is not None:
            left.remove(same)
            pairs.append((one, same))
    return pairs


def settings(
    of: Sequence[Mapping[str, Sequence[Mapping[str, Any]]]], used: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the settings that differ: name, and the value in each run.

    of: provenance of each run, without defaults. used: all values of each run, including defaults.
    """
    names = sorted({name for one in of for name in one})
    rows = []
    for name in names:
        values = [
            one[name][-1].get("value") if one.get(name) else every.get(name)
            for one, every in zip(of, used, strict=True)
        ]
        if any(value != values[0] for value in values):
            rows.append({"name": name, "values": values})
    return rows


def differences(first: Found, second: Found) -> list[dict[str, Any]]:
    """Return the difference of each KPI that both points have, in the order of the definitions.

    A simulated figure is not compared with a measured one.
    """
    both = [name for name in first if name in second]
    comparable = [name for name in both if first[name][0]["simulated"] == second[name][0]["simulated"]]
    return [_difference(first[name], second[name]) for name in comparable]


def _difference(
    before: tuple[Mapping[str, Any], KpiValue], after: tuple[Mapping[str, Any], KpiValue]
) -> dict[str, Any]:
    (old, old_figure), (new, new_figure) = before, after
    values: list[Any] = [old["value"], new["value"]]
    known = None not in values
    difference = new["value"] - old["value"] if known else None
    confidence = estimators.difference_interval(old_figure.replicates, new_figure.replicates, difference)
    row = {
        "name": new["name"],
        "title": new["title"],
        "unit": new["unit"],
        "direction": new["direction"],
        "before": values[0],
        "after": values[1],
        "difference": difference,
        "percent": 100 * difference / abs(values[0]) if difference is not None and values[0] else None,
        "confidence": confidence.document() if confidence else None,
        "reading": _reading(new["direction"], difference, confidence),
        "simulated": new["simulated"],
        "n": [old["n"], new["n"]],
        "of": [old["of"], new["of"]],
        "headline": new["headline"],
    }
    notes = [str(one["note"]) for one in (old, new) if one.get("note") and one["value"] is None]
    return {**row, **({"note": "; ".join(dict.fromkeys(notes))} if notes else {})}


def _reading(direction: str, difference: float | None, confidence: estimators.Confidence | None) -> str:
    """Return better or worse if the interval excludes zero, same if there is no difference, else unclear.

    It covers these two runs only, not the variation between runs of the same configuration.
    """
    if difference is None:
        return "unclear"
    if difference == 0 and (confidence is None or (confidence.low == confidence.high == 0)):
        return "same"
    if confidence is None or confidence.low is None or confidence.high is None or direction == "none":
        return "unclear"
    if confidence.low <= 0 <= confidence.high:
        return "unclear"
    return "better" if (difference > 0) == (direction == "higher") else "worse"


def summary(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of figures by assessment."""
    counts = {"better": 0, "worse": 0, "same": 0, "unclear": 0}
    for row in rows:
        counts[row["reading"]] += 1
    return counts
