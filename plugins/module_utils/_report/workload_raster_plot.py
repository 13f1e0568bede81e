# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The raster: every workload a line, time to the right, coloured by how far it was. Also of 100,000 workloads.

With more workloads than lines of pixels, neighbours share a line, which shows at each moment the state that most of
them were in. A strip at the right shows each line in which any workload came to a bad end, however many there are.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi.point_data import ENDED, SENT, PointData
from ansible_collections.perfscale.seatrial.plugins.module_utils._report import plot_canvas
from ansible_collections.perfscale.seatrial.plugins.module_utils._report.plot_canvas import shown
from ansible_collections.perfscale.seatrial.plugins.module_utils._report.plotted_stages import (
    StageDrawing,
    axis_of_time,
    colours,
    plot_stages,
)

#: Lines and columns of the picture at most: about one pixel of the file each.
LINES, COLUMNS = 520, 860
#: Bad ends from bad to worse; the worst of a line shows.
BAD = {
    "unsent": "#BBBBBB",
    "deleted": "#882255",
    "unfinished": "#E69F00",
    "lost": "#56B4E9",
    "refused": "#000000",
    "failed": "#D55E00",
}


def raster(data: PointData, label: str) -> StageDrawing | None:
    """Draw the life of every workload."""
    states = _states(data)
    if not states or not data.of:
        return None
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    np = data.np
    stop = max(data.end - data.start, 0.001)
    factor, unit = axis_of_time(stop)
    lines = min(LINES, data.of)
    line_of = np.arange(data.of) * lines // data.of
    most = _modal(data, [moments for _name, moments in states], line_of, lines, stop)
    colour_of = colours(data)
    palette = np.array(
        [(1.0, 1.0, 1.0), *(_tint(to_rgb(colour_of.get(name, plot_canvas.GREY))) for name, _moments in states)]
    )
    ends = [place for place, (name, _moments) in enumerate(states, 1) if name in data.ends()]
    palette[ends] = 0.93  # who has ended is no more than ground
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
        Patch(facecolor=palette[place], edgecolor="#999999", label=_said(name, simulated[name], name in data.ends()))
        for place, (name, _moments) in enumerate(states, 1)
    ]
    handles += [Patch(facecolor=BAD[name], label=f"at the right: {name}") for name in bad]
    plot_canvas.legend(figure, None, 2, handles)
    plot_canvas.gaps(data, [axis], factor)
    title = plot_canvas.titled("Every workload over time", label)
    plot_canvas.heading(figure, title)
    per = f" {lines} lines for {data.of:,} workloads: each shows what most of its {data.of // lines} or so did."
    shared = per if lines < data.of else ""
    told = ", ".join(f"{data.table.outcome.count(name):,} {name}" for name in bad) or "all succeeded"
    alt = f"{title}, one line a workload, coloured by the last stage that it had reached.{shared}"
    columns = [
        "first_index",
        "last_index",
        "workloads",
        *(f"{name}_median_s" for name, _colour in states),
        "worst_outcome",
    ]
    return StageDrawing(figure, title, f"{alt} Ends: {told}.", columns, _rows(data, states, line_of, lines))


def _said(name: str, simulated: bool, ends: bool) -> str:
    return shown("ended" if ends else name, simulated)


def _states(data: PointData) -> list[tuple[str, Any]]:
    """Return what a workload goes through: name, and when each workload came into it or into a later one."""
    np = data.np
    names = [SENT, *plot_stages(data)]
    moments = {name: data.middle(name) for name in names}
    usual = {name: float(np.nanmedian(values)) for name, values in moments.items() if not np.isnan(values).all()}
    ends = data.ends()
    order = sorted(usual, key=lambda name: (name != SENT, name in ends, usual[name]))
    found = [(name, moments[name]) for name in order]
    if found and found[-1][0] in ends:
        found[-1] = (found[-1][0], data.middle(ENDED))  # also who failed is no longer in the state before
    for place in range(len(found) - 2, -1, -1):
        name, own = found[place]
        found[place] = (name, np.fmin(own, found[place + 1][1]))
    return found


def _modal(data: PointData, moments: list[Any], line_of: Any, lines: int, stop: float) -> Any:
    """Return [line, column] of the state that most workloads of a line were in; 0 is before all of them."""
    np = data.np
    width = stop / COLUMNS
    size = np.bincount(line_of, minlength=lines)[:, None]
    reached = [np.broadcast_to(size, (lines, COLUMNS))]
    for values in moments:
        known = ~np.isnan(values)
        column = np.clip((values[known] / width).astype(int), 0, COLUMNS - 1)
        came = np.bincount(line_of[known] * COLUMNS + column, minlength=lines * COLUMNS).reshape(lines, COLUMNS)
        reached.append(np.cumsum(came, axis=1))
    reached.append(np.zeros((lines, COLUMNS), dtype=int))
    inside = np.array([reached[place] - reached[place + 1] for place in range(len(reached) - 1)])
    return inside.argmax(axis=0)


def _tint(rgb: tuple[float, float, float]) -> tuple[float, ...]:
    """Let black be seen as a state and not as a hole."""
    return tuple(0.25 + 0.75 * part for part in rgb) if sum(rgb) < 0.3 else rgb


def _worst(data: PointData, line_of: Any, lines: int) -> Any:
    np = data.np
    rank = {name: place for place, name in enumerate(BAD, 1)}
    worst = np.zeros(lines, dtype=int)
    np.maximum.at(worst, line_of, np.array([rank.get(one, 0) for one in data.table.outcome]))
    return worst


def _strip(data: PointData, figure: Any, axis: Any, line_of: Any, lines: int) -> list[str]:
    """Draw the strip of bad ends beside the raster; return which of them there are."""
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


def _rows(data: PointData, states: list[tuple[str, Any]], line_of: Any, lines: int) -> list[list[Any]]:
    """The rows of the CSV file, one a line of the picture; timeline.csv has every single workload."""
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
