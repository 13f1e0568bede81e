# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots of stage durations: per workload, as distributions, over the rate of a load in steps, as parts of the mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..kpi import latency_attribution
from ..kpi.knee_and_capacity_functions import find_knee_by_kneedle, latency_by_load_step
from ..kpi.point_data import NEEDED, SENT, PointData
from . import plot_canvas
from .kpi_text_filters import label_of_stage
from .plot_canvas import COLOURS, GREY, SINGLE, PlotDrawing, stage_colours, stage_title_in_plot, stages_to_plot

GROUPS = 160
ROOM = 74  # letters of 9.5 points that fit above a panel
QUANTILES = ((0.5, "o"), (0.95, "^"), (0.99, "s"))
#: Number of bootstrap samples of a band; more make no visible difference.
BAND_SAMPLES = 200
BAND_POINTS = 240
QUANTILE = 0.95
_COLUMNS = 2


def draw_stage_durations_by_workload(data: PointData, label: str) -> PlotDrawing | None:
    """Draw one panel per stage with its duration for each workload, in submission order."""
    stages = stages_to_plot(data)
    if not stages:
        return None
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    single = data.of <= SINGLE
    figure, axes = plot_canvas.create_stacked_axes(
        [0.88] * len(stages), top=0.66, gap=0.36, bottom=0.62 + plot_canvas.legend_height(1, 4)
    )
    rows: list[list[Any]] = []
    texts = [
        _draw_stage_duration_panel(data, axis, stage, stage_colours(data)[stage], rows)
        for axis, stage in zip(axes, stages, strict=True)
    ]
    for axis in axes:
        axis.set_xlim(-0.5 - 0.01 * data.of, data.of - 0.5 + 0.01 * data.of)
        plot_canvas.format_axis_as_integers(axis.xaxis)
        axis.tick_params(labelbottom=axis is axes[-1])
    axes[-1].set_xlabel("workload, in the order of submission")
    if single:
        handles: list[Line2D | Patch] = [Line2D([], [], color=GREY, marker="o", linewidth=1.4, label="with its error")]
    else:
        handles = [
            Line2D([], [], color=GREY, label="median"),
            Patch(color=GREY, alpha=0.45, label="P5 to P95"),
            Patch(color=GREY, alpha=0.2, label="min to max"),
        ]
    handles.append(Line2D([], [], color="black", marker="x", linestyle="none", label="not seen to reach it"))
    plot_canvas.draw_bottom_legend(figure, None, 4, handles)
    title = plot_canvas.title_with_label("Stage durations over submission order", label)
    plot_canvas.draw_figure_title(figure, title)
    names = ["stage", "first_index", "last_index", "workloads", "min_s", "p5_s", "p50_s", "p95_s", "max_s"]
    names = ["stage", "index", "took_s", "at_least_s", "at_most_s"] if single else names
    return PlotDrawing(figure, title, f"{title}, one panel per stage. {' '.join(texts)}", names, rows)


def _draw_stage_duration_panel(data: PointData, axis: Any, stage: str, colour: str, rows: list[list[Any]]) -> str:
    np = data.np
    first, last = data.stage_bounds(stage)
    begin_first, begin_last = data.needed_stage_bounds(stage)
    lower, upper = first - begin_last, last - begin_first
    middle = (lower + upper) / 2
    known = ~np.isnan(middle)
    simulated = data.is_simulated(stage, NEEDED)
    n = int(known.sum())
    factor, unit = plot_canvas.duration_scale_and_unit(float(np.nanmax(np.abs(upper))) if n else 1.0)
    order = np.arange(data.of)
    if data.of <= SINGLE:
        of = data.table.index
        rows += [[stage, of[row], middle[row], lower[row], upper[row]] for row in order[known]]
        axis.vlines(order[known], lower[known] * factor, upper[known] * factor, color=colour, alpha=0.45, linewidth=1.4)
        size = 20 if data.of <= 100 else 7
        axis.scatter(
            order[known], middle[known] * factor, s=size, color=colour, marker="D" if simulated else "o", linewidths=0
        )
    elif n:
        rows += [[stage, *row] for row in _draw_percentile_bands(data, axis, order, middle, factor, colour)]
    if n < data.of:
        places = order[~known]
        edge = axis.get_xaxis_transform()
        axis.scatter(
            places, [0.95] * len(places), transform=edge, marker="x", s=20, color="black", linewidths=1.1, clip_on=False
        )
    after = formats.join_with_and(
        [formats.stage_display_name(need) for need in data.needs.get(stage, ()) if data.knows(need)] or [SENT]
    )
    axis.set_title(stage_title_in_plot(stage, simulated), loc="left", fontsize=10.5, fontweight="bold", pad=4)
    room = ROOM - 1.25 * len(stage_title_in_plot(stage, simulated))  # in letters of the small title
    subtitles = (
        f"after {after}; by {formats.stage_writer_display_name(data.writers[stage])}",
        f"after {after}",
        f"by {formats.stage_writer_display_name(data.writers[stage])}",
    )
    fitting = next((text for text in subtitles if len(text) <= room), "")
    axis.set_title(fitting, loc="right", fontsize=9.5, color=GREY, pad=4)
    axis.set_ylabel(unit)
    axis.yaxis.set_label_coords(-0.115, 0.5)
    bottom, top = axis.get_ylim()
    axis.set_ylim(min(bottom, 0), top + 0.12 * (top - bottom))
    axis.locator_params(axis="y", nbins=4)
    if simulated:
        axis.set_facecolor(plot_canvas.SIMULATED_BACKGROUND)
    quantile = data.sample(stage, NEEDED).quantile(0.5)
    median = f"median {formats.format_duration(quantile.value)}" if quantile.value is not None else "median unknown"
    return f"{stage_title_in_plot(stage, simulated)}: {median}, {n:,} of {data.of:,}."


