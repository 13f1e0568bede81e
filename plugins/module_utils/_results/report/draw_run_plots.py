# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws all plots of a run: those of each point in parallel, and those across its points."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ProcessPool
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import timeline_views
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Run
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

from ..judge import headline
from ..kpi import read_point_data
from ..kpi.point_data import PointData
from . import matrix_plots, plot_canvas, setting_effect_plots
from .failure_plots import draw_failed_ranks, draw_use_of_gpu_seconds
from .metric_and_loss_plots import draw_captured_metrics, draw_training_loss
from .placement_and_queue_plots import draw_placement, draw_queue_shares
from .plot_canvas import PlotDrawing, PlotFile
from .progress_plots import draw_cluster_occupancy, draw_workload_counts, draw_workload_stage_raster
from .request_plots import draw_example_requests, draw_rate_against_latency, draw_rates_and_servers, draw_token_gaps
from .stage_duration_plots import (
    draw_point_latency_waterfall,
    draw_saturation_curves,
    draw_stage_distributions,
    draw_stage_durations_by_workload,
)

#: In the order of the page.
POINT_PLOTS: dict[str, Callable[[PointData, str, float], PlotDrawing | None]] = {
    # First, because it is the purpose of a load in steps; other loads have none.
    "rate": lambda data, label, gpus: draw_rate_against_latency(data, label),
    "saturation": lambda data, label, gpus: draw_saturation_curves(data, label),
    "servers": lambda data, label, gpus: draw_rates_and_servers(data, label),
    "requests": lambda data, label, gpus: draw_example_requests(data, label),
    "gaps": lambda data, label, gpus: draw_token_gaps(data, label),
    "ranks": lambda data, label, gpus: draw_failed_ranks(data, label),
    "gpu_seconds": lambda data, label, gpus: draw_use_of_gpu_seconds(data, label),
    "counts": lambda data, label, gpus: draw_workload_counts(data, label),
    "raster": lambda data, label, gpus: draw_workload_stage_raster(data, label),
    "waterfall": lambda data, label, gpus: draw_point_latency_waterfall(data, label),
    "occupancy": draw_cluster_occupancy,
    "shares": lambda data, label, gpus: draw_queue_shares(data, label),
    "placement": lambda data, label, gpus: draw_placement(data, label),
    "distributions": lambda data, label, gpus: draw_stage_distributions(data, label),
    "durations": lambda data, label, gpus: draw_stage_durations_by_workload(data, label),
    "loss": lambda data, label, gpus: draw_training_loss(data, label),
    "metrics": lambda data, label, gpus: draw_captured_metrics(data, label),
}
#: The slowest first, so that all processors finish at about the same time.
LONGEST_FIRST = (
    "ranks",
    "gpu_seconds",
    "placement",
    "shares",
    "durations",
    "distributions",
    "raster",
    "waterfall",
    "counts",
    "occupancy",
    "saturation",
    "rate",
    "servers",
    "gaps",
    "requests",
    "metrics",
    "loss",
)
#: What follows the number of a point: nothing, or the nodes of the workloads that are drawn.
SUFFIXES = ("", f"-{timeline_views.REAL}", f"-{timeline_views.SIMULATED}")
#: Whether to draw confidence bands. The benchmark turns them off, to time drawing without resampling.
BANDS = True
#: Data of the points for the worker processes, which are forked so that it is not copied.
_DRAWN_FROM: dict[str, PointData] = {}
Job = tuple[str, str, Path, str, float]


def draw_point_plot(data: PointData, name: str, path: Path, label: str = "", gpus: float = 0) -> PlotFile | None:
    """Draw one plot of a point as <path>.png and <path>.csv; None without data for it.

    label: the point if there are several, and the selection. gpus: number of GPUs of the cluster.
    """
    with plot_canvas.plot_style_context():
        drawing = POINT_PLOTS[name](data, label, gpus)
        return plot_canvas.write_png_and_csv(drawing, path) if drawing is not None else None


def plot_label_of_point(point: Mapping[str, Any], table: TimelineTable | None) -> str:
    """Return the second part of a plot's title: the point, and the selection of workloads."""
    selection = table.header.get("selection") if table is not None else None
    return ", ".join(
        part for part in (point["label"] if point["several"] else "", selection and selection["text"]) if part
    )


