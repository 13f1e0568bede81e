# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots that compare schedulers: where gangs were placed and what this left free; shares of queues over time."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..kpi.fairness_functions import shares_of_queue
from ..kpi.placement_functions import count_domains_of_gangs, free_slots_over_time, topology_of_point
from ..kpi.point_data import NoFigure, PointData
from ..kpi.scheduler_functions import distinct_queue_names, gangs_of_point, seconds_until_load_ended
from . import plot_canvas
from .plot_canvas import COLOURS, GREY, PlotDrawing, factor_and_unit_of_time_axis

MARKERS = "os^vDP"


def draw_placement(data: PointData, label: str) -> PlotDrawing | None:
    """Draw the domains of each gang, the largest free slot, and the fragmentation, over time for each level."""
    gangs, topology = gangs_of_point(data), topology_of_point(data)
    if gangs is None or topology is None:
        return None
    np = data.np
    stop = max(seconds_until_load_ended(data), 0.001)
    factor, unit = factor_and_unit_of_time_axis(stop)
    figure, axes = plot_canvas.create_stacked_axes(
        [1.6, 1.6, 1.3], top=0.42, gap=0.22, bottom=0.6 + plot_canvas.legend_height(len(topology.levels) + 1, 4)
    )
    texts: list[str] = []
    rows: list[list[Any]] = []
    for place, level in enumerate(topology.levels):
        colour = COLOURS[place % len(COLOURS)]
        spans = count_domains_of_gangs(data, level)
        known = [(gangs.done[row], span) for row, span in enumerate(spans) if span is not None]
        rows += [["domains", level, moment, span] for moment, span in known]
        # Levels of one gang have the same time, and often the same number of domains.
        axes[0].plot(
            [moment * factor for moment, _span in known],
            [span + 0.08 * place for _moment, span in known],
            MARKERS[place % len(MARKERS)],
            color=colour,
            markersize=4,
            alpha=0.8,
            label=level,
        )
        slots = free_slots_over_time(data, level)
        keep = np.unique(np.linspace(0, len(slots.moments) - 1, plot_canvas.MOST_STEPS).astype(int))
        moments = np.append(np.array(slots.moments)[keep], stop)
        for axis, name, values, scale in (
            (axes[1], "largest free slot", slots.largest, 1.0),
            (axes[2], "fragmentation", slots.fragmentation, 100.0),
        ):
            steps = np.array(values)[keep] * scale
            axis.step(moments * factor, np.append(steps, steps[-1:]), where="post", color=colour, linewidth=1.5)
            rows += [[name, level, *step] for step in zip(moments.tolist(), steps.tolist(), strict=False)]
        if place == 0:
            total = np.array(slots.total)[keep]
            axes[1].step(moments * factor, np.append(total, total[-1:]), where="post", color=GREY, linestyle=":")
        mean = sum(span for _moment, span in known) / len(known) if known else None
        fragmented = slots.mean(slots.fragmentation, stop)
        texts.append(
            f"{level}: {formats.format_number(mean) if mean else 'no'} domains a gang,"
            f" fragmentation {formats.format_number(100 * (fragmented or 0))} %."
        )
    for axis, name in zip(
        axes, ("domains of a gang", f"free {topology.resource.rpartition('/')[2]}", "fragmentation, %"), strict=True
    ):
        axis.set_ylabel(name)
        axis.set_xlim(-0.02 * stop * factor, 1.02 * stop * factor)
        axis.set_ylim(bottom=0)
        axis.tick_params(labelbottom=axis is axes[-1])
    plot_canvas.format_axis_as_integers(axes[0].yaxis)
    axes[2].set_ylim(-3, 103)
    axes[-1].set_xlabel(f"time since the start of the load ({unit})")
    plot_canvas.shade_watch_gaps(data, axes, factor)
    from matplotlib.lines import Line2D

    plot_canvas.draw_bottom_legend(figure, axes[0], 4, [Line2D([], [], color=GREY, linestyle=":", label="free in all")])
    title = plot_canvas.title_with_label("Placement of gangs in the topology", label)
    plot_canvas.draw_figure_title(figure, title)
    return PlotDrawing(figure, title, f"{title}. {' '.join(texts)}", ["curve", "level", "since_start_s", "value"], rows)


#: Queues that are drawn: those that held most.
DRAWN = 6


def draw_queue_shares(data: PointData, label: str) -> PlotDrawing | None:
    """Draw the dominant share that each queue held, and what its workloads wanted besides.

    Return None for one queue, and if the shares are unknown.
    """
    names = distinct_queue_names(data)
    if len(names) < 2:
        return None
    np = data.np
    stop = max(seconds_until_load_ended(data), 0.001)
    try:
        shares = {name: shares_of_queue(data, name) for name in names}
    except NoFigure:
        return None
    area = {name: sum(step[0] * step[1] for step in shares[name].spans(stop)) for name in names}
    drawn = sorted(sorted(names, key=lambda name: -area[name])[:DRAWN])
    factor, unit = factor_and_unit_of_time_axis(stop)
    figure, axes = plot_canvas.create_stacked_axes(
        [2.2, 1.6], top=0.42, gap=0.22, bottom=0.6 + plot_canvas.legend_height(len(drawn), 3)
    )
    texts: list[str] = []
    rows: list[list[Any]] = []
    for place, name in enumerate(drawn):
        colour, queue = COLOURS[place], shares[name]
        keep = np.unique(np.linspace(0, len(queue.moments) - 1, plot_canvas.MOST_STEPS).astype(int))
        moments = np.append(np.array(queue.moments)[keep], stop)
        held = 100 * np.array(queue.held)[keep]
        waiting = np.maximum(100 * np.array(queue.wanted)[keep] - held, 0.0)
        for axis, curve, steps in ((axes[0], "held", held), (axes[1], "waiting", waiting)):
            axis.step(
                moments * factor, np.append(steps, steps[-1]), where="post", color=colour, linewidth=1.5, label=name
            )
            rows += [[curve, name, *step] for step in zip(moments.tolist(), steps.tolist(), strict=False)]
        axes[0].axhline(100 * queue.entitlement, color=colour, linestyle=":", linewidth=1.2)
        rows.append(["entitlement", name, 0.0, 100 * queue.entitlement])
        texts.append(
            f"{name}: at most {formats.format_number(100 * max(queue.held))} %, entitled to"
            f" {formats.format_number(100 * queue.entitlement)} %."
        )
    axes[0].set_ylabel("share held, %")
    axes[1].set_ylabel("waiting, %")
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.set_xlim(-0.02 * stop * factor, 1.02 * stop * factor)
        axis.tick_params(labelbottom=axis is axes[-1])
    axes[-1].set_xlabel(f"time since the start of the load ({unit})")
    plot_canvas.shade_watch_gaps(data, axes, factor)
    plot_canvas.draw_bottom_legend(figure, axes[0], 3)
    title = plot_canvas.title_with_label("Shares of queues (dotted: entitled to)", label)
    plot_canvas.draw_figure_title(figure, title)
    if len(names) > len(drawn):
        axes[0].set_title(f"and {len(names) - len(drawn)} more queues", loc="right", fontsize=8.5)
    return PlotDrawing(figure, title, f"{title}. {' '.join(texts)}", ["curve", "queue", "since_start_s", "share"], rows)
