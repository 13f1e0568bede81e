# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots of failures that were injected into a load: the pods of its workloads over time, and where GPU-seconds went."""

from __future__ import annotations

from math import inf, isnan
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..kpi.failure_functions import failures_of_point
from ..kpi.point_data import PointData
from ..timeline.failure_recoveries import PointFailures
from ..timeline.pod_lifetimes import midpoint_of_span
from ..timeline.recovery_stages import BLOCKED, CAUSES, REDONE, WAITING, FailingPod
from . import plot_canvas
from .plot_canvas import COLOURS, GREY, PlotDrawing, factor_and_unit_of_time_axis

#: Maximum number of lines of the plot of pods; workloads that failures hit come first.
MOST_RANKS = 96
#: Colour and label of each part of a pod's life, and of the time of its workload in which nothing useful is done.
_LIFE = {
    "scheduled": ("#CCCCCC", "has a node"),
    "running": (COLOURS[5], "runs"),
    "not whole": (COLOURS[1], "not whole"),
}
_FAILURE, _OUTAGE = COLOURS[4], COLOURS[3]
#: Parts of the held GPU-seconds, and their colours.
_STARTING, _USEFUL = "starting", "useful"
_PARTS = {
    _STARTING: ("until pods run", "#CCCCCC"),
    WAITING: ("waiting for replacements", COLOURS[1]),
    BLOCKED: ("blocked beside them", COLOURS[3]),
    REDONE: ("done again", COLOURS[4]),
    _USEFUL: ("useful", COLOURS[2]),
}


def arrange_pods_in_lines(lives: list[FailingPod]) -> list[list[FailingPod]]:
    """Return the pods of a workload in lines: a pod takes the line of the one that has stopped for the longest time."""
    ranks: list[list[FailingPod]] = []
    for pod in sorted(lives, key=lambda pod: midpoint_of_span(pod.created)):
        free = [rank for rank in ranks if rank[-1].stop <= midpoint_of_span(pod.created)]
        if free:
            min(free, key=lambda rank: rank[-1].stop).append(pod)
        else:
            ranks.append([pod])
    return ranks


def draw_failed_ranks(data: PointData, label: str) -> PlotDrawing | None:
    """Draw each pod of the workloads as a line over time, with failures and recoveries; None without failures."""
    failures = failures_of_point(data)
    if failures is None or not failures.lives:
        return None
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    factor, unit = factor_and_unit_of_time_axis(failures.end)
    hit = {recovery.index for recovery in failures.recoveries}
    order = sorted(failures.lives, key=lambda index: (index not in hit, index))
    lines: list[tuple[int, list[FailingPod]]] = []
    for index in order:
        ranks = arrange_pods_in_lines(failures.lives[index])
        if lines and len(lines) + len(ranks) > MOST_RANKS:
            break
        lines += [(index, rank) for rank in ranks]
    height = min(6.5, max(1.6, 0.09 * len(lines)))
    figure, (axis,) = plot_canvas.create_stacked_axes(
        [height], top=0.62, gap=0, bottom=0.6 + plot_canvas.legend_height(6, 3)
    )
    rows: list[list[Any]] = []
    windows = [
        (
            recovery.index,
            midpoint_of_span(recovery.injected),
            min(recovery.idle_until, failures.end),
        )
        for recovery in failures.recoveries
    ]
    for place, (index, rank) in enumerate(lines):
        for pod in rank:
            rows += _draw_life(axis, place, index, pod, failures.end, factor)
        for of, begin, end in windows:
            if of == index:
                axis.barh(place, (end - begin) * factor, left=begin * factor, height=0.36, color=_LIFE["not whole"][0])
    _draw_failures(axis, lines, failures, factor, rows)
    rows += [[index, "", "not whole", begin, end] for index, begin, end in windows]
    axis.set_ylim(len(lines) - 0.4, -0.6)
    axis.set_yticks(*_ticks_of_workloads(lines))
    axis.set_ylabel("pods, by workload")
    axis.set_xlim(0, failures.end * factor)
    axis.set_xlabel(f"time since the start of the load ({unit})")
    axis.grid(axis="y", visible=False)
    handles: list[Any] = [Patch(color=colour, label=text) for colour, text in _LIFE.values()]
    handles.append(Line2D([], [], color=_FAILURE, marker="X", linestyle="none", label="lost to a failure"))
    if failures.outages:
        handles.append(Patch(color=_OUTAGE, alpha=0.3, label="control plane fails"))
    plot_canvas.draw_bottom_legend(figure, None, 3, handles)
    title = plot_canvas.title_with_label(
        "Pods and failures – SIMULATED" if _simulated(data) else "Pods and failures", label
    )
    plot_canvas.draw_figure_title(figure, title)
    left_out = len(failures.lives) - len({index for index, _rank in lines})
    if left_out:
        more = f"and {formats.format_count(left_out, 'workload')} more"
        axis.set_title(more, loc="right", fontsize=8.5, color=GREY)
    alt = (
        f"{title}: {formats.format_count(len(failures.recoveries), 'recovery', 'recoveries')} of"
        f" {formats.format_count(len(hit), 'workload')}, of {len(failures.lives):,} in all;"
        f" {formats.format_count(len(failures.outages), 'failure')} of the control plane."
    )
    return PlotDrawing(figure, title, alt, ["workload", "line", "state", "from_s", "to_s"], rows)


