# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plots of a point: which there are, each as a PNG file and as the CSV file of the numbers behind it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi.point_data import PointData
from ansible_collections.perfscale.seatrial.plugins.module_utils._report import plot_canvas
from ansible_collections.perfscale.seatrial.plugins.module_utils._report.duration_plots import distributions, durations
from ansible_collections.perfscale.seatrial.plugins.module_utils._report.metrics_plot import metrics
from ansible_collections.perfscale.seatrial.plugins.module_utils._report.plot_canvas import PlotCanvas
from ansible_collections.perfscale.seatrial.plugins.module_utils._report.plotted_stages import StageDrawing
from ansible_collections.perfscale.seatrial.plugins.module_utils._report.progress_plots import counts, occupancy
from ansible_collections.perfscale.seatrial.plugins.module_utils._report.saturation_plot import saturation
from ansible_collections.perfscale.seatrial.plugins.module_utils._report.waterfall_plot import waterfall
from ansible_collections.perfscale.seatrial.plugins.module_utils._report.workload_raster_plot import raster

#: In the order of the page.
FUNCTIONS: dict[str, Callable[[PointData, str, float], StageDrawing | None]] = {
    # Of a load in steps this is what it is run for; there is none of any other.
    "saturation": lambda data, label, gpus: saturation(data, label),
    "counts": lambda data, label, gpus: counts(data, label),
    "raster": lambda data, label, gpus: raster(data, label),
    "waterfall": lambda data, label, gpus: waterfall(data, label),
    "occupancy": occupancy,
    "distributions": lambda data, label, gpus: distributions(data, label),
    "durations": lambda data, label, gpus: durations(data, label),
    "metrics": lambda data, label, gpus: metrics(data, label),
}
#: Those that take longest, first: so that two processors end at about the same time.
LONGEST_FIRST = ("durations", "distributions", "raster", "waterfall", "counts", "occupancy", "saturation", "metrics")


def draw(data: PointData, name: str, path: Path, label: str = "", gpus: float = 0) -> PlotCanvas | None:
    """Draw one plot of a point as <path>.png with a .csv beside it; None when there is no data for it.

    label: the point, when there are several, and what was left out. gpus: of the cluster.
    """
    with plot_canvas.style():
        made = FUNCTIONS[name](data, label, gpus)
        return plot_canvas.write(made, path) if made is not None else None
