# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots of the effect that a setting of the matrix has on training figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point

from ..judge.headline import components_in_several_versions, unit_of_absolute_difference
from ..statistics import setting_effects
from ..statistics.setting_effects import ObservedPoint, SettingEffect
from . import plot_canvas
from .matrix_plots import LABEL_LENGTH
from .plot_canvas import COLOURS, GREY, PlotDrawing, PlotFile

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


#: KPIs over the jobs of a point; of several of one figure, the first of these statistics counts.
_STATISTICS = ("median", "max")


def draw_setting_effects(points: Sequence[Point], folder: Path) -> list[PlotFile]:
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


def draw_setting_effects_over_seeds(
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
                for effect, place in setting_effects.estimate_setting_effects_over_seeds(observed)
                if not any(
                    components_in_several_versions(valid, {**place, effect.setting: value})
                    for value in (effect.base, effect.value)
                )
            ]
            if found:
                places = [_place_text(place) for _effect, place in found]
                drawing = _effects_drawing([effect for effect, _place in found], entry, entry["simulated"], places)
                plots.append(plot_canvas.write_png_and_csv(drawing, folder / f"effects_{entry['name']}"))
    return plots


def _place_text(place: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name.rpartition('.')[2]} = {formats.format_setting_value(value, 16)}" for name, value in place.items()
    )


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
    factor, unit = (100.0, "%") if effects[0].relative else (1.0, unit_of_absolute_difference(kpi))
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
    values = " → ".join(formats.format_setting_value(value, 16) for value in (effect.base, effect.value))
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
