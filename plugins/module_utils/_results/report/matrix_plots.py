# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots over the points of a matrix: bars, and heat maps of two or more varying settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import format_setting_value

from . import plot_canvas
from .plot_canvas import COLOURS, GREY, PlotDrawing, PlotFile, stage_title_in_plot

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
#: Characters of a label, more if its values need them.
LABEL_LENGTH = 34


def draw_figure_bars_over_points(
    headline: Sequence[dict[str, Any]], labels: Sequence[str], numbers: Sequence[str], folder: Path
) -> list[PlotFile]:
    """Draw each headline figure over the points, as points_<name>.png.

    headline: as in a verdict. labels: matrix values of each point, in the order of ``numbers``.
    """
    plots = []
    drawn = [entry for entry in headline if any(point["value"] is not None for point in entry["points"])]
    with plot_canvas.plot_style_context():
        for place, entry in enumerate(drawn if len(numbers) > 1 else []):
            texts = [_shorten_label(label) for label in labels]
            left = 0.3 + 0.082 * max(len(text) for text in texts)
            figure, (axis,) = plot_canvas.create_stacked_axes(
                [0.28 * len(numbers) + 0.1], top=0.42, gap=0, bottom=0.56, left=left
            )
            description, ends = _draw_kpi_bars(axis, entry, texts, numbers, COLOURS[place % (len(COLOURS) - 1)])
            axis.set_xlim(*plot_canvas.axis_limits_for_labels(ends, left))
            title = stage_title_in_plot(entry["title"], entry["simulated"])
            plot_canvas.draw_figure_title(figure, title)
            alt = f"{title}, at each test point. {description}"
            drawing = PlotDrawing(figure, title, alt, MATRIX_COLUMNS, csv_rows_of_matrix(entry, labels, numbers))
            plots.append(plot_canvas.write_png_and_csv(drawing, folder / f"points_{entry['name']}"))
    return plots


