# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plot of a load on inference servers and of their number, over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..kpi.point_data import ENDED, INTENDED, NoFigure, PointData
from ..kpi.request_functions import LAST, requests_succeeded, requests_within_slo
from ..kpi.scale_functions import Step, desired_servers, ready_servers, watched_changes
from . import plot_canvas
from .plot_canvas import COLOURS, PlotDrawing

#: Bins of the rates, along the time.
BINS = 60


def draw_servers_over_time(data: PointData, label: str) -> PlotDrawing | None:
    """Draw the rates of requests that were due, answered and late, and the numbers of servers wanted and ready.

    Returns None unless the servers were watched from the begin of the load to its end.
    """
    np = data.np
    try:
        changes = watched_changes(data)
    except NoFigure:
        return None
    if not data.of:
        return None
    good = requests_succeeded(data)
    try:
        kept, _share, text = requests_within_slo(data)
    except NoFigure:
        kept, text = good, ""
    due, ended = data.stage_bounds(INTENDED)[0], data.stage_midpoints(ENDED)
    last = max(float(np.nanmax(due)), float(np.nanmax(np.where(np.isnan(ended), 0.0, ended))), 1.0)
    edges = np.linspace(0.0, last, BINS + 1)
    width = last / BINS
    rates = {"due": due, "answered": ended[good], f"due, and missed {text}" if text else "due, and failed": due[~kept]}
    figure, (above, below) = plot_canvas.create_stacked_axes(
        [1.6, 1.3], top=0.45, gap=0.2, bottom=0.62 + plot_canvas.legend_height(5, 2)
    )
    factor, unit = plot_canvas.time_axis(last)
    table: list[list[Any]] = []
    for (name, moments), colour in zip(rates.items(), COLOURS, strict=False):
        counts, _edges = np.histogram(moments, bins=edges)
        above.stairs(counts / width, edges * factor, color=colour, linewidth=1.4, label=name)
        table += [
            [f"rate_{name.split(',')[0]}" if "," not in name else "rate_missed", float(begin), float(count / width)]
            for begin, count in zip(edges, counts, strict=False)
        ]
    above.set_ylabel("requests/s")
    above.tick_params(labelbottom=False)
    most = 1
    texts = []
    for name, steps, colour in (
        ("servers wanted", desired_servers(changes), COLOURS[3]),
        ("servers ready", ready_servers(changes), COLOURS[4]),
    ):
        if not steps:
            continue
        moments, numbers = _stairs(steps, last)
        below.step([moment * factor for moment in moments], numbers, where="post", color=colour, label=name)
        above.plot([], [], color=colour, label=name)  # one legend for both
        most = max(most, *numbers)
        texts.append(f"{name}: {numbers[0]} at first, {max(numbers)} at most, {numbers[-1]} at the end.")
        table += [[name.replace(" ", "_"), moment, number] for moment, number in zip(moments, numbers, strict=True)]
    below.set_ylim(0, most + 0.5)
    below.set_ylabel("servers")
    for axis in (above, below):
        axis.set_xlim(0, last * factor)
    below.set_xlabel(f"time since the start of the load ({unit})")
    plot_canvas.draw_bottom_legend(figure, above, 2)
    simulated = " – SIMULATED" if data.is_simulated(LAST) else ""
    title = plot_canvas.title_with_label(f"Load and number of servers{simulated}", label)
    plot_canvas.draw_figure_title(figure, title)
    missed = f"{formats.format_count(int((~kept).sum()), 'request')} of {data.of:,} missed the objective or failed."
    return PlotDrawing(figure, title, f"{title}. {' '.join([*texts, missed])}", ["what", "from_s", "value"], table)


def _stairs(steps: Sequence[Step], last: float) -> tuple[list[float], list[int]]:
    """Return the moments of the steps in the load, with its begin and end, and the numbers from there on."""
    moments, numbers = [0.0], [0]
    for (_since, at), count in steps:
        if at <= 0.0:
            numbers[0] = count
        elif at <= last:
            moments.append(at)
            numbers.append(count)
    return [*moments, last], [*numbers, numbers[-1]]