def _draw_percentile_bands(
    data: PointData, axis: Any, order: Any, values: Any, factor: float, colour: str
) -> list[list[Any]]:
    """Draw median, P5 to P95 and extremes of groups of neighbours, for many workloads."""
    np = data.np
    groups = [part for part in np.array_split(order, min(GROUPS, data.of)) if (~np.isnan(values[part])).any()]
    middle = [part.mean() for part in groups]
    quantiles = np.array([np.nanquantile(values[part], [0, 0.05, 0.5, 0.95, 1]) for part in groups])
    low, p5, p50, p95, high = quantiles.T * factor
    axis.fill_between(middle, low, high, color=colour, alpha=0.16, linewidth=0)
    axis.fill_between(middle, p5, p95, color=colour, alpha=0.35, linewidth=0)
    axis.plot(middle, p50, color=colour, linewidth=1.4)
    of = data.table.index
    return [[of[part[0]], of[part[-1]], len(part), *row] for part, row in zip(groups, quantiles.tolist(), strict=True)]


def draw_stage_distributions(data: PointData, label: str) -> PlotDrawing | None:
    """Draw the cumulative distribution of each stage over all planned workloads, with 95 % bands and quantiles."""
    stages = stages_to_plot(data)
    if not stages:
        return None
    np = data.np
    samples = [(stage, data.sample(stage, NEEDED)) for stage in stages]
    # A name with "SIMULATED" and a count fills a whole row.
    columns = 1 if any(sample.n < sample.of and data.is_simulated(stage, NEEDED) for stage, sample in samples) else 2
    rows = len(stages) + len(QUANTILES)
    figure, (axis,) = plot_canvas.create_stacked_axes(
        [3.9], top=0.42, gap=0, bottom=0.6 + plot_canvas.legend_height(rows, columns)
    )
    positive = [float(sample.middle[sample.middle > 0][0]) for _stage, sample in samples if (sample.middle > 0).any()]
    left = max(min(positive, default=1e-3) / 2, 1e-4)  # durations of 0 are at the left edge
    colour_of = stage_colours(data)
    texts: list[str] = []
    rows_of: list[list[Any]] = []
    for stage, sample in samples:
        simulated = data.is_simulated(stage, NEEDED)
        values, ranks = plot_canvas.thin_ordered_values(np, np.maximum(sample.middle, left), sample.shares * sample.of)
        name = stage_title_in_plot(stage, simulated) + (f", {sample.n:,} seen" if sample.n < sample.of else "")
        axis.step(
            np.concatenate([values[:1], values]),
            np.concatenate([[0], ranks]) * 100 / sample.of,
            where="post",
            color=colour_of[stage],
            linestyle="--" if simulated else "-",
            linewidth=1.8,
            label=name,
        )
        rows_of += _draw_confidence_band(data, axis, stage, sample, left, colour_of[stage], values, ranks)
        quantiles = []
        for q, marker in QUANTILES:
            quantile = sample.quantile(q).value
            if quantile is not None:
                axis.plot(
                    max(quantile, left),
                    q * 100,
                    marker,
                    color=colour_of[stage],
                    markersize=7,
                    markeredgecolor="white",
                    clip_on=False,
                    zorder=5,
                )
                quantiles.append(f"P{q * 100:.0f} {formats.format_duration(quantile)}")
        known = ", ".join(quantiles) or "no quantile known"
        texts.append(f"{stage_title_in_plot(stage, simulated)}, {sample.n:,} of {sample.of:,}: {known}.")
    for q, marker in QUANTILES:
        axis.plot([], [], marker, color=GREY, label=f"P{q * 100:.0f}", markersize=7, linestyle="none")
    axis.set_xscale("log")
    axis.set_ylim(0, 103)
    axis.set_ylabel(f"% of {formats.format_count(data.of, 'planned workload')}")
    axis.set_xlabel("took at most" + ("; bands: 95 % by block bootstrap" if data.resampling else ""))
    plot_canvas.format_axis_as_durations(axis.xaxis)
    plot_canvas.draw_bottom_legend(figure, axis, columns)
    title = plot_canvas.title_with_label("Distribution of stage durations", label)
    plot_canvas.draw_figure_title(figure, title)
    band = " Bands: 95 %, by block bootstrap." if data.resampling else ""
    names = ["stage", "took_s", "share_percent", "low_percent", "high_percent"]
    return PlotDrawing(figure, title, f"{title}, cumulative. {' '.join(texts)}{band}", names, rows_of)


