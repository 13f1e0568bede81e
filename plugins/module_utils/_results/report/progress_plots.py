# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots of workloads over time: numbers by stage, queue, GPUs in use, and one line per workload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..kpi.point_data import ENDED, INTENDED, SENT, PointData
from ..kpi.timeline_functions import workload_level_over_time
from . import plot_canvas
from .plot_canvas import (
    COLOURS,
    GREY,
    PODS_SUCCEEDED,
    RUNNING,
    SCHEDULED,
    PlotDrawing,
    factor_and_unit_of_time_axis,
    stage_colours,
    stage_title_in_plot,
    stages_to_plot,
)

#: Maximum numbers of lines and columns, about one pixel of the file each.
RASTER_LINES, RASTER_COLUMNS = 520, 860
#: Outcomes other than success, ascending by severity; a line shows its most severe one.
BAD = {
    "unsent": "#BBBBBB",
    "deleted": "#882255",
    "unfinished": "#E69F00",
    "lost": "#56B4E9",
    "refused": "#000000",
    "failed": "#D55E00",
}


def draw_workload_counts(data: PointData, label: str) -> PlotDrawing | None:
    """Draw the cumulative number of workloads per stage, and the numbers open and running, over time."""
    curves = _cumulative_stage_curves(data)
    if not curves:
        return None
    from matplotlib.patches import Patch

    np = data.np
    stop = max(data.end - data.start, max(float(values[-1]) for _name, values, _simulated in curves))
    factor, unit = factor_and_unit_of_time_axis(stop)
    blind = bool(data.table.header["gaps"])
    figure, (upper, lower) = plot_canvas.create_stacked_axes(
        [2.9, 1.7], top=0.42, gap=0.22, bottom=0.6 + plot_canvas.legend_height(9, 3)
    )
    texts: list[str] = []
    rows: list[list[Any]] = []
    due = data.stage_bounds(INTENDED)[0]
    due = np.sort(due[~np.isnan(due)])
    for number, (name, values, simulated) in enumerate([("due", due, False), *curves] if len(due) else curves):
        moments, ranks = plot_canvas.thin_ordered_values(np, values)
        rows += [[name, moment, rank] for moment, rank in zip(moments, ranks, strict=True)]
        upper.step(
            np.concatenate([[min(0.0, float(values[0]))], moments, [stop]]) * factor,
            np.concatenate([[0], ranks, [len(values)]]),
            where="post",
            color="#999999" if name == "due" else stage_colours(data).get(name, COLOURS[0]),
            linestyle=":" if name == "due" else "--" if simulated else "-",
            linewidth=max(3.6 - 0.5 * number, 1.5),  # earlier curves remain visible below later ones
            label=stage_title_in_plot(name, simulated),
        )
        if name != "due":
            texts.append(
                f"{stage_title_in_plot(name, simulated)}: {len(values):,} of {data.of:,}, last after "
                f"{formats.format_duration(float(values[-1]))}."
            )
    upper.axhline(data.of, color=GREY, linewidth=0.8)
    upper.set_ylabel(f"{data.table.noun}s so far")
    upper.set_ylim(0, data.of * 1.06)
    areas = _draw_open_workloads(data, lower, factor, stop, texts, rows)
    lower.set_ylabel("at that moment")
    lower.set_xlabel(f"time since the start of the load ({unit})")
    lower.set_ylim(bottom=0)
    for axis in (upper, lower):
        plot_canvas.format_axis_as_integers(axis.yaxis)
        axis.set_xlim(-0.02 * stop * factor, 1.02 * stop * factor)
    upper.tick_params(labelbottom=False)
    plot_canvas.shade_watch_gaps(data, (upper, lower), factor)
    plot_canvas.draw_bottom_legend(
        figure, upper, 3, [*areas, *([Patch(color="#BBBBBB", alpha=0.6, label="gap in the watch")] if blind else [])]
    )
    title = plot_canvas.title_with_label(f"{data.table.noun.capitalize()}s over time", label)
    plot_canvas.draw_figure_title(figure, title)
    return PlotDrawing(figure, title, f"{title}. {' '.join(texts)}", ["curve", "since_start_s", "workloads"], rows)