def _draw_life(axis: Any, place: int, index: int, pod: FailingPod, end: float, factor: float) -> list[list[Any]]:
    """Draw one pod; return the rows of the CSV file."""
    stop = min(pod.stop, end)
    running = min(midpoint_of_span(pod.running, inf), stop)
    rows: list[list[Any]] = []
    for state, begin, until in (
        ("scheduled", min(midpoint_of_span(pod.scheduled, inf), running), running),
        ("running", running, stop),
    ):
        if begin < until:
            axis.barh(place, (until - begin) * factor, left=begin * factor, height=0.8, color=_LIFE[state][0])
            rows.append([index, place, state, begin, until])
    return rows


def _draw_failures(
    axis: Any, lines: list[tuple[int, list[FailingPod]]], failures: PointFailures, factor: float, rows: list[list[Any]]
) -> None:
    lost = [
        (midpoint_of_span(pod.lost), place, index)
        for place, (index, rank) in enumerate(lines)
        for pod in rank
        if not isnan(pod.lost[0])
    ]
    size = max(2.0, 5.0 - len(lines) / 30)
    axis.plot(
        [moment * factor for moment, _place, _index in lost],
        [place for _moment, place, _index in lost],
        linestyle="none",
        marker="X",
        markersize=size,
        markeredgewidth=0,
        color=_FAILURE,
        zorder=4,
    )
    rows += [[index, place, "lost", moment, moment] for moment, place, index in lost]
    for outage in failures.outages:
        begin, end = midpoint_of_span(outage.injected), midpoint_of_span(outage.undone, failures.end)
        axis.axvspan(begin * factor, end * factor, color=_OUTAGE, alpha=0.3, linewidth=0)
        rows.append(["", "", f"{outage.kind} of {outage.target}", begin, end])


def _ticks_of_workloads(lines: list[tuple[int, list[FailingPod]]]) -> tuple[list[float], list[str]]:
    """Return places and names of workloads, at most some twenty of them."""
    of: dict[int, list[int]] = {}
    for place, (index, _rank) in enumerate(lines):
        of.setdefault(index, []).append(place)
    named = list(of.items())[:: -(-len(of) // 20) or 1]
    return [sum(places) / len(places) for _index, places in named], [str(index) for index, _places in named]


def draw_use_of_gpu_seconds(data: PointData, label: str) -> PlotDrawing | None:
    """Draw the held GPU-seconds and what became of them, each part where the one before ended; None without any.

    Of pods that hold no GPUs, they are pod-seconds.
    """
    failures = failures_of_point(data)
    if failures is None or failures.held <= 0:
        return None
    seconds = {cause: sum(recovery.lost[cause] for recovery in failures.recoveries) for cause in CAUSES}
    seconds[_USEFUL] = failures.useful
    seconds[_STARTING] = max(0.0, failures.held - sum(seconds.values()))
    figure, (axis,) = plot_canvas.create_stacked_axes([0.3 * (len(_PARTS) + 1) + 0.1], 0.45, 0, 0.6, left=1.9)
    axis.barh(0, failures.held, height=0.72, facecolor="#DDDDDD", edgecolor=GREY)
    begin, rows, texts = 0.0, [["held", failures.held, 1.0]], []
    for place, (part, (name, colour)) in enumerate(_PARTS.items(), start=1):
        share = seconds[part] / failures.held
        axis.barh(place, seconds[part], left=begin, height=0.72, facecolor=f"{colour}AA", edgecolor=colour)
        text = f"{formats.format_number(seconds[part])}, {100 * share:.0f} %"
        end = begin + seconds[part]
        before = end > 0.65 * failures.held and begin > 0.3 * failures.held
        where = end if end <= 0.65 * failures.held else begin  # after the bar, before it, or inside
        axis.text(where, place, f" {text} ", va="center", ha="right" if before else "left", fontsize=9.5)
        texts.append(f"{name} {text}")
        rows.append([part, seconds[part], share])
        begin += seconds[part]
    axis.set_yticks(range(len(_PARTS) + 1), ["held", *(name for name, _colour in _PARTS.values())], fontsize=10)
    axis.set_ylim(len(_PARTS) + 0.5, -0.5)
    axis.set_xlim(0, failures.held * 1.02)
    axis.grid(axis="y", visible=False)
    unit = "GPU-seconds" if failures.holds_gpus else "pod-seconds"
    axis.set_xlabel(unit)
    title = f"What became of the {unit}"
    title = plot_canvas.title_with_label(f"{title} – SIMULATED" if _simulated(data) else title, label)
    plot_canvas.draw_figure_title(figure, title)
    alt = f"{title}: {formats.format_number(failures.held)} held. {'; '.join(texts)}."
    return PlotDrawing(figure, title, alt, ["part", unit.lower().replace("-", "_"), "share"], rows)


def _simulated(data: PointData) -> bool:
    stage = data.first_known_stage(("pods_running", "running"))
    return stage is not None and data.is_simulated(stage)