def _draw_confidence_band(
    data: PointData, axis: Any, stage: str, sample: Any, left: float, colour: str, values: Any, ranks: Any
) -> list[list[Any]]:
    """Draw the confidence band of a curve; return the rows of the CSV file."""
    np = data.np
    if data.resampling is None or not sample.n:
        return [[stage, value, rank * 100 / sample.of, None, None] for value, rank in zip(values, ranks, strict=True)]
    last = max(float(sample.middle[-1]), left * 1.001)
    grid = np.unique(np.concatenate([np.geomspace(left, last, BAND_POINTS), [last]]))
    low, high = data.resampling.curves(sample, grid, BAND_SAMPLES)
    axis.fill_between(grid, low * 100, high * 100, step="post", color=colour, alpha=0.18, linewidth=0)
    places = np.searchsorted(np.maximum(sample.middle, left), grid, side="right")
    at = np.concatenate([[0.0], sample.shares])[places]
    return [[stage, *row] for row in np.column_stack([grid, at * 100, low * 100, high * 100]).tolist()]


def draw_saturation_curves(data: PointData, label: str) -> PlotDrawing | None:
    """Draw P95 of each stage over the rate, both logarithmic, with a ring around each knee; None without steps."""
    curves = [
        (stage, latency_by_load_step(data, stage, NEEDED, QUANTILE))
        for stage in (stages_to_plot(data) if data.extras.steps else [])
    ]
    curves = [(stage, curve) for stage, curve in curves if len(curve) >= 2]
    if not curves:
        return None
    figure, (axis,) = plot_canvas.create_stacked_axes(
        [3.3], top=0.45, gap=0, bottom=0.56 + plot_canvas.legend_height(len(curves) + 1, _COLUMNS)
    )
    colour_of = stage_colours(data)
    texts: list[str] = []
    rows: list[list[Any]] = []
    for stage, curve in curves:
        simulated = data.is_simulated(stage, NEEDED)
        rates, took = [step[0] for step in curve], [max(step[1], 1e-6) for step in curve]
        axis.plot(
            rates,
            took,
            color=colour_of[stage],
            linestyle="--" if simulated else "-",
            marker="o",
            markersize=4,
            linewidth=1.8,
            label=stage_title_in_plot(stage, simulated),
        )
        place = find_knee_by_kneedle(rates, took)
        if place is not None:
            axis.plot(rates[place], took[place], "o", markersize=11, fillstyle="none", color=colour_of[stage])
        bend = "does not bend" if place is None else f"bends after {formats.format_number(rates[place])}/s"
        ends = (
            f"{formats.format_duration(took[0])} at {formats.format_number(rates[0])}/s,"
            f" {formats.format_duration(took[-1])} at "
        )
        texts.append(f"{stage_title_in_plot(stage, simulated)}: {ends}{formats.format_number(rates[-1])}/s, {bend}.")
        rows += [[stage, rate, latency, count, place == at] for at, (rate, latency, count) in enumerate(curve)]
    axis.plot([], [], "o", markersize=11, fillstyle="none", color=GREY, label="knee", linestyle="none")
    _set_logarithmic_axes(axis, sorted({row[1] for row in rows}))
    plot_canvas.draw_bottom_legend(figure, axis, _COLUMNS)
    title = plot_canvas.title_with_label("Saturation", label)
    plot_canvas.draw_figure_title(figure, title)
    alt = f"{title}: P95 of the time that each stage took, at each rate of the load. {' '.join(texts)}"
    return PlotDrawing(figure, title, alt, ["stage", "rate_per_s", "took_p95_s", "workloads", "knee"], rows)


