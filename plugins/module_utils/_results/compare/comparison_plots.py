# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots of a comparison: overlaid distributions, and the contributions to the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..kpi.point_data import NEEDED, SENT, PointData
from ..report import plot_canvas
from ..report.latency_attribution_text import stage_name
from ..report.plot_canvas import COLOURS, GREY, stage_title
from ..report.plotted_stages import Drawing, plot_stages

DASHES: Sequence[Literal["-", "--", "-.", ":"]] = ("-", "--", "-.", ":")
BAND_SAMPLES, BAND_POINTS = 200, 200


def distributions(runs: Sequence[tuple[str, PointData]], label: str) -> Drawing | None:
    """Draw one panel per common stage: the cumulative distribution of its duration, one line per run."""
    stages = [stage for stage in plot_stages(runs[0][1]) if all(stage in plot_stages(data) for _name, data in runs[1:])]
    last = next((stage for stage in reversed(stages) if stage in runs[0][1].ends()), None)
    panels = [(stage, NEEDED) for stage in stages] + ([(last, SENT)] if last else [])
    if not panels:
        return None
    from matplotlib.lines import Line2D

    figure, axes = plot_canvas.stacked(
        [1.05] * len(panels), top=0.66, gap=0.62, bottom=0.35 + plot_canvas.legend_height(len(runs), 1)
    )
    texts: list[str] = []
    rows: list[list[Any]] = []
    for axis, (stage, since) in zip(axes, panels, strict=True):
        simulated = any(data.simulated(stage, since) for _name, data in runs)
        medians = [_curve(axis, place, name, data, (stage, since), rows) for place, (name, data) in enumerate(runs)]
        title = stage_title(stage, simulated) if since == NEEDED else stage_title("from sending to the end", simulated)
        axis.set_title(title, loc="left", fontsize=10.5, fontweight="bold", pad=4)
        axis.set_xscale("log")
        axis.set_ylim(0, 104)
        axis.set_ylabel("%")
        plot_canvas.durations(axis.xaxis)
        texts.append(f"{title}: {', '.join(medians)}.")
    handles = [
        Line2D([], [], color=COLOURS[place % len(COLOURS)], linestyle=DASHES[place % len(DASHES)], label=name)
        for place, (name, _data) in enumerate(runs)
    ]
    plot_canvas.legend(figure, None, 1, handles)
    title = plot_canvas.titled("Stage durations by run", label)
    plot_canvas.heading(figure, title)
    columns = ["run", "stage", "since", "took_s", "share_percent", "low_percent", "high_percent"]
    return Drawing(figure, title, f"{title}, cumulative, with 95 % bands. {' '.join(texts)}", columns, rows)


def _curve(axis: Any, place: int, name: str, data: PointData, panel: tuple[str, str], rows: list[list[Any]]) -> str:
    np = data.np
    sample = data.sample(*panel)
    positive = sample.middle[sample.middle > 0]
    if not len(positive):
        return f"{name} none"
    left, right = max(float(positive[0]) / 1.5, 1e-4), float(sample.middle[-1])
    colour = COLOURS[place % len(COLOURS)]
    values, shares = plot_canvas.thinned(np, np.maximum(sample.middle, left), sample.shares * 100)
    axis.step(values, shares, where="post", color=colour, linestyle=DASHES[place % len(DASHES)], linewidth=1.7)
    grid = np.geomspace(left, max(right, left * 1.001), BAND_POINTS)
    at = np.concatenate([[0.0], sample.shares])[np.searchsorted(sample.middle, grid, side="right")]
    low = high = np.full(len(grid), np.nan)
    if data.resampling is not None:
        low, high = data.resampling.curves(sample, grid, BAND_SAMPLES)
        axis.fill_between(grid, low * 100, high * 100, step="post", color=colour, alpha=0.15, linewidth=0)
    columns = np.column_stack([grid, at * 100, low * 100, high * 100]).tolist()
    rows += [[name, *panel, *row] for row in columns]
    median = sample.quantile(0.5).value
    return f"{name} median {formats.seconds(median)}" if median is not None else f"{name} median unknown"


def attribution(parts: Sequence[Mapping[str, Any]], label: str) -> Drawing | None:
    """Draw the contribution of each stage to the difference of the mean times; to the right: slower."""
    drawn = [one for one in parts if abs(one["difference"]) > 1e-9]
    if not drawn:
        return None
    names = [stage_name(one["name"]) for one in drawn]
    whole = sum(one["difference"] for one in parts)
    left = 0.25 + 0.083 * max(len(one) for one in [*names, "total"])
    figure, (axis,) = plot_canvas.stacked([0.29 * (len(drawn) + 1) + 0.1], top=0.42, gap=0, bottom=0.56, left=left)
    most = max(abs(one["difference"]) for one in drawn)
    factor, unit = plot_canvas.scale(max(most, abs(whole)))
    texts, rows, reach = [], [], []
    for place, one in enumerate([*drawn, {"name": "total", "writer": "", "difference": whole, "simulated": False}]):
        value = one["difference"] * factor
        colour = "#D55E00" if value > 0 else "#0072B2"
        last = place == len(drawn)
        axis.barh(
            place,
            value,
            height=0.72,
            facecolor="#DDDDDD" if last else f"{colour}88",
            edgecolor=GREY if last else colour,
            hatch="///" if one["simulated"] else None,
        )
        confidence = one.get("confidence") or {}
        low, high = confidence.get("low"), confidence.get("high")
        if low is not None and high is not None:
            axis.hlines(place, low * factor, high * factor, color="black", linewidth=1.3)
        text = f"{'+' if value > 0 else ''}{formats.seconds(one['difference'])}"
        ends = [value, (low or 0) * factor, (high or 0) * factor]
        edge = max(ends) if value >= 0 else min(ends)
        reach += [(edge, f" {text} "), *((end, "") for end in ends)]
        axis.text(edge, place, f" {text} ", va="center", ha="left" if value >= 0 else "right", fontsize=9.5)
        if not last:
            texts.append(f"{stage_title(one['name'], one['simulated'])} by {formats.writer(one['writer'])}: {text}.")
            rows.append([one["name"], one["writer"], one["before"], one["after"], one["difference"], low, high])
    axis.axvline(0, color=GREY, linewidth=0.9)
    axis.set_yticks(range(len(drawn) + 1), [*names, "total"], fontsize=10)
    axis.set_ylim(len(drawn) + 0.5, -0.5)
    axis.set_xlim(*plot_canvas.limits(reach, left))
    axis.grid(axis="y", visible=False)
    axis.set_xlabel(f"difference of the mean time ({unit}); black: 95 %", loc="right")
    title = plot_canvas.titled("What makes up the difference", label)
    plot_canvas.heading(figure, title)
    columns = ["stage", "writer", "before_s", "after_s", "difference_s", "low_s", "high_s"]
    return Drawing(figure, title, f"{title}, {formats.seconds(whole)} in total. {' '.join(texts)}", columns, rows)
