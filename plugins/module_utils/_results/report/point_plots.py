# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plots of a point, each as a PNG file and a CSV file with its data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..kpi.point_data import PointData
from . import plot_canvas
from .duration_plots import distributions, durations
from .loss_plot import loss
from .metrics_plot import metrics
from .plot_canvas import PlotFile
from .plotted_stages import Drawing
from .progress_plots import counts, occupancy
from .saturation_plot import saturation
from .waterfall_plot import waterfall
from .workload_raster_plot import raster

#: In the order of the page.
FUNCTIONS: dict[str, Callable[[PointData, str, float], Drawing | None]] = {
    # First, because it is the purpose of a load in steps; other loads have none.
    "saturation": lambda data, label, gpus: saturation(data, label),
    "counts": lambda data, label, gpus: counts(data, label),
    "raster": lambda data, label, gpus: raster(data, label),
    "waterfall": lambda data, label, gpus: waterfall(data, label),
    "occupancy": occupancy,
    "distributions": lambda data, label, gpus: distributions(data, label),
    "durations": lambda data, label, gpus: durations(data, label),
    "loss": lambda data, label, gpus: loss(data, label),
    "metrics": lambda data, label, gpus: metrics(data, label),
}
#: The slowest first, so that all processors finish at about the same time.
LONGEST_FIRST = (
    "durations",
    "distributions",
    "raster",
    "waterfall",
    "counts",
    "occupancy",
    "saturation",
    "metrics",
    "loss",
)


def draw(data: PointData, name: str, path: Path, label: str = "", gpus: float = 0) -> PlotFile | None:
    """Draw one plot of a point as <path>.png and <path>.csv; None without data for it.

    label: the point if there are several, and the selection. gpus: number of GPUs of the cluster.
    """
    with plot_canvas.style():
        drawing = FUNCTIONS[name](data, label, gpus)
        return plot_canvas.write(drawing, path) if drawing is not None else None
