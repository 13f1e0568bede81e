# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bar charts over the points of a matrix: one chart per headline figure, one bar per point."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from . import plot_canvas
from .plot_canvas import COLOURS, GREY, PlotFile, stage_title
from .plotted_stages import Drawing

MATRIX_COLUMNS = [
    "point",
    "settings",
    "value",
    "unit",
    "at_least",
    "at_most",
    "low_95",
    "high_95",
    "n",
    "of",
    "simulated",
]


def draw_bars(
    headline: Sequence[dict[str, Any]], labels: Sequence[str], numbers: Sequence[str], folder: Path
) -> list[PlotFile]:
    """Draw each headline figure over the points, as points_<name>.png.

    headline: as in a verdict. labels: matrix values of each point, in the order of ``numbers``.
    """
    plots = []
    drawn = [entry for entry in headline if any(one["value"] is not None for one in entry["points"])]
    with plot_canvas.style():
        for place, entry in enumerate(drawn if len(numbers) > 1 else []):
            texts = [_short(label) for label in labels]
            left = 0.3 + 0.082 * max(len(text) for text in texts)
            figure, (axis,) = plot_canvas.stacked([0.28 * len(numbers) + 0.1], top=0.42, gap=0, bottom=0.56, left=left)
            description, ends = _bars(axis, entry, texts, numbers, COLOURS[place % (len(COLOURS) - 1)])
            axis.set_xlim(*plot_canvas.limits(ends, left))
            title = stage_title(entry["title"], entry["simulated"])
            plot_canvas.heading(figure, title)
            alt = f"{title}, at each test point. {description}"
            drawing = Drawing(figure, title, alt, MATRIX_COLUMNS, matrix_rows(entry, labels, numbers))
            plots.append(plot_canvas.write(drawing, folder / f"points_{entry['name']}"))
    return plots


def _bars(
    axis: Any, entry: dict[str, Any], labels: Sequence[str], numbers: Sequence[str], colour: str
) -> tuple[str, list[tuple[float, str]]]:
    """Draw the bars; return their description, and the places and texts of their labels."""
    values = {one["point"]: one for one in entry["points"]}
    known = [one["value"] for one in entry["points"] if one["value"] is not None]
    factor, unit = plot_canvas.scale(max(known)) if entry["unit"] == "s" else (1.0, entry["unit"])
    texts: list[str] = []
    ends: list[tuple[float, str]] = []
    for place, number in enumerate(numbers):
        one = values.get(number) or {}
        if one.get("value") is None:
            note = (one.get("note") or "unknown").partition(":")[0]
            ends.append((0.0, f" {note}"))
            axis.text(0, place, f" {note}", va="center", fontsize=9, color=GREY)
            texts.append(f"{labels[place]}: {note}.")
            continue
        value = one["value"] * factor
        low, high = (part * factor for part in _ends(one))
        hatch = "///" if entry["simulated"] else None
        axis.barh(place, value, facecolor=f"{colour}66", edgecolor=colour, hatch=hatch, height=0.68)
        if high > low:
            axis.hlines(place, low, high, color="black", linewidth=1.8)
        text, edge = f"  {formats.number(float(f'{value:.3g}'))}", max(value, high)
        ends += [(edge, text), (min(value, low), "")]
        axis.text(edge, place, text, va="center", fontsize=10)
        texts.append(f"{labels[place]}: {formats.value(one['value'], entry['unit'])}.")
    axis.set_yticks(range(len(numbers)), labels, fontsize=10)
    axis.set_ylim(len(numbers) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    better = {"higher": "higher is better", "lower": "lower is better"}.get(entry["direction"], "")
    axis.set_xlabel(", ".join(part for part in (unit, better) if part) or "value")
    return " ".join(texts), ends


def _ends(one: dict[str, Any]) -> tuple[float, float]:
    """Return the confidence interval if it has both bounds, else the measurement interval."""
    confidence = one.get("confidence") or {}
    if confidence.get("low") is not None and confidence.get("high") is not None:
        return confidence["low"], confidence["high"]
    low, high = one.get("interval") or (one["value"], one["value"])
    return low, high


def matrix_rows(entry: dict[str, Any], labels: Sequence[str], numbers: Sequence[str]) -> list[list[Any]]:
    """Return the rows of the CSV file: a headline figure at each point."""
    values = {one["point"]: one for one in entry["points"]}
    found = []
    for number, label in zip(numbers, labels, strict=True):
        one = values.get(number) or {}
        confidence = one.get("confidence") or {}
        ends = [*(one.get("interval") or (None, None)), confidence.get("low"), confidence.get("high")]
        counts = [one.get("n"), one.get("of"), entry["simulated"]]
        found.append([number, label, one.get("value"), entry["unit"], *ends, *counts])
    return found


def _short(label: str) -> str:
    return label if len(label) <= 32 else f"{label[:31]}…"