def _cumulative_stage_curves(data: PointData) -> list[tuple[str, Any, bool]]:
    """Return (name, sorted times, simulated) of each curve, in the order of the stages."""
    np = data.np
    curves = []
    for name in (
        SENT,
        "created",
        data.first_known_stage(SCHEDULED),
        data.first_known_stage(RUNNING),
        data.first_known_stage(ENDED),
    ):
        if name is None or not data.knows(name) or not data.of:
            continue
        values = data.stage_midpoints(name)
        values = np.sort(values[~np.isnan(values)])
        if len(values):
            curves.append((name, values, name != SENT and data.is_simulated(name)))
    return curves


def _draw_open_workloads(
    data: PointData, axis: Any, factor: float, stop: float, texts: list[str], rows: list[list[Any]]
) -> list[Any]:
    """Draw the numbers of open (created or sent, not ended) and running workloads; return the areas for the legend."""
    areas = []
    for name, begin in (
        ("open now", data.first_known_stage(["created", SENT])),
        ("running now", data.first_known_stage(RUNNING)),
    ):
        if begin is None:
            continue
        simulated = data.knows(ENDED) and data.is_simulated(ENDED, begin)
        curve = _draw_workload_area(
            data, axis, (begin, ENDED), (factor, stop), stage_colours(data).get(begin, COLOURS[0]), name, simulated
        )
        if curve is None:
            continue
        area, most, steps = curve
        areas.append(area)
        rows += [[name, *step] for step in steps]
        texts.append(f"At most {int(most):,} {name.split()[0]} at once.")
    return areas


def _draw_workload_area(
    data: PointData,
    axis: Any,
    stages: Sequence[str],
    extent: tuple[float, float],
    colour: str,
    label: str,
    simulated: bool,
    weight: Any = None,
) -> tuple[Any, float, list[list[float]]] | None:
    """Draw the number (or ``weight``) of workloads from the first stage to the first one of the others.

    Returns area, maximum and steps.
    """
    np = data.np
    ends = [data.stage_midpoints(stage) for stage in stages[1:] if data.knows(stage)]
    until = np.fmin.reduce([np.full(data.of, np.nan), *ends])
    moments, levels = workload_level_over_time(data, data.stage_midpoints(stages[0]), until, weight)
    if not len(moments):
        return None
    factor, stop = extent
    keep = np.unique(np.linspace(0, len(moments) - 1, plot_canvas.MOST_STEPS).astype(int))
    x = np.concatenate([[0.0], moments[keep], [stop]])
    y = np.concatenate([[0], levels[keep], levels[-1:]])
    area = axis.fill_between(
        x * factor,
        y,
        step="post",
        facecolor=f"{colour}55",
        edgecolor=colour,
        linewidth=1.0,
        hatch="///" if simulated else None,
        label=stage_title_in_plot(label, bool(simulated)),
    )
    return area, float(levels.max()), np.column_stack([x, y]).tolist()


def draw_cluster_occupancy(data: PointData, label: str, cluster_gpus: float = 0) -> PlotDrawing | None:
    """Draw the numbers of workloads waiting for a node and for running, and of GPUs held and in use, over time."""
    scheduled, running = data.first_known_stage(SCHEDULED), data.first_known_stage(RUNNING)
    if scheduled is None or running is None or not data.knows("created") or not data.knows(ENDED):
        return None
    stop = max(data.end - data.start, 0.001)
    factor, unit = factor_and_unit_of_time_axis(stop)
    gpus = data.np.asarray(data.table.gpus, dtype=float)
    wanted: list[tuple[int, str, tuple[str, ...], Any, str]] = [
        (0, "waiting for a node", ("created", scheduled), None, "#E69F00"),
        (0, "on a node, not running yet", (scheduled, running), None, "#56B4E9"),
    ]
    if gpus.any():
        wanted += [
            # Pods free their GPUs when they end, which is before the controller says that the workload has ended.
            (1, "GPUs held", (scheduled, PODS_SUCCEEDED, ENDED), gpus, "#999999"),
            (1, "GPUs of running workloads", (running, PODS_SUCCEEDED, ENDED), gpus, "#009E73"),
        ]
    panels = 1 + bool(gpus.any())
    figure, axes = plot_canvas.create_stacked_axes(
        [2.0] * panels, top=0.42, gap=0.22, bottom=0.6 + plot_canvas.legend_height(5, 2)
    )
    texts, rows, areas = [], [], []
    for panel, name, stages, weight, colour in wanted:
        simulated = data.is_simulated(stages[1], stages[0])
        curve = _draw_workload_area(data, axes[panel], stages, (factor, stop), colour, name, simulated, weight)
        if curve is not None:
            area, most, steps = curve
            areas.append(area)
            rows += [[name, *step] for step in steps]
            texts.append(f"{stage_title_in_plot(name, simulated)}: at most {formats.format_number(most)}.")
    axes[0].set_ylabel("workloads")
    if panels == 2:
        axes[1].set_ylabel("GPUs")
        if cluster_gpus:
            areas.append(
                axes[1].axhline(
                    cluster_gpus, color=GREY, linestyle=":", label=f"{cluster_gpus:,.0f} GPUs in the cluster"
                )
            )
            texts.append(f"The cluster has {cluster_gpus:,.0f} GPUs.")
    for axis in axes:
        plot_canvas.format_axis_as_integers(axis.yaxis)
        axis.set_ylim(bottom=0)
        axis.set_xlim(-0.02 * stop * factor, 1.02 * stop * factor)
        axis.tick_params(labelbottom=axis is axes[-1])
    axes[-1].set_xlabel(f"time since the start of the load ({unit})")
    plot_canvas.shade_watch_gaps(data, axes, factor)
    plot_canvas.draw_bottom_legend(figure, None, 2, areas)
    title = plot_canvas.title_with_label("Queue and GPUs over time" if panels == 2 else "Queue over time", label)
    plot_canvas.draw_figure_title(figure, title)
    return PlotDrawing(figure, title, f"{title}. {' '.join(texts)}", ["curve", "since_start_s", "number"], rows)


