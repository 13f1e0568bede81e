# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots over the points of a matrix: bars, heat maps of two or more varying settings, and effects of each setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import setting_text
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point

from ..judge.headline import changed_components
from ..statistics import setting_effects
from ..statistics.setting_effects import ObservedPoint, SettingEffect
from . import plot_canvas
from .plot_canvas import COLOURS, GREY, PlotDrawing, PlotFile, stage_title

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
FILE = "training.jsonl"
EFFECT_COLUMNS = [
    "setting",
    "from",
    "to",
    "change",
    "low_95",
    "high_95",
    "unit",
    "pairs_of_points",
    "jobs",
    "simulated",
    "at",
]
#: Characters of a label, more if its values need them.
LABEL_LENGTH = 34
#: KPIs over the jobs of a point; of several of one figure, the first of these statistics counts.
_STATISTICS = ("median", "max")


def draw_bars(
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
            title = stage_title(entry["title"], entry["simulated"])
            plot_canvas.draw_figure_title(figure, title)
            alt = f"{title}, at each test point. {description}"
            drawing = PlotDrawing(figure, title, alt, MATRIX_COLUMNS, matrix_rows(entry, labels, numbers))
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


def matrix_rows(entry: dict[str, Any], labels: Sequence[str], numbers: Sequence[str]) -> list[list[Any]]:
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


def matrix_grid(settings: Sequence[Mapping[str, Any]], numbers: Sequence[str]) -> MatrixGrid | None:
    """Return the grid of a matrix with at least two varying settings, None for any other."""
    names = list(dict.fromkeys(name for setting in settings for name in setting))
    varied = [name for name in names if len({setting_text(setting.get(name)) for setting in settings}) > 1]
    if len(varied) < 2:
        return None
    # The setting with the most values becomes the columns, because a page is wide.
    along = max(varied, key=lambda name: len({setting_text(setting.get(name)) for setting in settings}))
    down = [name for name in varied if name != along]
    columns = list(dict.fromkeys(setting_text(setting.get(along), 16) for setting in settings))
    texts = [", ".join(setting_text(setting.get(name), 16) for name in down) for setting in settings]
    rows = list(dict.fromkeys(texts))
    places = {
        number: (rows.index(text), columns.index(setting_text(setting.get(along), 16)))
        for number, text, setting in zip(numbers, texts, settings, strict=True)
    }
    if len(set(places.values())) < len(places):
        return None  # two points in one cell: the same matrix twice
    return MatrixGrid(down, along, rows, columns, places)


def draw_heatmaps(headline: Sequence[Mapping[str, Any]], at: MatrixGrid, folder: Path) -> list[PlotFile]:
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
        _row_settings_caption(at),
        va="top",
        fontsize=9.5,
        color=GREY,
    )
    better = {"higher": ", higher is better", "lower": ", lower is better"}.get(entry["direction"], "")
    title = stage_title(entry["title"], entry["simulated"]) + better
    plot_canvas.draw_figure_title(figure, title)
    numbers = list(at.places)
    labels = [f"{at.rows[row]} / {at.columns[column]}" for row, column in at.places.values()]
    alt = f"{title}: heat map, {_row_settings_caption(at)}; columns: {at.along}. {' '.join(texts)}"
    return PlotDrawing(figure, title, alt, MATRIX_COLUMNS, matrix_rows(entry, labels, numbers))


def _row_settings_caption(at: MatrixGrid) -> str:
    return "rows: " + ", ".join(name.rpartition(".")[2] for name in at.down)


