# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Heat maps over the points of a matrix with at least two varying settings: one per headline figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import setting_text

from . import matrix_bars, plot_canvas
from .plot_canvas import GREY, PlotFile, stage_title
from .plotted_stages import Drawing


@dataclass(frozen=True)
class Grid:
    """The cell of each point: its row (all varying settings but one) and column (that setting)."""

    down: Sequence[str]  # names of the settings that make rows
    along: str
    rows: Sequence[str]
    columns: Sequence[str]
    places: Mapping[str, tuple[int, int]]  # point number -> row, column


def matrix_grid(settings: Sequence[Mapping[str, Any]], numbers: Sequence[str]) -> Grid | None:
    """Return the grid of a matrix with at least two varying settings, None for any other."""
    names = list(dict.fromkeys(name for one in settings for name in one))
    varied = [name for name in names if len({setting_text(one.get(name)) for one in settings}) > 1]
    if len(varied) < 2:
        return None
    # The setting with the most values becomes the columns, because a page is wide.
    along = max(varied, key=lambda name: len({setting_text(one.get(name)) for one in settings}))
    down = [name for name in varied if name != along]
    columns = list(dict.fromkeys(setting_text(one.get(along), 16) for one in settings))
    texts = [", ".join(setting_text(one.get(name), 16) for name in down) for one in settings]
    rows = list(dict.fromkeys(texts))
    places = {
        number: (rows.index(text), columns.index(setting_text(one.get(along), 16)))
        for number, text, one in zip(numbers, texts, settings, strict=True)
    }
    if len(set(places.values())) < len(places):
        return None  # two points in one cell: the same matrix twice
    return Grid(down, along, rows, columns, places)


def draw_heatmaps(headline: Sequence[Mapping[str, Any]], at: Grid, folder: Path) -> list[PlotFile]:
    """Draw each headline figure as points_<name>.png, with its value in every cell."""
    plots = []
    with plot_canvas.style():
        for entry in headline:
            if any(one["value"] is not None for one in entry["points"]):
                plots.append(plot_canvas.write(_heatmap(dict(entry), at), folder / f"points_{entry['name']}"))
    return plots


def _heatmap(entry: dict[str, Any], at: Grid) -> Drawing:
    import numpy as np

    values = np.full((len(at.rows), len(at.columns)), np.nan)
    notes = {}
    for one in entry["points"]:
        place = at.places[one["point"]]
        if one["value"] is None:
            notes[place] = (one.get("note") or "unknown").partition(":")[0]
        else:
            values[place] = one["value"]
    left = 0.45 + 0.09 * max(len(one) for one in at.rows)
    height = 0.42 * len(at.rows) + 0.1
    figure, (axis,) = plot_canvas.stacked([height], top=0.62, gap=0, bottom=0.72, left=min(left, 3.2))
    known = values[~np.isnan(values)]
    low, high = float(known.min()), float(known.max())
    axis.imshow(values, aspect="auto", cmap="cividis", vmin=low, vmax=high if high > low else low + 1)
    texts = []
    for number, (row, column) in at.places.items():
        value = values[row, column]
        missing = np.isnan(value)
        text = notes.get((row, column), "–") if missing else formats.value(float(value), entry["unit"])
        bright = not missing and (value - low) / ((high - low) or 1) > 0.55
        colour = GREY if missing else "black" if bright else "white"
        axis.text(column, row, text, ha="center", va="center", fontsize=9.5, color=colour)
        texts.append(f"{at.rows[row]} / {at.columns[column]} (point {number}): {text}.")
    axis.set_xticks(range(len(at.columns)), at.columns)
    axis.set_yticks(range(len(at.rows)), at.rows)
    axis.grid(visible=False)
    axis.set_xlabel(at.along.rpartition(".")[2])
    figure.text(
        0.1 / plot_canvas.WIDTH, 1 - 0.36 / figure.get_size_inches()[1], _names(at), va="top", fontsize=9.5, color=GREY
    )
    better = {"higher": ", higher is better", "lower": ", lower is better"}.get(entry["direction"], "")
    title = stage_title(entry["title"], entry["simulated"]) + better
    plot_canvas.heading(figure, title)
    numbers = list(at.places)
    labels = [f"{at.rows[row]} / {at.columns[column]}" for row, column in at.places.values()]
    alt = f"{title}: heat map, {_names(at)}; columns: {at.along}. {' '.join(texts)}"
    return Drawing(figure, title, alt, matrix_bars.MATRIX_COLUMNS, matrix_bars.matrix_rows(entry, labels, numbers))


def _names(at: Grid) -> str:
    return "rows: " + ", ".join(name.rpartition(".")[2] for name in at.down)
