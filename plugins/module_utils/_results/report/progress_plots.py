# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots of workload counts over time: progress by stage, queue, GPUs in use."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..kpi.point_data import ENDED, INTENDED, SENT, PointData
from ..kpi.timeline_functions import level
from . import plot_canvas
from .plot_canvas import COLOURS, GREY, stage_title
from .plotted_stages import RUNNING, SCHEDULED, Drawing, stage_colours, time_axis


def counts(data: PointData, label: str) -> Drawing | None:
    """Draw the cumulative number of workloads per stage, and the numbers open and running, over time."""
    curves = _curves(data)
    if not curves:
        return None
    from matplotlib.patches import Patch

    np = data.np
    stop = max(data.end - data.start, max(float(values[-1]) for _name, values, _simulated in curves))
    factor, unit = time_axis(stop)
    blind = bool(data.table.header["gaps"])
    figure, (upper, lower) = plot_canvas.stacked(
        [2.9, 1.7], top=0.42, gap=0.22, bottom=0.6 + plot_canvas.legend_height(9, 3)
    )
    texts: list[str] = []
    rows: list[list[Any]] = []
    due = data.span(INTENDED)[0]
    due = np.sort(due[~np.isnan(due)])
    for number, (name, values, simulated) in enumerate([("due", due, False), *curves] if len(due) else curves):
        moments, ranks = plot_canvas.thinned(np, values)
        rows += [[name, moment, rank] for moment, rank in zip(moments, ranks, strict=True)]
        upper.step(
            np.concatenate([[min(0.0, float(values[0]))], moments, [stop]]) * factor,
            np.concatenate([[0], ranks, [len(values)]]),
            where="post",
            color="#999999" if name == "due" else stage_colours(data).get(name, COLOURS[0]),
            linestyle=":" if name == "due" else "--" if simulated else "-",
            linewidth=max(3.6 - 0.5 * number, 1.5),  # earlier curves remain visible below later ones
            label=stage_title(name, simulated),
        )
        if name != "due":
            texts.append(
                f"{stage_title(name, simulated)}: {len(values):,} of {data.of:,}, last after "
                f"{formats.seconds(float(values[-1]))}."
            )
    upper.axhline(data.of, color=GREY, linewidth=0.8)
    upper.set_ylabel("workloads so far")
    upper.set_ylim(0, data.of * 1.06)
    areas = _open(data, lower, factor, stop, texts, rows)
    lower.set_ylabel("at that moment")
    lower.set_xlabel(f"time since the start of the load ({unit})")
    lower.set_ylim(bottom=0)
    for axis in (upper, lower):
        plot_canvas.whole(axis.yaxis)
        axis.set_xlim(-0.02 * stop * factor, 1.02 * stop * factor)
    upper.tick_params(labelbottom=False)
    plot_canvas.gaps(data, (upper, lower), factor)
    plot_canvas.legend(
        figure, upper, 3, [*areas, *([Patch(color="#BBBBBB", alpha=0.6, label="gap in the watch")] if blind else [])]
    )
    title = plot_canvas.titled("Workloads over time", label)
    plot_canvas.heading(figure, title)
    return Drawing(figure, title, f"{title}. {' '.join(texts)}", ["curve", "since_start_s", "workloads"], rows)


def _curves(data: PointData) -> list[tuple[str, Any, bool]]:
    """Return (name, sorted times, simulated) of each curve, in the order of the stages."""
    np = data.np
    found = []
    for name in (SENT, "created", data.pick(SCHEDULED), data.pick(RUNNING), data.pick(ENDED)):
        if name is None or not data.knows(name) or not data.of:
            continue
        values = data.middle(name)
        values = np.sort(values[~np.isnan(values)])
        if len(values):
            found.append((name, values, name != SENT and data.simulated(name)))
    return found


def _open(data: PointData, axis: Any, factor: float, stop: float, texts: list[str], rows: list[list[Any]]) -> list[Any]:
    """Draw the numbers of open (created, not ended) and running workloads; return the areas for the legend."""
    areas = []
    for name, begin in (("open now", data.pick("created")), ("running now", data.pick(RUNNING))):
        if begin is None:
            continue
        simulated = data.knows(ENDED) and data.simulated(ENDED, begin)
        found = _area(
            data, axis, (begin, ENDED), (factor, stop), stage_colours(data).get(begin, COLOURS[0]), name, simulated
        )
        if found is None:
            continue
        area, most, steps = found
        areas.append(area)
        rows += [[name, *step] for step in steps]
        texts.append(f"At most {int(most):,} {name.split()[0]} at once.")
    return areas


def _area(
    data: PointData,
    axis: Any,
    stages: tuple[str, str],
    extent: tuple[float, float],
    colour: str,
    label: str,
    simulated: bool,
    weight: Any = None,
) -> tuple[Any, float, list[list[float]]] | None:
    """Draw the number (or ``weight``) of workloads between two stages; return area, maximum and steps."""
    np = data.np
    until = data.middle(stages[1]) if data.knows(stages[1]) else np.full(data.of, np.nan)
    moments, levels = level(data, data.middle(stages[0]), until, weight)
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
        label=stage_title(label, bool(simulated)),
    )
    return area, float(levels.max()), np.column_stack([x, y]).tolist()


def occupancy(data: PointData, label: str, cluster_gpus: float = 0) -> Drawing | None:
    """Draw the numbers of workloads waiting for a node and for running, and of GPUs held and in use, over time."""
    scheduled, running = data.pick(SCHEDULED), data.pick(RUNNING)
    if scheduled is None or running is None or not data.knows("created") or not data.knows(ENDED):
        return None
    stop = max(data.end - data.start, 0.001)
    factor, unit = time_axis(stop)
    gpus = data.np.asarray(data.table.gpus, dtype=float)
    wanted = [
        (0, "waiting for a node", ("created", scheduled), None, "#E69F00"),
        (0, "on a node, not running yet", (scheduled, running), None, "#56B4E9"),
    ]
    if gpus.any():
        wanted += [
            (1, "GPUs held", (scheduled, ENDED), gpus, "#999999"),
            (1, "GPUs of running workloads", (running, ENDED), gpus, "#009E73"),
        ]
    panels = 1 + bool(gpus.any())
    figure, axes = plot_canvas.stacked([2.0] * panels, top=0.42, gap=0.22, bottom=0.6 + plot_canvas.legend_height(5, 2))
    texts, rows, areas = [], [], []
    for panel, name, stages, weight, colour in wanted:
        simulated = data.simulated(stages[1], stages[0])
        found = _area(data, axes[panel], stages, (factor, stop), colour, name, simulated, weight)
        if found is not None:
            area, most, steps = found
            areas.append(area)
            rows += [[name, *step] for step in steps]
            texts.append(f"{stage_title(name, simulated)}: at most {formats.number(most)}.")
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
        plot_canvas.whole(axis.yaxis)
        axis.set_ylim(bottom=0)
        axis.set_xlim(-0.02 * stop * factor, 1.02 * stop * factor)
        axis.tick_params(labelbottom=axis is axes[-1])
    axes[-1].set_xlabel(f"time since the start of the load ({unit})")
    plot_canvas.gaps(data, axes, factor)
    plot_canvas.legend(figure, None, 2, areas)
    title = plot_canvas.titled("Queue and GPUs over time" if panels == 2 else "Queue over time", label)
    plot_canvas.heading(figure, title)
    return Drawing(figure, title, f"{title}. {' '.join(texts)}", ["curve", "since_start_s", "number"], rows)