def draw_effects(points: Sequence[Point], folder: Path) -> list[PlotFile]:
    """Draw the effects on each figure of the trainings as effects_<name>.png; none without a matrix of trainings."""
    rows = {
        point.number: list(point_reader.read_json_lines(point.folder / FILE, [], finite=False))
        for point in points
        if _is_valid_point(point)
    }
    if len({point.of for point in points if rows.get(point.number)}) < 2:
        return []
    simulated = all(row["simulated"] for some in rows.values() for row in some)
    plots = []
    with plot_canvas.plot_style_context():
        for figure, kpi in _kpi_by_training_figure(points).items():
            effects = setting_effects.estimate_setting_effects(
                _observed_training_values(points, rows, figure, simulated)
            )
            if effects:
                plots.append(
                    plot_canvas.write_png_and_csv(
                        _effects_drawing(effects, kpi, simulated), folder / f"effects_{kpi['name']}"
                    )
                )
    return plots


def draw_repeated_effects(
    headline: Sequence[Mapping[str, Any]], points: Sequence[Point], folder: Path
) -> list[PlotFile]:
    """Draw what the last setting of a matrix changed in each headline figure, with the values of a seed as repetitions.

    The files are effects_<name>.png; there is none if the matrix varies no seed. Points that ran several versions of a
    component at the same settings are not compared.
    """
    valid = [point for point in points if _is_valid_point(point)]
    values = {point.number: setting_effects.setting_values_as_text(point.settings) for point in valid}
    plots = []
    with plot_canvas.plot_style_context():
        for entry in headline:
            observed = [
                ObservedPoint(values[point["point"]], [point["value"]])
                for point in entry["points"]
                if point["value"] is not None and point["point"] in values
            ]
            found = [
                (effect, place)
                for effect, place in setting_effects.estimate_repeated_effects(observed)
                if not any(
                    changed_components(valid, {**place, effect.setting: value}) for value in (effect.base, effect.value)
                )
            ]
            if found:
                places = [_place_text(place) for _effect, place in found]
                drawing = _effects_drawing([effect for effect, _place in found], entry, entry["simulated"], places)
                plots.append(plot_canvas.write_png_and_csv(drawing, folder / f"effects_{entry['name']}"))
    return plots


def _place_text(place: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.rpartition('.')[2]} = {formats.setting_text(value, 16)}" for name, value in place.items())


def _is_valid_point(point: Point) -> bool:
    return point.status in ("passed", "") and not point.resumed


def _kpi_by_training_figure(points: Sequence[Point]) -> dict[str, Mapping[str, Any]]:
    """Return figure -> a KPI that is a statistic of it over all jobs of a point."""
    kpi_by_figure: dict[str, Mapping[str, Any]] = {}
    for wanted in _STATISTICS:
        for kpi in (kpi for point in points for kpi in point.kpis or ()):
            labels = kpi.get("labels") or {}
            if labels.get("statistic") == wanted and "figure" in labels and not {"per", "template"} & labels.keys():
                kpi_by_figure.setdefault(labels["figure"], kpi)
    return kpi_by_figure


def _observed_training_values(
    points: Sequence[Point], rows: Mapping[str, Sequence[Mapping[str, Any]]], figure: str, simulated: bool
) -> list[ObservedPoint]:
    """Return the points with the figures of their jobs, of all attempts at a point together."""
    observations: dict[str, list[float]] = {}
    values: dict[str, Mapping[str, Any]] = {}
    for point in points:
        values[point.of] = setting_effects.setting_values_as_text(point.settings)
        observations.setdefault(point.of, []).extend(
            float(row["figures"][figure])
            for row in rows.get(point.number, ())
            if row["simulated"] is simulated and figure in row["figures"]
        )
    return [ObservedPoint(values[number], some) for number, some in observations.items()]


