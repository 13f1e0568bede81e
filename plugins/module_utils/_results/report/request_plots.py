# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots of requests to inference servers: rate against latency, single requests token by token, gaps over time.

The number of servers is drawn with the load on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..kpi.autoscaling_functions import Step, desired_servers_over_time, ready_servers_over_time, watched_changes
from ..kpi.censored_quantiles import LEAST_ROWS, BootstrapResampling, DurationSample, percentile_interval
from ..kpi.knee_and_capacity_functions import rows_by_step
from ..kpi.point_data import ENDED, INTENDED, SENT, NoFigure, PointData
from ..kpi.request_functions import FIRST, LAST, request_seconds, requests_succeeded, requests_within_slo
from . import plot_canvas
from .plot_canvas import COLOURS, GREY, PlotDrawing

#: Bins of the plot of gaps: along the time, along the gap.
COLUMNS, ROWS = 60, 40
#: The requests that are drawn token by token: by the order of their time to first token.
DRAWN = ((0.5, "median"), (0.95, "P95"), (1.0, "slowest"))
#: Figure of a request -> quantile that is drawn.
LATENCIES = (("ttft", 0.5), ("ttft", 0.95), ("tpot", 0.95))
NAMES = {"ttft": "time to first token", "tpot": "time per output token"}


def _title(data: PointData, text: str, label: str) -> str:
    return plot_canvas.title_with_label(f"{text}{' – SIMULATED' if data.is_simulated(LAST) else ''}", label)


def draw_rate_against_latency(data: PointData, label: str) -> PlotDrawing | None:
    """Draw latencies and the share within the objective over the rate of a load in steps, with 95 % intervals."""
    np = data.np
    if data.extras.requests is None:
        return None
    good = requests_succeeded(data)
    steps = rows_by_step(data)
    if len(steps) < 2:
        return None
    rates = [rate for rate, _rows in steps]
    figure, (above, below) = plot_canvas.create_stacked_axes(
        [2.0, 1.1], top=0.45, gap=0.2, bottom=0.62 + plot_canvas.legend_height(3, 1)
    )
    table: list[list[Any]] = []
    texts = []
    for (name, q), colour in zip(LATENCIES, COLOURS, strict=False):
        seconds = np.where(good, request_seconds(data, name), np.nan)
        points = [_quantile_with_interval(data, seconds[rows], q) for _rate, rows in steps]
        known = [(rate, point) for rate, point in zip(rates, points, strict=True) if point is not None]
        if not known:
            continue
        along = [rate for rate, _point in known]
        values = [point[0] for _rate, point in known]
        title = f"{NAMES[name]}, P{100 * q:.0f}"
        above.plot(along, values, color=colour, marker="o", markersize=4, label=title)
        above.vlines(along, [p[1] for _rate, p in known], [p[2] for _rate, p in known], color=colour, linewidth=1.6)
        texts.append(
            f"{title}: {formats.format_duration(values[0])} at {formats.format_number(along[0])}/s, "
            f"{formats.format_duration(values[-1])} at {formats.format_number(along[-1])}/s."
        )
        table += [[f"{name}_p{100 * q:.0f}_s", rate, *point] for rate, point in known]
    above.set_yscale("log")
    plot_canvas.format_axis_as_durations(above.yaxis)
    above.tick_params(labelbottom=False)
    _draw_shares_within_slo(data, below, steps, table)
    for axis in (above, below):
        axis.set_xlim(0, 1.05 * rates[-1])
    below.set_xlabel("requests due per second; bars: 95 %")
    plot_canvas.draw_bottom_legend(figure, above, 1)
    title = _title(data, "Rate against latency", label)
    plot_canvas.draw_figure_title(figure, title)
    return PlotDrawing(
        figure, title, f"{title}. {' '.join(texts)}", ["figure", "rate_per_s", "value", "low", "high"], table
    )


