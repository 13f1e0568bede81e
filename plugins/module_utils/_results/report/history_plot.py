# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plot of one figure over the runs of its history: values, change points, the expected band, limits, this run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from . import history_text, judged_figure, plot_canvas
from .plot_canvas import GREY, PlotFile, stage_title
from .plotted_stages import Drawing

Kpi = Mapping[str, Any]

_OLD, _NEW = plot_canvas.COLOURS[0], plot_canvas.COLOURS[4]
_LEGEND_COLUMNS = 3
HISTORY_COLUMNS = ["run", "group", "value", "unit", "low_95", "high_95"]


def draw_history(kpi: Kpi, path: Path, label: str = "") -> PlotFile:
    """Draw a figure with its past values as <path>.png and <path>.csv. kpi: as in verdict/2, with ``series``."""
    with plot_canvas.style():
        return plot_canvas.write(history_drawing(kpi, label), path)


def history_drawing(kpi: Kpi, label: str = "") -> Drawing:
    """Return the drawing. label: the point, empty if there is only one."""
    series = kpi["series"]
    factor, unit = judged_figure.value_scale(kpi, series)
    figure, (axis,) = plot_canvas.stacked(
        [2.6], top=0.45, gap=0, bottom=0.56 + plot_canvas.legend_height(5, _LEGEND_COLUMNS)
    )
    judged_figure.draw_band(axis, kpi, factor)
    _segments(axis, kpi, factor)
    for group, colour, marker, name in (("old", _OLD, "o", "old runs"), ("new", _NEW, "D", "new runs, this one last")):
        _runs(axis, series, group, factor, color=colour, marker=marker, label=name)
    judged_figure.draw_limits(axis, kpi, factor)
    axis.set_xlim(0.4, len(series) + 0.6)
    _keep_runs_legible(axis, kpi, factor)
    axis.set_xlabel("old runs, then new ones, each from the oldest")
    axis.set_ylabel(unit or "value")
    plot_canvas.whole(axis.xaxis)
    title = plot_canvas.titled(stage_title(kpi["title"], kpi["simulated"]), label)
    plot_canvas.heading(figure, title)
    plot_canvas.legend(figure, axis, _LEGEND_COLUMNS)
    rows = [[one["run"], one["group"], one["value"], kpi["unit"], one.get("low"), one.get("high")] for one in series]
    alt = f"{title}: its value in {formats.count(len(series), 'run')}. {history_text.history_sentences(kpi)}"
    return Drawing(figure, title, alt, HISTORY_COLUMNS, rows)


def _runs(axis: Any, series: Sequence[Mapping[str, Any]], group: str, factor: float, **style: Any) -> None:
    """Draw the values of a group, with their intervals within the run."""
    known = [(at, one) for at, one in enumerate(series, 1) if one["group"] == group and one["value"] is not None]
    places, values = [at for at, _one in known], [one["value"] * factor for _at, one in known]
    axis.plot(places, values, linestyle="none", markersize=5 if group == "old" else 8, **style)
    for at, one in known:
        if one.get("low") is not None and one.get("high") is not None:
            axis.vlines(at, one["low"] * factor, one["high"] * factor, color=style["color"], linewidth=1.2, alpha=0.6)


def _segments(axis: Any, kpi: Kpi, factor: float) -> None:
    """Draw the median of each stable part of the past, with a step at each change point."""
    places = {one["run"]: at for at, one in enumerate(kpi["series"], 1)}
    changes = [one for one in kpi.get("change_points") or () if one["run"] in places]
    if not changes:
        return
    end = max(at for at, one in enumerate(kpi["series"], 1) if one["group"] == "old") + 0.5
    edges = [0.5, *(places[one["run"]] - 0.5 for one in changes), end]
    levels = [changes[0]["before"], *(one["after"] for one in changes)]
    across = [place for left, right in zip(edges, edges[1:], strict=False) for place in (left, right)]
    values = [level * factor for level in levels for _end in range(2)]
    axis.plot(across, values, color=GREY, linewidth=1.6, label="median before and after a change")


def _keep_runs_legible(axis: Any, kpi: Kpi, factor: float) -> None:
    """Cut a band that is much wider than the runs: few runs that differ much say little about the next one."""
    known = [one["value"] * factor for one in kpi["series"] if one["value"] is not None]
    if not known or not kpi.get("band"):
        return
    room = 2.0 * (max(known) - min(known)) or 0.1 * abs(known[0]) or 1.0
    ends = [end * factor for end in judged_figure.limits_of(kpi).values()]
    low, high = axis.get_ylim()
    axis.set_ylim(max(low, min([*known, *ends]) - room), min(high, max([*known, *ends]) + room))