def _effects_drawing(
    effects: Sequence[SettingEffect], kpi: Mapping[str, Any], simulated: bool, places: Sequence[str] = ()
) -> PlotDrawing:
    """places: for each effect the values of the other settings, without any if it is over all of them."""
    places = places or [""] * len(effects)
    labels = [_effect_label(effect) + (f" ({at})" if at else "") for effect, at in zip(effects, places, strict=True)]
    left = 0.3 + 0.082 * max(len(label) for label in labels)
    figure, (axis,) = plot_canvas.create_stacked_axes(
        [0.28 * len(effects) + 0.1], top=0.42, gap=0, bottom=0.56, left=left
    )
    factor, unit = (100.0, "%") if effects[0].relative else (1.0, kpi["unit"])
    better = {"higher": 1, "lower": -1}.get(kpi["direction"], 0)
    ends: list[tuple[float, str]] = []
    texts = []
    for place, effect in enumerate(effects):
        change, low, high = (end * factor for end in (effect.change, effect.low, effect.high))
        certain = math.isfinite(low) and (low > 0 or high < 0)
        colour = GREY if not certain or not better else COLOURS[2] if change * better > 0 else COLOURS[4]
        if math.isfinite(low):
            axis.hlines(place, low, high, color=colour, linewidth=1.8)
        axis.plot([change], [place], "o" if math.isfinite(low) else "D", color=colour, markersize=5)
        text = _format_effect_change(effect, unit)
        edge = high if math.isfinite(high) else change
        axis.text(edge, place, f"  {text}", va="center", fontsize=9)
        ends += [(edge, f"  {text}"), (low if math.isfinite(low) else change, " ")]
        texts.append(
            f"{effect.setting} from {effect.base} to {effect.value}{' at ' if places[place] else ''}{places[place]}:"
            f" {_effect_sentence(effect, unit)}."
        )
    axis.axvline(0, color=GREY, linewidth=1)
    axis.set_yticks(range(len(effects)), labels, fontsize=9)
    axis.set_ylim(len(effects) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    axis.set_xlim(*plot_canvas.axis_limits_for_labels(ends, left))
    words = {1: ", higher is better", -1: ", lower is better"}.get(better, "")
    axis.set_xlabel(f"change in {unit}{words}" if unit else f"change{words}")
    title = f"Effects on: {kpi['title']}{' – SIMULATED' if simulated else ''}"
    plot_canvas.draw_figure_title(figure, title)
    alt = f"{title}, each value against the first one, other settings being equal; 95 % intervals. {' '.join(texts)}"
    rows = [[*_effect_row(effect, factor, unit, simulated), at] for effect, at in zip(effects, places, strict=True)]
    return PlotDrawing(figure, title, alt, EFFECT_COLUMNS, rows)


def _effect_label(effect: SettingEffect) -> str:
    """Return the setting and both values, the name cut in the middle and values at their end if they are long."""
    values = " → ".join(formats.setting_text(value, 16) for value in (effect.base, effect.value))
    name = effect.setting.rpartition(".")[2]
    room = max(LABEL_LENGTH - len(values) - 2, 12)
    if len(name) > room:
        name = f"{name[: room // 2]}…{name[len(name) - (room - 1) // 2 :]}"
    return f"{name}: {values}"


def _format_signed_number(value: float) -> str:
    return f"{'+' if value > 0 else ''}{formats.format_number(float(f'{value:.3g}'))}"


def _format_effect_change(effect: SettingEffect, unit: str) -> str:
    factor = 100.0 if effect.relative else 1.0
    return f"{_format_signed_number(effect.change * factor)} {unit}".rstrip()


def _effect_sentence(effect: SettingEffect, unit: str) -> str:
    pairs = formats.format_count(effect.pairs, "pair of points", "pairs of points")
    if not math.isfinite(effect.low):
        return (
            f"{_format_effect_change(effect, unit)}, without an interval ({pairs},"
            f" {formats.format_count(effect.observations, 'job')})"
        )
    factor = 100.0 if effect.relative else 1.0
    return (
        f"{_format_effect_change(effect, unit)} ({_format_signed_number(effect.low * factor)} to"
        f" {_format_signed_number(effect.high * factor)}; {pairs})"
    )


def _effect_row(effect: SettingEffect, factor: float, unit: str, simulated: bool) -> list[Any]:
    numbers = [end * factor for end in (effect.change, effect.low, effect.high)]
    return [effect.setting, effect.base, effect.value, *numbers, unit, effect.pairs, effect.observations, simulated]
