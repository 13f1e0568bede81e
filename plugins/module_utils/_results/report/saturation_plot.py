# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Saturation plot: P95 duration of each stage over the rate of a load in steps, with its knee."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..kpi.point_data import NEEDED, PointData
from ..kpi.saturation_knee import by_step, kneedle
from . import plot_canvas
from .plot_canvas import GREY, stage_title
from .plotted_stages import Drawing, plot_stages, stage_colours

QUANTILE = 0.95
_COLUMNS = 2


def saturation(data: PointData, label: str) -> Drawing | None:
    """Draw P95 of each stage over the rate, both logarithmic, with a ring around each knee; None without steps."""
    curves = [
        (stage, by_step(data, stage, NEEDED, QUANTILE)) for stage in (plot_stages(data) if data.extras.steps else [])
    ]
    curves = [(stage, curve) for stage, curve in curves if len(curve) >= 2]
    if not curves:
        return None
    figure, (axis,) = plot_canvas.stacked(
        [3.3], top=0.45, gap=0, bottom=0.56 + plot_canvas.legend_height(len(curves) + 1, _COLUMNS)
    )
    colour_of = stage_colours(data)
    texts: list[str] = []
    rows: list[list[Any]] = []
    for stage, curve in curves:
        simulated = data.simulated(stage, NEEDED)
        rates, took = [one[0] for one in curve], [max(one[1], 1e-6) for one in curve]
        axis.plot(
            rates,
            took,
            color=colour_of[stage],
            linestyle="--" if simulated else "-",
            marker="o",
            markersize=4,
            linewidth=1.8,
            label=stage_title(stage, simulated),
        )
        place = kneedle(rates, took)
        if place is not None:
            axis.plot(rates[place], took[place], "o", markersize=11, fillstyle="none", color=colour_of[stage])
        bend = "does not bend" if place is None else f"bends after {formats.number(rates[place])}/s"
        ends = f"{formats.seconds(took[0])} at {formats.number(rates[0])}/s, {formats.seconds(took[-1])} at "
        texts.append(f"{stage_title(stage, simulated)}: {ends}{formats.number(rates[-1])}/s, {bend}.")
        rows += [[stage, rate, latency, count, place == at] for at, (rate, latency, count) in enumerate(curve)]
    axis.plot([], [], "o", markersize=11, fillstyle="none", color=GREY, label="knee", linestyle="none")
    _axes(axis, sorted({row[1] for row in rows}))
    plot_canvas.legend(figure, axis, _COLUMNS)
    title = plot_canvas.titled("Saturation", label)
    plot_canvas.heading(figure, title)
    alt = f"{title}: P95 of the time that each stage took, at each rate of the load. {' '.join(texts)}"
    return Drawing(figure, title, alt, ["stage", "rate_per_s", "took_p95_s", "workloads", "knee"], rows)


def _axes(axis: Any, rates: list[float]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    axis.set_xscale("log")
    axis.set_yscale("log")
    plot_canvas.durations(axis.yaxis)
    along = axis.xaxis
    along.set_major_locator(FixedLocator(rates))
    along.set_minor_locator(NullLocator())
    along.set_major_formatter(FuncFormatter(lambda value, _place: formats.number(value)))
    along.set_minor_formatter(NullFormatter())
    axis.set_xlabel("workloads due per second")
    axis.set_ylabel("stage took, P95")