def _set_logarithmic_axes(axis: Any, rates: list[float]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    axis.set_xscale("log")
    axis.set_yscale("log")
    plot_canvas.format_axis_as_durations(axis.yaxis)
    along = axis.xaxis
    along.set_major_locator(FixedLocator(rates))
    along.set_minor_locator(NullLocator())
    along.set_major_formatter(FuncFormatter(lambda value, _place: formats.format_number(value)))
    along.set_minor_formatter(NullFormatter())
    axis.set_xlabel("workloads due per second")
    axis.set_ylabel("stage took, P95")


def draw_point_latency_waterfall(data: PointData, label: str) -> PlotDrawing | None:
    """Draw the latency attribution of a point."""
    attribution = latency_attribution.attribution_document(data, "", "")
    if not attribution["stages"]:
        return None
    return draw_mean_stage_waterfall(
        attribution["stages"], float(attribution["total"]), attribution["n"], attribution["of"], label
    )


def draw_mean_stage_waterfall(
    parts: Sequence[Mapping[str, Any]], total: float, n: int, of: int, label: str
) -> PlotDrawing:
    """Draw parts as in schema attribution/1, each starting where the previous one ended. total: in seconds."""
    from matplotlib.patches import Patch

    writers = list(dict.fromkeys(part["writer"] for part in parts))
    colour = {writer: COLOURS[place % len(COLOURS)] for place, writer in enumerate(writers)}
    names = [label_of_stage(part["name"]) for part in parts]
    left = 0.25 + 0.083 * max(len(name) for name in names)
    height = 0.29 * (len(parts) + 1) + 0.1
    figure, (axis,) = plot_canvas.create_stacked_axes(
        [height], top=0.42, gap=0, bottom=0.6 + plot_canvas.legend_height(len(writers) + 1, 3), left=left
    )
    factor, unit = plot_canvas.duration_scale_and_unit(total)
    begin, furthest, texts, rows = 0.0, total * factor, [], []
    for place, part in enumerate(parts):
        mean = part["mean"] * factor
        axis.barh(
            place,
            mean,
            left=begin,
            height=0.72,
            facecolor=f"{colour[part['writer']]}88",
            edgecolor=colour[part["writer"]],
            hatch="///" if part["simulated"] else None,
        )
        confidence = part["confidence"] or {}
        low, high = confidence.get("low"), confidence.get("high")
        edge = begin + max(mean, 0.0)
        if low is not None and high is not None:
            axis.hlines(place, begin + low * factor, begin + high * factor, color="black", linewidth=1.3)
            edge = max(edge, begin + high * factor)
        text = f"{formats.format_duration(part['mean'])}, {100 * part['share']:.0f} %"
        furthest = max(furthest, edge)
        _label_bar(axis, place, (begin, edge), total * factor, text)
        title = stage_title_in_plot(part["name"], part["simulated"])
        texts.append(f"{title} by {formats.stage_writer_display_name(part['writer'])}: {text}.")
        rows.append(
            [part["name"], part["writer"], part["simulated"], part["mean"], part["share"], low, high, part["slowest"]]
        )
        begin += mean
    axis.barh(len(parts), begin, height=0.72, facecolor="#DDDDDD", edgecolor=plot_canvas.GREY)
    axis.text(begin, len(parts), f"{formats.format_duration(total)}  ", va="center", ha="right", fontsize=9.5)
    axis.set_yticks(range(len(parts) + 1), [*names, "total"], fontsize=10)
    axis.set_ylim(len(parts) + 0.5, -0.5)
    axis.set_xlim(0.0, furthest * 1.04 if furthest > 0 else 1.0)
    axis.grid(axis="y", visible=False)
    axis.set_xlabel(f"mean of the {n:,} of {of:,} that ended ({unit}); black: 95 %", loc="right")
    handles = [
        Patch(
            facecolor=f"{colour[writer]}88", edgecolor=colour[writer], label=formats.stage_writer_display_name(writer)
        )
        for writer in writers
    ]
    if any(part["simulated"] for part in parts):
        handles.append(Patch(facecolor="white", edgecolor=plot_canvas.GREY, hatch="///", label="SIMULATED"))
    plot_canvas.draw_bottom_legend(figure, None, 3, handles)
    title = plot_canvas.title_with_label("Where the time went", label)
    plot_canvas.draw_figure_title(figure, title)
    columns = ["stage", "writer", "simulated", "mean_s", "share", "low_s", "high_s", "mean_of_slowest_5_percent_s"]
    return PlotDrawing(figure, title, f"{title}: mean time of a workload by stage. {' '.join(texts)}", columns, rows)


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