def draw_workload_stage_raster(data: PointData, label: str) -> PlotDrawing | None:
    """Draw the stages of every workload over time."""
    states = _workload_state_times(data)
    if not states or not data.of:
        return None
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    np = data.np
    stop = max(data.end - data.start, 0.001)
    factor, unit = factor_and_unit_of_time_axis(stop)
    lines = min(RASTER_LINES, data.of)
    line_of = np.arange(data.of) * lines // data.of
    most = _most_frequent_states(data, [moments for _name, moments in states], line_of, lines, stop)
    colour_of = stage_colours(data)
    palette = np.array(
        [(1.0, 1.0, 1.0), *(_lighten_black(to_rgb(colour_of.get(name, plot_canvas.GREY))) for name, _moments in states)]
    )
    ends = [place for place, (name, _moments) in enumerate(states, 1) if name in data.end_stages()]
    palette[ends] = 0.93  # ended workloads are drawn as background
    figure, (axis,) = plot_canvas.create_stacked_axes(
        [4.6], top=0.42, gap=0, bottom=0.6 + plot_canvas.legend_height(len(states) + 3, 2)
    )
    extent = (0, stop * factor, data.of - 0.5, -0.5)
    axis.imshow(palette[most], extent=extent, aspect="auto", interpolation="nearest")
    axis.grid(visible=False)
    bad = _draw_bad_outcome_strip(data, figure, axis, line_of, lines)
    plot_canvas.format_axis_as_integers(axis.yaxis)
    axis.set_ylabel(f"{data.table.noun}, in the order of submission")
    axis.set_xlabel(f"time since the start of the load ({unit})")
    simulated = {name: name != SENT and data.is_simulated(name) for name, _moments in states}
    handles = [
        Patch(
            facecolor=palette[place],
            edgecolor="#999999",
            label=stage_title_in_plot("ended" if name in data.end_stages() else name, simulated[name]),
        )
        for place, (name, _moments) in enumerate(states, 1)
    ]
    handles += [Patch(facecolor=BAD[name], label=f"at the right: {name}") for name in bad]
    plot_canvas.draw_bottom_legend(figure, None, 2, handles)
    plot_canvas.shade_watch_gaps(data, [axis], factor)
    title = plot_canvas.title_with_label(f"Every {data.table.noun} over time", label)
    plot_canvas.draw_figure_title(figure, title)
    noun = data.table.noun
    per = f" {lines} lines for {data.of:,} {noun}s, each with the stage of most of its about {data.of // lines}."
    shared = per if lines < data.of else ""
    outcomes = ", ".join(f"{data.table.outcome.count(name):,} {name}" for name in bad) or "all succeeded"
    alt = f"{title}, one line per {noun}, coloured by the last stage reached.{shared}"
    columns = [
        "first_index",
        "last_index",
        "workloads",
        *(f"{name}_median_s" for name, _colour in states),
        "worst_outcome",
    ]
    return PlotDrawing(
        figure, title, f"{alt} Outcomes: {outcomes}.", columns, _raster_rows(data, states, line_of, lines)
    )