def _draw_kpi_bars(
    axis: Any, entry: dict[str, Any], labels: Sequence[str], numbers: Sequence[str], colour: str
) -> tuple[str, list[tuple[float, str]]]:
    """Draw the bars; return their description, and the places and texts of their labels."""
    values = {point["point"]: point for point in entry["points"]}
    known = [point["value"] for point in entry["points"] if point["value"] is not None]
    factor, unit = plot_canvas.duration_scale_and_unit(max(known)) if entry["unit"] == "s" else (1.0, entry["unit"])
    texts: list[str] = []
    ends: list[tuple[float, str]] = []
    for place, number in enumerate(numbers):
        result = values.get(number) or {}
        if result.get("value") is None:
            note = (result.get("note") or "unknown").partition(":")[0]
            ends.append((0.0, f" {note}"))
            axis.text(0, place, f" {note}", va="center", fontsize=9, color=GREY)
            texts.append(f"{labels[place]}: {note}.")
            continue
        value = result["value"] * factor
        low, high = (part * factor for part in _kpi_interval_ends(result))
        hatch = "///" if entry["simulated"] else None
        axis.barh(place, value, facecolor=f"{colour}66", edgecolor=colour, hatch=hatch, height=0.68)
        if high > low:
            axis.hlines(place, low, high, color="black", linewidth=1.8)
        text, edge = f"  {formats.format_number(float(f'{value:.3g}'))}", max(value, high)
        ends += [(edge, text), (min(value, low), "")]
        axis.text(edge, place, text, va="center", fontsize=10)
        texts.append(f"{labels[place]}: {formats.format_with_unit(result['value'], entry['unit'])}.")
    axis.set_yticks(range(len(numbers)), labels, fontsize=10)
    axis.set_ylim(len(numbers) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    better = {"higher": "higher is better", "lower": "lower is better"}.get(entry["direction"], "")
    axis.set_xlabel(", ".join(part for part in (unit, better) if part) or "value")
    return " ".join(texts), ends


def _kpi_interval_ends(result: dict[str, Any]) -> tuple[float, float]:
    """Return the confidence interval if it has both bounds, else the measurement interval."""
    confidence = result.get("confidence") or {}
    if confidence.get("low") is not None and confidence.get("high") is not None:
        return confidence["low"], confidence["high"]
    low, high = result.get("interval") or (result["value"], result["value"])
    return low, high


def csv_rows_of_matrix(entry: dict[str, Any], labels: Sequence[str], numbers: Sequence[str]) -> list[list[Any]]:
    """Return the rows of the CSV file: a headline figure at each point."""
    values = {point["point"]: point for point in entry["points"]}
    rows = []
    for number, label in zip(numbers, labels, strict=True):
        result = values.get(number) or {}
        confidence = result.get("confidence") or {}
        ends = [*(result.get("interval") or (None, None)), confidence.get("low"), confidence.get("high")]
        counts = [result.get("n"), result.get("of"), entry["simulated"]]
        rows.append([number, label, result.get("value"), entry["unit"], *ends, *counts])
    return rows


def _shorten_label(label: str) -> str:
    return label if len(label) <= 32 else f"{label[:31]}…"


@dataclass(frozen=True)
class MatrixGrid:
    """The cell of each point: its row (all varying settings but one) and column (that setting)."""

    down: Sequence[str]  # names of the settings that make rows
    along: str
    rows: Sequence[str]
    columns: Sequence[str]
    places: Mapping[str, tuple[int, int]]  # point number -> row, column


def grid_of_matrix(settings: Sequence[Mapping[str, Any]], numbers: Sequence[str]) -> MatrixGrid | None:
    """Return the grid of a matrix with at least two varying settings, None for any other."""
    names = list(dict.fromkeys(name for setting in settings for name in setting))
    varied = [name for name in names if len({format_setting_value(setting.get(name)) for setting in settings}) > 1]
    if len(varied) < 2:
        return None
    # The setting with the most values becomes the columns, because a page is wide.
    along = max(varied, key=lambda name: len({format_setting_value(setting.get(name)) for setting in settings}))
    down = [name for name in varied if name != along]
    columns = list(dict.fromkeys(format_setting_value(setting.get(along), 16) for setting in settings))
    texts = [", ".join(format_setting_value(setting.get(name), 16) for name in down) for setting in settings]
    rows = list(dict.fromkeys(texts))
    places = {
        number: (rows.index(text), columns.index(format_setting_value(setting.get(along), 16)))
        for number, text, setting in zip(numbers, texts, settings, strict=True)
    }
    if len(set(places.values())) < len(places):
        return None  # two points in one cell: the same matrix twice
    return MatrixGrid(down, along, rows, columns, places)


def draw_figure_heatmaps(headline: Sequence[Mapping[str, Any]], at: MatrixGrid, folder: Path) -> list[PlotFile]:
    """Draw each headline figure as points_<name>.png, with its value in every cell."""
    plots = []
    with plot_canvas.plot_style_context():
        for entry in headline:
            if any(point["value"] is not None for point in entry["points"]):
                plots.append(
                    plot_canvas.write_png_and_csv(
                        _draw_kpi_heatmap(dict(entry), at), folder / f"points_{entry['name']}"
                    )
                )
    return plots


def _draw_kpi_heatmap(entry: dict[str, Any], at: MatrixGrid) -> PlotDrawing:
    import numpy as np

    values = np.full((len(at.rows), len(at.columns)), np.nan)
    notes = {}
    for point in entry["points"]:
        place = at.places[point["point"]]
        if point["value"] is None:
            notes[place] = (point.get("note") or "unknown").partition(":")[0]
        else:
            values[place] = point["value"]
    left = 0.45 + 0.09 * max(len(row) for row in at.rows)
    height = 0.42 * len(at.rows) + 0.1
    figure, (axis,) = plot_canvas.create_stacked_axes([height], top=0.62, gap=0, bottom=0.72, left=min(left, 3.2))
    known = values[~np.isnan(values)]
    low, high = float(known.min()), float(known.max())
    axis.imshow(values, aspect="auto", cmap="cividis", vmin=low, vmax=high if high > low else low + 1)
    texts = []
    for number, (row, column) in at.places.items():
        value = values[row, column]
        missing = np.isnan(value)
        text = notes.get((row, column), "–") if missing else formats.format_with_unit(float(value), entry["unit"])
        bright = not missing and (value - low) / ((high - low) or 1) > 0.55
        colour = GREY if missing else "black" if bright else "white"
        axis.text(column, row, text, ha="center", va="center", fontsize=9.5, color=colour)
        texts.append(f"{at.rows[row]} / {at.columns[column]} (point {number}): {text}.")
    axis.set_xticks(range(len(at.columns)), at.columns)
    axis.set_yticks(range(len(at.rows)), at.rows)
    axis.grid(visible=False)
    axis.set_xlabel(at.along.rpartition(".")[2])
    figure.text(
        0.1 / plot_canvas.WIDTH,
        1 - 0.36 / figure.get_size_inches()[1],
        _name_row_settings(at),
        va="top",
        fontsize=9.5,
        color=GREY,
    )
    better = {"higher": ", higher is better", "lower": ", lower is better"}.get(entry["direction"], "")
    title = stage_title_in_plot(entry["title"], entry["simulated"]) + better
    plot_canvas.draw_figure_title(figure, title)
    numbers = list(at.places)
    labels = [f"{at.rows[row]} / {at.columns[column]}" for row, column in at.places.values()]
    alt = f"{title}: heat map, {_name_row_settings(at)}; columns: {at.along}. {' '.join(texts)}"
    return PlotDrawing(figure, title, alt, MATRIX_COLUMNS, csv_rows_of_matrix(entry, labels, numbers))


def _name_row_settings(at: MatrixGrid) -> str:
    return "rows: " + ", ".join(name.rpartition(".")[2] for name in at.down)