def _quantile_with_interval(data: PointData, seconds: Any, q: float) -> tuple[float, float, float] | None:
    """Return a quantile of durations and its interval; None if it is unknown. Without a duration: slower than all."""
    sample = DurationSample(seconds, seconds, seconds, data.np.zeros(len(seconds)))
    value = sample.quantile(q).value
    if value is None:
        return None
    if len(seconds) < LEAST_ROWS:
        return value, value, value
    drawing = BootstrapResampling(len(seconds), samples=200)
    interval = percentile_interval(drawing.quantiles(sample, [q])[:, 0], value, "")
    low = value if interval is None or interval.low is None else interval.low
    high = value if interval is None or interval.high is None else interval.high
    return value, low, high


def _draw_shares_within_slo(data: PointData, axis: Any, steps: list[tuple[float, Any]], table: list[list[Any]]) -> None:
    """Draw the share of each step that kept the objective, or that succeeded if there is none."""
    np = data.np
    try:
        kept, share, text = requests_within_slo(data)
    except NoFigure:
        kept, share, text = requests_succeeded(data), None, "succeeded"
    for rate, rows in steps:
        value = low = high = float(kept[rows].mean())
        if len(rows) >= LEAST_ROWS:
            means = BootstrapResampling(len(rows), samples=200).means(kept[rows].astype(float))
            low, high = (float(bound) for bound in np.quantile(means, (0.025, 0.975)))
        axis.plot([rate], [100 * value], "o", color=COLOURS[4], markersize=4)
        axis.vlines([rate], [100 * low], [100 * high], color=COLOURS[4], linewidth=1.6)
        table.append(["share_percent", rate, 100 * value, 100 * low, 100 * high])
    axis.plot([r for r, _rows in steps], [100 * float(kept[rows].mean()) for _r, rows in steps], color=COLOURS[4])
    if share is not None:
        axis.axhline(100 * share, color=GREY, linestyle=":", linewidth=1.2)
    axis.set_ylim(-4, 104)
    axis.set_ylabel("%")
    axis.set_title(f"within {text}" if share is not None else text, loc="right", fontsize=9.5, color=GREY, pad=2)


def draw_example_requests(data: PointData, label: str) -> PlotDrawing | None:
    """Draw single requests: when each was due, sent, answered, and each of its chunks."""
    np = data.np
    if data.extras.requests is None:
        return None
    figures = data.extras.requests()
    first = request_seconds(data, "ttft")
    rows = np.flatnonzero(requests_succeeded(data) & ~np.isnan(first))
    if not len(rows):
        return None
    ordered = rows[np.argsort(first[rows])]
    chosen = {int(ordered[min(len(ordered) - 1, int(q * len(ordered)))]): name for q, name in DRAWN}
    figure, (axis,) = plot_canvas.create_stacked_axes(
        [0.5 * len(chosen) + 0.2], top=0.45, gap=0, bottom=0.62 + plot_canvas.legend_height(4, 4)
    )
    due = data.stage_bounds(INTENDED)[0]
    longest = max(float(data.stage_midpoints(ENDED)[row] - due[row]) for row in chosen)
    factor, unit = plot_canvas.duration_scale_and_unit(longest)
    table: list[list[Any]] = []
    for place, (row, name) in enumerate(chosen.items()):
        moments = {
            stage: float(data.stage_midpoints(stage)[row] - due[row]) for stage in (SENT, "headers", FIRST, LAST)
        }
        tokens = np.concatenate([[0.0], figures.gap_end[figures.gap_row == row]]) + moments[FIRST]
        parts = (
            ("due to sent", 0.0, moments[SENT], "#BBBBBB"),
            ("to first token", moments[SENT], moments[FIRST], COLOURS[5]),
        )
        for what, begin, end, colour in parts:
            text = what if not place else None
            axis.barh(place, (end - begin) * factor, left=begin * factor, height=0.5, color=colour, label=text)
        axis.plot(
            [moments["headers"] * factor],
            [place],
            "d",
            color=COLOURS[1],
            markersize=5,
            label=None if place else "headers",
        )
        axis.vlines(
            tokens * factor, place - 0.3, place + 0.3, color=COLOURS[0], linewidth=0.7, label=None if place else "token"
        )
        table += [[name, data.table.index[row], stage, value] for stage, value in moments.items()]
        table += [[name, data.table.index[row], "chunk", float(value)] for value in tokens]
    axis.set_yticks(range(len(chosen)), list(chosen.values()))
    axis.set_ylim(len(chosen) - 0.4, -0.6)
    axis.set_xlabel(f"time since the request was due ({unit})")
    axis.grid(axis="y", visible=False)
    plot_canvas.draw_bottom_legend(figure, axis, 4)
    title = _title(data, "Single requests, by their time to first token", label)
    plot_canvas.draw_figure_title(figure, title)
    texts = [f"{name}: first token after {formats.format_duration(float(first[row]))}." for row, name in chosen.items()]
    return PlotDrawing(
        figure, title, f"{title}. {' '.join(texts)}", ["request", "index", "moment", "since_due_s"], table
    )


