# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Common parts of the plots of a point: the stages to draw, their colours, and the type of a drawing.

Simulated stages carry SIMULATED in their title or legend and are drawn dashed or hatched, so that they are
recognizable without colour. Up to SINGLE workloads each is drawn with its error bar, more as bands over groups of
neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..kpi.point_data import ENDED, SENT, PointData
from . import plot_canvas
from .plot_canvas import COLOURS, GREY

SINGLE = 400
SCHEDULED, RUNNING = ("pods_scheduled", "scheduled", "admitted"), ("pods_running", "running")


@dataclass(frozen=True)
class Drawing:
    """A matplotlib figure, its title, alternative text, and data (names of columns, rows)."""

    figure: Any
    title: str
    alt: str
    columns: Sequence[str]
    rows: Iterable[Sequence[Any]]


def plot_stages(data: PointData) -> list[str]:
    """Return the stages whose durations are drawn: those reached by any workload, without first pods and failures.

    Of a load that others submitted, without the creation that shows when it was sent.
    """
    return [
        one["name"]
        for one in data.table.stages
        if one["ends"] != "failed"
        and not one["name"].endswith("_first")
        and one["name"] != data.sent_is
        and data.table.seen(one["name"])
    ]


def stage_colours(data: PointData) -> dict[str, str]:
    """Return a unique colour for each stage, the same in all plots of a point."""
    stages = plot_stages(data)
    found = {stage: plot_canvas.USUAL[stage] for stage in stages if stage in plot_canvas.USUAL}
    others = [stage for stage in stages if stage not in found]
    free = (one for one in plot_canvas.shades() if one not in found.values())
    found.update(zip(others, free, strict=False))
    last = next((stage for stage in stages if stage in data.ends()), "")
    return {**found, SENT: GREY, ENDED: found.get(last, COLOURS[1])}


def time_axis(stop: float) -> tuple[float, str]:
    """Return factor and unit of a time axis of ``stop`` seconds."""
    return (1.0, "s") if stop < 600 else plot_canvas.scale(stop)
