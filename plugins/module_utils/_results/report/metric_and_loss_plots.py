# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots of what was measured beside the workloads: captured metrics over time, and the loss of trainings."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..kpi.point_data import PointData
from ..metrics.metrics_file import CapturedMetric
from . import plot_canvas
from .plot_canvas import COLOURS, GREY, PlotDrawing, factor_and_unit_of_time_axis

#: Number of series with a colour and a name, those with the largest values; the others are grey.
NAMED_SERIES = 6
#: Curves of more jobs than this are thin and grey, with their median at each position.
FEW_CURVES = 6


def draw_captured_metrics(data: PointData, label: str) -> PlotDrawing | None:
    """Draw all metrics that have values."""
    there = [metric for metric in data.extras.metrics.values() if any(each.moments for each in metric.series)]
    if not there:
        return None
    stop = max(metric.end - metric.begin for metric in there)
    factor, unit = factor_and_unit_of_time_axis(stop)
    figure, axes = plot_canvas.create_stacked_axes([1.25] * len(there), top=0.66, gap=0.62, bottom=0.62)
    rows: list[list[Any]] = []
    texts = [_metric_panel(data, axis, metric, factor, rows) for axis, metric in zip(axes, there, strict=True)]
    for axis in axes:
        axis.set_xlim(-0.02 * stop * factor, 1.02 * stop * factor)
        axis.tick_params(labelbottom=axis is axes[-1])
    axes[-1].set_xlabel(f"time since the start of the test ({unit})")
    title = plot_canvas.title_with_label("Metrics of the cluster", label)
    plot_canvas.draw_figure_title(figure, title)
    return PlotDrawing(
        figure, title, f"{title}. {' '.join(texts)}", ["metric", "series", "since_start_s", "value"], rows
    )


def _metric_panel(data: PointData, axis: Any, metric: CapturedMetric, factor: float, rows: list[list[Any]]) -> str:
    np = data.np
    known = []
    for each in metric.series:
        values = np.array([np.nan if value is None else value for value in each.values], dtype=float)
        if len(values) and not np.isnan(values).all():
            known.append((float(np.nanmax(values)), metric.title(each), np.array(each.moments) - metric.begin, values))
    known.sort(key=lambda series: -series[0])
    for place, (_most, title, moments, values) in enumerate(known):
        named = place < NAMED_SERIES
        axis.plot(
            moments * factor,
            values,
            color=COLOURS[place % len(COLOURS)] if named else "#BBBBBB",
            linewidth=1.5 if named else 0.8,
            label=title[:24] if named else None,
            marker="." if len(values) < 4 else None,
            zorder=3 if named else 2,
        )
        rows += [[metric.name, title, *row] for row in zip(moments.tolist(), values.tolist(), strict=True)]
    shown = f"{metric.name.replace('_', ' ')}{' – SIMULATED' if metric.simulated else ''}"
    axis.set_title(shown, loc="left", fontsize=10.5, fontweight="bold", pad=17)
    axis.set_ylabel(metric.unit)
    axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
    axis.locator_params(axis="y", nbins=4)
    axis.legend(
        loc="lower left",
        bbox_to_anchor=(-0.01, 0.98),
        ncols=NAMED_SERIES,
        fontsize=8,
        handlelength=1.2,
        columnspacing=0.9,
    )
    if len(known) > NAMED_SERIES:
        axis.set_title(f"and {len(known) - NAMED_SERIES} more", loc="right", fontsize=8.5, color=GREY)
    most = known[0] if known else None
    maximum = f"at most {formats.format_with_unit(most[0], metric.unit)} ({most[1]})" if most else "no value"
    return f"{shown}: {maximum}, {formats.format_count(len(known), 'series', 'series')}."


def draw_training_loss(data: PointData, label: str) -> PlotDrawing | None:
    """Draw the loss over the steps or epochs; None unless a log has it at two positions at least."""
    rows = [row for row in data.extras.training if len(row.get("loss", {}).get("points", ())) > 1]
    if not rows:
        return None
    np = data.np
    many = len(rows) > FEW_CURVES
    figure, (axis,) = plot_canvas.create_stacked_axes([2.6], top=0.45, gap=0, bottom=0.56)
    table: list[list[Any]] = []
    for row in rows:
        along, losses = zip(*row["loss"]["points"], strict=True)
        axis.plot(
            along,
            losses,
            color="#BBBBBB" if many else COLOURS[0],
            alpha=1.0 if many else 0.8,
            linewidth=0.8 if many else 1.5,
            linestyle="--" if row["simulated"] else "-",
        )
        table += [[row.get("workload") or row["pod"], at, value] for at, value in zip(along, losses, strict=True)]
    if many:
        places = sorted({row[1] for row in table})
        medians = [float(np.median([row[2] for row in table if row[1] == at])) for at in places]
        axis.plot(places, medians, color=COLOURS[0], linewidth=2)
    over = rows[0]["loss"]["over"].replace("_", " ")
    axis.set_xlabel(over)
    axis.set_ylabel("loss")
    simulated = all(row["simulated"] for row in rows)
    title = plot_canvas.title_with_label(f"Loss of the trainings{' – SIMULATED' if simulated else ''}", label)
    plot_canvas.draw_figure_title(figure, title)
    axis.set_title(formats.format_count(len(rows), "job"), loc="right", fontsize=8.5, color=GREY)
    ends = [
        formats.format_number(float(np.median([row["loss"]["points"][place][1] for row in rows]))) for place in (0, -1)
    ]
    alt = f"{title}, over {over}: median {ends[0]} at first, {ends[1]} at last."
    return PlotDrawing(figure, title, alt, ["job", over.replace(" ", "_"), "loss"], table)
