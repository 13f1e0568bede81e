# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waterfall plot: the mean time of a workload from due until its end, by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..kpi import latency_attribution
from ..kpi.point_data import PointData
from . import plot_canvas
from .latency_attribution_text import stage_name
from .plot_canvas import COLOURS, stage_title
from .plotted_stages import Drawing


def waterfall(data: PointData, label: str) -> Drawing | None:
    """Draw the latency attribution of a point."""
    found = latency_attribution.document(data, "", "")
    if not found["stages"]:
        return None
    return draw_waterfall(found["stages"], float(found["total"]), found["n"], found["of"], label)


def draw_waterfall(parts: Sequence[Mapping[str, Any]], total: float, n: int, of: int, label: str) -> Drawing:
    """Draw parts as in schema attribution/1, each starting where the previous one ended. total: in seconds."""
    from matplotlib.patches import Patch

    writers = list(dict.fromkeys(one["writer"] for one in parts))
    colour = {writer: COLOURS[place % len(COLOURS)] for place, writer in enumerate(writers)}
    names = [stage_name(one["name"]) for one in parts]
    left = 0.25 + 0.083 * max(len(one) for one in names)
    height = 0.29 * (len(parts) + 1) + 0.1
    figure, (axis,) = plot_canvas.stacked(
        [height], top=0.42, gap=0, bottom=0.6 + plot_canvas.legend_height(len(writers) + 1, 3), left=left
    )
    factor, unit = plot_canvas.scale(total)
    begin, furthest, texts, rows = 0.0, total * factor, [], []
    for place, one in enumerate(parts):
        mean = one["mean"] * factor
        axis.barh(
            place,
            mean,
            left=begin,
            height=0.72,
            facecolor=f"{colour[one['writer']]}88",
            edgecolor=colour[one["writer"]],
            hatch="///" if one["simulated"] else None,
        )
        confidence = one["confidence"] or {}
        low, high = confidence.get("low"), confidence.get("high")
        edge = begin + max(mean, 0.0)
        if low is not None and high is not None:
            axis.hlines(place, begin + low * factor, begin + high * factor, color="black", linewidth=1.3)
            edge = max(edge, begin + high * factor)
        text = f"{formats.seconds(one['mean'])}, {100 * one['share']:.0f} %"
        furthest = max(furthest, edge)
        _label_bar(axis, place, (begin, edge), total * factor, text)
        texts.append(f"{stage_title(one['name'], one['simulated'])} by {formats.writer(one['writer'])}: {text}.")
        rows.append(
            [one["name"], one["writer"], one["simulated"], one["mean"], one["share"], low, high, one["slowest"]]
        )
        begin += mean
    axis.barh(len(parts), begin, height=0.72, facecolor="#DDDDDD", edgecolor=plot_canvas.GREY)
    axis.text(begin, len(parts), f"{formats.seconds(total)}  ", va="center", ha="right", fontsize=9.5)
    axis.set_yticks(range(len(parts) + 1), [*names, "total"], fontsize=10)
    axis.set_ylim(len(parts) + 0.5, -0.5)
    axis.set_xlim(0.0, furthest * 1.04 if furthest > 0 else 1.0)
    axis.grid(axis="y", visible=False)
    axis.set_xlabel(f"mean of the {n:,} of {of:,} that ended ({unit}); black: 95 %", loc="right")
    handles = [Patch(facecolor=f"{colour[one]}88", edgecolor=colour[one], label=formats.writer(one)) for one in writers]
    if any(one["simulated"] for one in parts):
        handles.append(Patch(facecolor="white", edgecolor=plot_canvas.GREY, hatch="///", label="SIMULATED"))
    plot_canvas.legend(figure, None, 3, handles)
    title = plot_canvas.titled("Where the time went", label)
    plot_canvas.heading(figure, title)
    columns = ["stage", "writer", "simulated", "mean_s", "share", "low_s", "high_s", "mean_of_slowest_5_percent_s"]
    return Drawing(figure, title, f"{title}: mean time of a workload by stage. {' '.join(texts)}", columns, rows)


def _label_bar(axis: Any, place: int, ends: tuple[float, float], whole: float, text: str) -> None:
    """Label a bar where there is room: after it, before it, or inside."""
    begin, edge = ends
    if edge < 0.72 * whole:
        axis.text(edge, place, f"  {text}", va="center", fontsize=9.5, ha="left")
    elif begin > 0.3 * whole:
        axis.text(begin, place, f"{text}  ", va="center", fontsize=9.5, ha="right")
    else:
        box = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1.5}
        axis.text((begin + edge) / 2, place, text, va="center", fontsize=9.5, ha="center", bbox=box)
