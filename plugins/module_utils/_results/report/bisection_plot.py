# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plot of a bisection: the figure at each value, and the probability of a step after it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from . import plot_canvas
from .plot_canvas import PlotFile
from .plotted_stages import Drawing

BISECTION_COLUMNS = ["order", "value", "point", "figure"]
_RUN, _STEP = plot_canvas.COLOURS[0], plot_canvas.COLOURS[4]
#: Length of the text of a value below the axis.
_LONGEST = 12


def draw_bisection(found: Mapping[str, Any], unit: str, path: Path) -> PlotFile:
    """Draw a bisection (schema bisection/1) as <path>.png and <path>.csv. unit: of the figure."""
    with plot_canvas.style():
        return plot_canvas.write(bisection_drawing(found, unit), path)


def bisection_drawing(found: Mapping[str, Any], unit: str) -> Drawing:
    """Return the drawing: runs above, probabilities below."""
    known = [one for one in found["measurements"] if one["figure"] is not None]
    largest = max((abs(one["figure"]) for one in known), default=0.0)
    factor, shown = plot_canvas.scale(largest) if unit == "s" else (1.0, unit)
    figure, (above, below) = plot_canvas.stacked([2.2, 1.0], top=0.45, gap=0.15, bottom=0.56)
    above.plot(
        [one["index"] for one in known], [one["figure"] * factor for one in known], "o", color=_RUN, markersize=5,
        alpha=0.7,
    )  # fmt: skip
    below.bar([at + 0.5 for at in range(len(found["probabilities"]))], found["probabilities"], 0.8, color=_STEP)
    step = found.get("step")
    if step:
        above.axvline(step["index"] + 0.5, color=_STEP, linestyle="--", linewidth=1.4)
    texts = [formats.setting_text(one, _LONGEST) for one in found["values"]]
    for axis in (above, below):
        axis.set_xlim(-0.5, len(texts) - 0.5)
        axis.set_xticks(range(len(texts)), texts if axis is below else [""] * len(texts))
    above.set_ylabel(shown or "value")
    below.set_ylim(0, 1)
    below.set_ylabel("step here")
    below.set_xlabel(found["over"])
    title = f"{found['kpi']} over {found['over']}"
    plot_canvas.heading(figure, title)
    alt = f"{title}: {formats.count(len(known), 'run')}, and the probability of a step after each value. {found['why']}"
    rows = [[at, texts[one["index"]], one["point"], one["figure"]] for at, one in enumerate(found["measurements"], 1)]
    return Drawing(figure, title, alt, BISECTION_COLUMNS, rows)


def bisection_rows(found: Mapping[str, Any], unit: str) -> list[dict[str, str]]:
    """Return the values of a bisection for a table: runs, their mean, the probability of a step after each."""
    table = []
    for index, value in enumerate(found["values"]):
        figures = [one["figure"] for one in found["measurements"] if one["index"] == index]
        known = [one for one in figures if one is not None]
        last = index == len(found["values"]) - 1
        table.append(
            {
                "value": formats.setting_text(value, 60),
                "runs": str(len(figures)),
                "mean": formats.value(sum(known) / len(known), unit) if known else "–",
                "probability": "" if last else f"{found['probabilities'][index] * 100:.1f} %",
            }
        )
    return table