def _workload_state_times(data: PointData) -> list[tuple[str, Any]]:
    """Return the states: name, and array (rows,) of when each workload entered it or a later one."""
    np = data.np
    names = [SENT, *stages_to_plot(data)]
    moments = {name: data.stage_midpoints(name) for name in names}
    usual = {name: float(np.nanmedian(values)) for name, values in moments.items() if not np.isnan(values).all()}
    ends = data.end_stages()
    order = sorted(usual, key=lambda name: (name != SENT, name in ends, usual[name]))
    states = [(name, moments[name]) for name in order]
    if states and states[-1][0] in ends:
        states[-1] = (states[-1][0], data.stage_midpoints(ENDED))  # failed workloads leave the state before, too
    for place in range(len(states) - 2, -1, -1):
        name, own = states[place]
        states[place] = (name, np.fmin(own, states[place + 1][1]))
    return states


def _most_frequent_states(data: PointData, moments: list[Any], line_of: Any, lines: int, stop: float) -> Any:
    """Return an array (lines, COLUMNS) of the most frequent state; 0 is before all states."""
    np = data.np
    width = stop / RASTER_COLUMNS
    size = np.bincount(line_of, minlength=lines)[:, None]
    reached = [np.broadcast_to(size, (lines, RASTER_COLUMNS))]
    for values in moments:
        known = ~np.isnan(values)
        column = np.clip((values[known] / width).astype(int), 0, RASTER_COLUMNS - 1)
        came = np.bincount(line_of[known] * RASTER_COLUMNS + column, minlength=lines * RASTER_COLUMNS).reshape(
            lines, RASTER_COLUMNS
        )
        reached.append(np.cumsum(came, axis=1))
    reached.append(np.zeros((lines, RASTER_COLUMNS), dtype=int))
    inside = np.array([reached[place] - reached[place + 1] for place in range(len(reached) - 1)])
    return inside.argmax(axis=0)


def _lighten_black(rgb: tuple[float, float, float]) -> tuple[float, ...]:
    """Return black as dark grey, so that it does not look like a gap."""
    return tuple(0.25 + 0.75 * part for part in rgb) if sum(rgb) < 0.3 else rgb


def _worst_outcome_per_line(data: PointData, line_of: Any, lines: int) -> Any:
    np = data.np
    rank = {name: place for place, name in enumerate(BAD, 1)}
    worst = np.zeros(lines, dtype=int)
    np.maximum.at(worst, line_of, np.array([rank.get(outcome, 0) for outcome in data.table.outcome]))
    return worst


def _draw_bad_outcome_strip(data: PointData, figure: Any, axis: Any, line_of: Any, lines: int) -> list[str]:
    """Draw the strip of bad outcomes beside the raster; return those that occur."""
    worst = _worst_outcome_per_line(data, line_of, lines)
    there = set(data.table.outcome)
    if worst.any():
        from matplotlib.colors import to_rgb

        palette = data.np.array([(1.0, 1.0, 1.0), *(to_rgb(colour) for colour in BAD.values())])
        place = axis.get_position()
        strip = figure.add_axes((place.x1 + 0.004, place.y0, 0.018, place.height))
        strip.imshow(palette[worst][:, None, :], aspect="auto", interpolation="nearest")
        strip.set_axis_off()
    return [name for name in BAD if name in there]


def _raster_rows(data: PointData, states: list[tuple[str, Any]], line_of: Any, lines: int) -> list[list[Any]]:
    """Return the rows of the CSV file, one per line of the plot; timeline.csv has every workload."""
    np = data.np
    worst, names = _worst_outcome_per_line(data, line_of, lines), ["", *BAD]
    edges = np.searchsorted(line_of, np.arange(lines + 1))
    rows = []
    for line in range(lines):
        part = slice(edges[line], edges[line + 1])
        medians = [_median_ignoring_nan(np, moments[part]) for _name, moments in states]
        first, last = data.table.index[part.start], data.table.index[part.stop - 1]
        rows.append([first, last, int(part.stop - part.start), *medians, names[worst[line]] or "succeeded"])
    return rows


def _median_ignoring_nan(np: Any, values: Any) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else None