def draw_token_gaps(data: PointData, label: str) -> PlotDrawing | None:
    """Draw the gaps between tokens as a heat map: time along the load, length of the gap, number of gaps."""
    np = data.np
    if data.extras.requests is None:
        return None
    figures = data.extras.requests()
    ends = data.stage_midpoints(FIRST)[figures.gap_row] + figures.gap_end
    seen = ~np.isnan(ends)
    gaps, ends = np.maximum(figures.gaps[seen], 1e-5), ends[seen]
    if not len(gaps):
        return None
    from matplotlib.colors import LogNorm

    low, high = float(gaps.min()), float(gaps.max())
    edges = np.geomspace(low / 1.1, high * 1.1, ROWS + 1)
    times = np.linspace(0.0, max(float(ends.max()), 1e-3), COLUMNS + 1)
    counts, _times, _edges = np.histogram2d(ends, gaps, bins=(times, edges))
    figure, (axis,) = plot_canvas.create_stacked_axes([2.2], top=0.45, gap=0, bottom=0.56)
    factor, unit = plot_canvas.factor_and_unit_of_time_axis(float(times[-1]))
    shown = np.ma.masked_equal(counts.T, 0)
    mesh = axis.pcolormesh(
        times * factor, edges, shown, cmap="viridis_r", norm=LogNorm(1, max(2.0, float(counts.max())))
    )
    axis.set_yscale("log")
    plot_canvas.format_axis_as_durations(axis.yaxis)
    axis.set_xlabel(f"time since the start of the load ({unit})")
    axis.set_ylabel("gap")
    left, bottom, width, height = axis.get_position().bounds
    axis.set_position((left, bottom, 0.88 * width, height))
    beside = figure.add_axes((left + 0.9 * width, bottom, 0.025 * width, height))
    # Not matplotlib's own format, which is a formula.
    figure.colorbar(mesh, cax=beside, label="gaps", format=lambda value, _place: formats.format_number(value))
    title = _title(data, "Gaps between tokens", label)
    plot_canvas.draw_figure_title(figure, title)
    median, most = float(np.median(gaps)), high
    alt = (
        f"{title}: {formats.format_count(len(gaps), 'gap')}, median {formats.format_duration(median)}, "
        f"longest {formats.format_duration(most)}."
    )
    table = [
        [float(times[column]), float(edges[row]), float(edges[row + 1]), int(counts[column, row])]
        for column, row in zip(*np.nonzero(counts), strict=True)
    ]
    return PlotDrawing(figure, title, alt, ["from_s", "gap_from_s", "gap_to_s", "gaps"], table)


#: Bins of the rates, along the time.
BINS = 60


def draw_rates_and_servers(data: PointData, label: str) -> PlotDrawing | None:
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
    factor, unit = plot_canvas.factor_and_unit_of_time_axis(last)
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
        ("servers wanted", desired_servers_over_time(changes), COLOURS[3]),
        ("servers ready", ready_servers_over_time(changes), COLOURS[4]),
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