def draw_plots_of_points(
    run: Run, tables: Mapping[str, TimelineTable | None], folder: Path, labels: Mapping[str, str], notes: list[str]
) -> dict[str, list[PlotFile]]:
    """Return point number -> plots, drawn in parallel, since each takes some tenths of a second."""
    gpus = float((run.clusters.get("sutest") or {}).get("gpus") or 0)
    points = {point.number: point for point in run.points}
    jobs = []
    for number, table in tables.items():
        if table is None or not len(table):
            continue
        point = points[number]
        extras = read_point_data.extras_for_plots(run, point, table, notes)
        for suffix, part in _real_and_simulated_tables(table):
            _DRAWN_FROM[number + suffix] = PointData(
                part, read_point_data.extras_of_selected_workloads(extras, part), resample=BANDS
            )
            nodes = f"on {suffix[1:]} nodes" if suffix else ""
            label = ", ".join(part for part in (labels.get(number, ""), nodes) if part)
            prefix = number + suffix.replace("-", "_")
            jobs += [(number + suffix, name, folder / f"{prefix}_{name}", label, gpus) for name in LONGEST_FIRST]
    try:
        results = _on_all_processors(jobs)
    finally:
        _DRAWN_FROM.clear()
    drawn: dict[str, dict[str, PlotFile]] = {}
    for (number, name, *_rest), (plot, trouble) in zip(jobs, results, strict=True):
        if plot is not None:
            drawn.setdefault(number, {})[name] = plot
        if trouble and trouble not in notes:
            notes.append(trouble)
    return {
        number: [
            plots[name]
            for suffix in SUFFIXES
            if (plots := drawn.get(number + suffix))
            for name in POINT_PLOTS
            if name in plots
        ]
        for number in tables
    }


def _real_and_simulated_tables(table: TimelineTable) -> list[tuple[str, TimelineTable]]:
    """Return the tables of a point that are drawn: workloads on real and on simulated nodes are kept apart."""
    parts = timeline_views.split_real_simulated(table)
    return list(zip(SUFFIXES[1:], parts, strict=True)) if parts else [("", table)]


def _on_all_processors(jobs: Sequence[Job]) -> list[tuple[PlotFile | None, str]]:
    processes = min(len(jobs), os.cpu_count() or 1)
    if processes <= 1:
        return [_draw_plot_or_error(job) for job in jobs]
    with contextlib.suppress(ImportError):
        plot_canvas.import_drawing_libraries()  # once here, not in each process
    with ProcessPool(processes) as pool:
        return list(pool.map(_draw_plot_or_error, jobs))


def _draw_plot_or_error(job: Job) -> tuple[PlotFile | None, str]:
    """Return a plot, or why it failed: a failing plot must not make the report fail."""
    number, name, path, label, gpus = job
    try:
        return draw_point_plot(_DRAWN_FROM[number], name, path, label, gpus), ""
    except ImportError as error:
        return None, f"no plots: {error.name} is not installed"
    except Exception as error:  # any exception of a drawing library on unusual data
        return None, f"plot {name} of point {number} could not be drawn: {type(error).__name__}: {error}"


def draw_plots_across_points(run: Run, content: Mapping[str, Any], folder: Path, notes: list[str]) -> list[PlotFile]:
    labels = [point["label"] for point in content["points"]]
    numbers = [point["number"] for point in content["points"]]
    # Those of the verdict are of the attempts that count; here each attempt has its figures.
    figures = headline.headline_figures(run.points) or content["headline"]

    def points() -> list[PlotFile]:
        varied = matrix_plots.grid_of_matrix([point.settings for point in run.points], numbers)
        if varied is not None:
            return matrix_plots.draw_figure_heatmaps(figures, varied, folder)
        return matrix_plots.draw_figure_bars_over_points(figures, labels, numbers, folder)

    drawn = _unless_broken("plots across points", points, notes)

    def effects() -> list[PlotFile]:
        trainings = setting_effect_plots.draw_setting_effects(run.points, folder)
        return trainings or setting_effect_plots.draw_setting_effects_over_seeds(figures, run.points, folder)

    return drawn + _unless_broken("effects of settings", effects, notes)


def _unless_broken(what: str, draw: Callable[[], list[PlotFile]], notes: list[str]) -> list[PlotFile]:
    with contextlib.suppress(ImportError), plot_canvas.note_failed_plots(what, notes):
        return draw()
    return []  # if a library is missing, the plots of the points report it
