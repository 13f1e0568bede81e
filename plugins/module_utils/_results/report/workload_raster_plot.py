# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Raster plot: one line per workload over time, coloured by its stage; up to 100,000 workloads.

With more workloads than lines, neighbours share a line, which shows the stage of most of them at each moment. A strip
at the right marks each line in which any workload did not succeed.
"""

from __future__ import annotations

from typing import Any

from ..kpi.point_data import ENDED, SENT, PointData
from . import plot_canvas
from .plot_canvas import stage_title
from .plotted_stages import Drawing, plot_stages, stage_colours, time_axis

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


def raster(data: PointData, label: str) -> Drawing | None:
    """Draw the stages of every workload over time."""
    states = _states(data)
    if not states or not data.of:
        return None
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    np = data.np
    stop = max(data.end - data.start, 0.001)
    factor, unit = time_axis(stop)
    lines = min(RASTER_LINES, data.of)
    line_of = np.arange(data.of) * lines // data.of
    most = _modal(data, [moments for _name, moments in states], line_of, lines, stop)
    colour_of = stage_colours(data)
    palette = np.array(
        [(1.0, 1.0, 1.0), *(_tint(to_rgb(colour_of.get(name, plot_canvas.GREY))) for name, _moments in states)]
    )
    ends = [place for place, (name, _moments) in enumerate(states, 1) if name in data.ends()]
    palette[ends] = 0.93  # ended workloads are drawn as background
    figure, (axis,) = plot_canvas.stacked(
        [4.6], top=0.42, gap=0, bottom=0.6 + plot_canvas.legend_height(len(states) + 3, 2)
    )
    extent = (0, stop * factor, data.of - 0.5, -0.5)
    axis.imshow(palette[most], extent=extent, aspect="auto", interpolation="nearest")
    axis.grid(visible=False)
    bad = _strip(data, figure, axis, line_of, lines)
    plot_canvas.whole(axis.yaxis)
    axis.set_ylabel("workload, in the order of submission")
    axis.set_xlabel(f"time since the start of the load ({unit})")
    simulated = {name: name != SENT and data.simulated(name) for name, _moments in states}
    handles = [
        Patch(
            facecolor=palette[place],
            edgecolor="#999999",
            label=stage_title("ended" if name in data.ends() else name, simulated[name]),
        )
        for place, (name, _moments) in enumerate(states, 1)
    ]
    handles += [Patch(facecolor=BAD[name], label=f"at the right: {name}") for name in bad]
    plot_canvas.legend(figure, None, 2, handles)
    plot_canvas.gaps(data, [axis], factor)
    title = plot_canvas.titled("Every workload over time", label)
    plot_canvas.heading(figure, title)
    per = f" {lines} lines for {data.of:,} workloads, each with the stage of most of its about {data.of // lines}."
    shared = per if lines < data.of else ""
    outcomes = ", ".join(f"{data.table.outcome.count(name):,} {name}" for name in bad) or "all succeeded"
    alt = f"{title}, one line per workload, coloured by the last stage reached.{shared}"
    columns = [
        "first_index",
        "last_index",
        "workloads",
        *(f"{name}_median_s" for name, _colour in states),
        "worst_outcome",
    ]
    return Drawing(figure, title, f"{alt} Outcomes: {outcomes}.", columns, _raster_rows(data, states, line_of, lines))


def _states(data: PointData) -> list[tuple[str, Any]]:
    """Return the states: name, and array (rows,) of when each workload entered it or a later one."""
    np = data.np
    names = [SENT, *plot_stages(data)]
    moments = {name: data.middle(name) for name in names}
    usual = {name: float(np.nanmedian(values)) for name, values in moments.items() if not np.isnan(values).all()}
    ends = data.ends()
    order = sorted(usual, key=lambda name: (name != SENT, name in ends, usual[name]))
    found = [(name, moments[name]) for name in order]
    if found and found[-1][0] in ends:
        found[-1] = (found[-1][0], data.middle(ENDED))  # failed workloads leave the state before, too
    for place in range(len(found) - 2, -1, -1):
        name, own = found[place]
        found[place] = (name, np.fmin(own, found[place + 1][1]))
    return found


def _modal(data: PointData, moments: list[Any], line_of: Any, lines: int, stop: float) -> Any:
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


def _tint(rgb: tuple[float, float, float]) -> tuple[float, ...]:
    """Return black as dark grey, so that it does not look like a gap."""
    return tuple(0.25 + 0.75 * part for part in rgb) if sum(rgb) < 0.3 else rgb


def _worst(data: PointData, line_of: Any, lines: int) -> Any:
    np = data.np
    rank = {name: place for place, name in enumerate(BAD, 1)}
    worst = np.zeros(lines, dtype=int)
    np.maximum.at(worst, line_of, np.array([rank.get(one, 0) for one in data.table.outcome]))
    return worst


def _strip(data: PointData, figure: Any, axis: Any, line_of: Any, lines: int) -> list[str]:
    """Draw the strip of bad outcomes beside the raster; return those that occur."""
    worst = _worst(data, line_of, lines)
    there = set(data.table.outcome)
    if worst.any():
        from matplotlib.colors import to_rgb

        palette = data.np.array([(1.0, 1.0, 1.0), *(to_rgb(one) for one in BAD.values())])
        place = axis.get_position()
        strip = figure.add_axes((place.x1 + 0.004, place.y0, 0.018, place.height))
        strip.imshow(palette[worst][:, None, :], aspect="auto", interpolation="nearest")
        strip.set_axis_off()
    return [name for name in BAD if name in there]


def _raster_rows(data: PointData, states: list[tuple[str, Any]], line_of: Any, lines: int) -> list[list[Any]]:
    """Return the rows of the CSV file, one per line of the plot; timeline.csv has every workload."""
    np = data.np
    worst, names = _worst(data, line_of, lines), ["", *BAD]
    edges = np.searchsorted(line_of, np.arange(lines + 1))
    rows = []
    for line in range(lines):
        part = slice(edges[line], edges[line + 1])
        medians = [_median(np, moments[part]) for _name, moments in states]
        first, last = data.table.index[part.start], data.table.index[part.stop - 1]
        rows.append([first, last, int(part.stop - part.start), *medians, names[worst[line]] or "succeeded"])
    return rows


def _median(np: Any, values: Any) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else None
