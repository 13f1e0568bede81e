# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots of what each setting of a matrix changed in the figures of trainings, one per figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point

from ..statistics import setting_effects
from ..statistics.setting_effects import ObservedPoint, SettingEffect
from . import plot_canvas
from .plot_canvas import COLOURS, GREY, PlotFile
from .plotted_stages import Drawing

FILE = "training.jsonl"
#: Values that are equal up to here count as the same.
LONGEST = 10_000
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
]
#: Characters of a label, more if its values need them.
LABEL_LENGTH = 34
#: KPIs over the jobs of a point; of several of one figure, the first of these statistics counts.
_STATISTICS = ("median", "max")


def draw_effects(points: Sequence[Point], folder: Path) -> list[PlotFile]:
    """Draw the effects on each figure of the trainings as effects_<name>.png; none without a matrix of trainings."""
    rows = {point.number: list(point_reader.lines(point.folder / FILE, [])) for point in points if _counts(point)}
    if len({point.of for point in points if rows.get(point.number)}) < 2:
        return []
    simulated = all(row["simulated"] for some in rows.values() for row in some)
    plots = []
    with plot_canvas.style():
        for figure, kpi in _figures(points).items():
            found = setting_effects.effects(_observed(points, rows, figure, simulated))
            if found:
                plots.append(
                    plot_canvas.write(_effects_drawing(found, kpi, simulated), folder / f"effects_{kpi['name']}")
                )
    return plots


def _counts(point: Point) -> bool:
    return point.status in ("passed", "") and not point.resumed


def _figures(points: Sequence[Point]) -> dict[str, Mapping[str, Any]]:
    """Return figure -> a KPI that is a statistic of it over all jobs of a point."""
    found: dict[str, Mapping[str, Any]] = {}
    for wanted in _STATISTICS:
        for kpi in (one for point in points for one in point.kpis or ()):
            labels = kpi.get("labels") or {}
            if labels.get("statistic") == wanted and "figure" in labels and not {"per", "template"} & labels.keys():
                found.setdefault(labels["figure"], kpi)
    return found


def _observed(
    points: Sequence[Point], rows: Mapping[str, Sequence[Mapping[str, Any]]], figure: str, simulated: bool
) -> list[ObservedPoint]:
    """Return the points with the figures of their jobs, of all attempts at a point together."""
    observations: dict[str, list[float]] = {}
    values: dict[str, Mapping[str, Any]] = {}
    for point in points:
        values[point.of] = {
            name: formats.setting_text(one, LONGEST)
            for name, one in point.settings.items()
            if not isinstance(one, Mapping)
        }
        observations.setdefault(point.of, []).extend(
            float(row["figures"][figure])
            for row in rows.get(point.number, ())
            if row["simulated"] is simulated and figure in row["figures"]
        )
    return [ObservedPoint(values[number], some) for number, some in observations.items()]


def _effects_drawing(found: Sequence[SettingEffect], kpi: Mapping[str, Any], simulated: bool) -> Drawing:
    labels = [_effect_label(one) for one in found]
    left = 0.3 + 0.082 * max(len(label) for label in labels)
    figure, (axis,) = plot_canvas.stacked([0.28 * len(found) + 0.1], top=0.42, gap=0, bottom=0.56, left=left)
    factor, unit = (100.0, "%") if found[0].relative else (1.0, kpi["unit"])
    better = {"higher": 1, "lower": -1}.get(kpi["direction"], 0)
    ends: list[tuple[float, str]] = []
    texts = []
    for place, one in enumerate(found):
        change, low, high = (end * factor for end in (one.change, one.low, one.high))
        certain = math.isfinite(low) and (low > 0 or high < 0)
        colour = GREY if not certain or not better else COLOURS[2] if change * better > 0 else COLOURS[4]
        if math.isfinite(low):
            axis.hlines(place, low, high, color=colour, linewidth=1.8)
        axis.plot([change], [place], "o" if math.isfinite(low) else "D", color=colour, markersize=5)
        text = _change(one, unit)
        edge = high if math.isfinite(high) else change
        axis.text(edge, place, f"  {text}", va="center", fontsize=9)
        ends += [(edge, f"  {text}"), (low if math.isfinite(low) else change, " ")]
        texts.append(f"{one.setting} from {one.base} to {one.value}: {_effect_sentence(one, unit)}.")
    axis.axvline(0, color=GREY, linewidth=1)
    axis.set_yticks(range(len(found)), labels, fontsize=9)
    axis.set_ylim(len(found) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    axis.set_xlim(*plot_canvas.limits(ends, left))
    words = {1: ", higher is better", -1: ", lower is better"}.get(better, "")
    axis.set_xlabel(f"change in {unit}{words}" if unit else f"change{words}")
    title = f"Effects on: {kpi['title']}{' – SIMULATED' if simulated else ''}"
    plot_canvas.heading(figure, title)
    alt = f"{title}, each value against the first one, other settings being equal; 95 % intervals. {' '.join(texts)}"
    return Drawing(figure, title, alt, EFFECT_COLUMNS, [_effect_row(one, factor, unit, simulated) for one in found])


def _effect_label(one: SettingEffect) -> str:
    """Return the setting and both values, the name cut in the middle and values at their end if they are long."""
    values = " → ".join(formats.setting_text(value, 16) for value in (one.base, one.value))
    name = one.setting.rpartition(".")[2]
    room = max(LABEL_LENGTH - len(values) - 2, 12)
    if len(name) > room:
        name = f"{name[: room // 2]}…{name[len(name) - (room - 1) // 2 :]}"
    return f"{name}: {values}"


def _number(value: float) -> str:
    return f"{'+' if value > 0 else ''}{formats.number(float(f'{value:.3g}'))}"


def _change(one: SettingEffect, unit: str) -> str:
    factor = 100.0 if one.relative else 1.0
    return f"{_number(one.change * factor)} {unit}".rstrip()


def _effect_sentence(one: SettingEffect, unit: str) -> str:
    pairs = formats.count(one.pairs, "pair of points", "pairs of points")
    if not math.isfinite(one.low):
        return f"{_change(one, unit)}, without an interval ({pairs}, {formats.count(one.observations, 'job')})"
    factor = 100.0 if one.relative else 1.0
    return f"{_change(one, unit)} ({_number(one.low * factor)} to {_number(one.high * factor)}; {pairs})"


def _effect_row(one: SettingEffect, factor: float, unit: str, simulated: bool) -> list[Any]:
    numbers = [end * factor for end in (one.change, one.low, one.high)]
    return [one.setting, one.base, one.value, *numbers, unit, one.pairs, one.observations, simulated]
