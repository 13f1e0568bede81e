# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plots of a point, as PNG files.

What is played says SIMULATED in its title or legend and is drawn dashed or hatched, so that it shows without colour
too. Up to SINGLE workloads each one is drawn with its error, above that bands over groups of neighbours.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._results import canvas, words
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.canvas import COLOURS, GREY, Plot, shown
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.functions import (
    ENDED,
    INTENDED,
    NEEDED,
    SENT,
    Data,
    level,
)

SINGLE = 400
GROUPS = 160
ROOM = 74  # letters of 9.5 points that fit above a panel
QUANTILES = ((0.5, "o"), (0.95, "^"), (0.99, "s"))
SCHEDULED, RUNNING = ("pods_scheduled", "scheduled", "admitted"), ("pods_running", "running")


def plot_stages(data: Data) -> list[str]:
    """Return the stages whose durations are drawn: those that anybody reached, without first pods and failures."""
    return [
        one["name"]
        for one in data.table.stages
        if one["ends"] != "failed" and not one["name"].endswith("_first") and data.table.seen(one["name"])
    ]


def colours(data: Data) -> dict[str, str]:
    """Return a colour for each stage, the same in every plot of a point."""
    stages = plot_stages(data)
    found = {stage: canvas.USUAL[stage] for stage in stages if stage in canvas.USUAL}
    free = [one for one in COLOURS if one not in found.values()] or list(COLOURS)
    others = [stage for stage in stages if stage not in found]
    found.update({stage: free[number % len(free)] for number, stage in enumerate(others)})
    last = next((stage for stage in stages if stage in data.ends()), "")
    return {**found, SENT: GREY, ENDED: found.get(last, COLOURS[1])}


def draw(data: Data, folder: Path, prefix: str, label: str = "") -> list[Plot]:
    """Draw the plots of a point into ``folder`` as <prefix>_<name>.png. label: the point, when there are several.

    A plot for which there is no data is left out.
    """
    plots = []
    with canvas.style():
        for name, function in (("counts", counts), ("durations", durations), ("distributions", distributions)):
            made = function(data, label)
            if made is not None:
                figure, title, alt = made
                path = folder / f"{prefix}_{name}.png"
                canvas.save(figure, path)
                plots.append(Plot(path, title, alt))
    return plots


def durations(data: Data, label: str) -> tuple[Any, str, str] | None:
    """One panel a stage: how long it took for each workload, in the order of submission."""
    stages = plot_stages(data)
    if not stages:
        return None
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    single = data.of <= SINGLE
    figure, axes = canvas.stacked([0.88] * len(stages), top=0.66, gap=0.36, bottom=0.62 + canvas.legend_height(1, 4))
    texts = [_panel(data, axis, stage, colours(data)[stage]) for axis, stage in zip(axes, stages, strict=True)]
    for axis in axes:
        axis.set_xlim(-0.5 - 0.01 * data.of, data.of - 0.5 + 0.01 * data.of)
        canvas.whole(axis.xaxis)
        axis.tick_params(labelbottom=axis is axes[-1])
    axes[-1].set_xlabel("workload, in the order of submission")
    if single:
        marks = [Line2D([], [], color=GREY, marker="o", linewidth=1.4, label="with its error")]
    else:
        marks = [
            Line2D([], [], color=GREY, label="median"),
            Patch(color=GREY, alpha=0.45, label="P5 to P95"),
            Patch(color=GREY, alpha=0.2, label="min to max"),
        ]
    marks.append(Line2D([], [], color="black", marker="x", linestyle="none", label="not seen to get there"))
    canvas.legend(figure, None, 4, marks)
    title = canvas.titled("Stage durations over submission order", label)
    canvas.heading(figure, title)
    return figure, title, f"{title}, one panel a stage. {' '.join(texts)}"


def _panel(data: Data, axis: Any, stage: str, colour: str) -> str:
    np = data.np
    first, last = data.span(stage)
    begin_first, begin_last = data.needed(stage)
    lower, upper = first - begin_last, last - begin_first
    middle = (lower + upper) / 2
    known = ~np.isnan(middle)
    played = data.simulated(stage, NEEDED)
    n = int(known.sum())
    factor, unit = canvas.scale(float(np.nanmax(np.abs(upper))) if n else 1.0)
    order = np.arange(data.of)
    if data.of <= SINGLE:
        axis.vlines(order[known], lower[known] * factor, upper[known] * factor, color=colour, alpha=0.45, linewidth=1.4)
        size = 20 if data.of <= 100 else 7
        axis.scatter(
            order[known], middle[known] * factor, s=size, color=colour, marker="D" if played else "o", linewidths=0
        )
    elif n:
        _bands(data, axis, order, middle * factor, colour)
    if n < data.of:
        places = order[~known]
        edge = axis.get_xaxis_transform()
        axis.scatter(
            places, [0.95] * len(places), transform=edge, marker="x", s=20, color="black", linewidths=1.1, clip_on=False
        )
    after = words.joined([words.stage(one) for one in data.needs.get(stage, ()) if data.knows(one)] or [SENT])
    axis.set_title(shown(stage, played), loc="left", fontsize=10.5, fontweight="bold", pad=4)
    room = ROOM - 1.25 * len(shown(stage, played))  # in letters of the small title
    told = (
        f"after {after}; by {words.writer(data.writers[stage])}",
        f"after {after}",
        f"by {words.writer(data.writers[stage])}",
    )
    fitting = next((text for text in told if len(text) <= room), "")
    axis.set_title(fitting, loc="right", fontsize=9.5, color=GREY, pad=4)
    axis.set_ylabel(unit)
    axis.yaxis.set_label_coords(-0.115, 0.5)
    bottom, top = axis.get_ylim()
    axis.set_ylim(min(bottom, 0), top + 0.12 * (top - bottom))
    axis.locator_params(axis="y", nbins=4)
    if played:
        axis.set_facecolor(canvas.PLAYED_GROUND)
    found = data.sample(stage, NEEDED).quantile(0.5)
    said = f"median {words.seconds(found.value)}" if found.value is not None else "median not known"
    return f"{shown(stage, played)}: {said}, {n:,} of {data.of:,}."


def _bands(data: Data, axis: Any, order: Any, values: Any, colour: str) -> None:
    """Too many to show singly: of each group of neighbours the median, the range of most, and the extremes."""
    np = data.np
    groups = [part for part in np.array_split(order, min(GROUPS, data.of)) if (~np.isnan(values[part])).any()]
    middle = [part.mean() for part in groups]
    low, p5, p50, p95, high = np.array([np.nanquantile(values[part], [0, 0.05, 0.5, 0.95, 1]) for part in groups]).T
    axis.fill_between(middle, low, high, color=colour, alpha=0.16, linewidth=0)
    axis.fill_between(middle, p5, p95, color=colour, alpha=0.35, linewidth=0)
    axis.plot(middle, p50, color=colour, linewidth=1.4)


def distributions(data: Data, label: str) -> tuple[Any, str, str] | None:
    """Share of all planned workloads whose stage took at most so long, with P50, P95 and P99 marked."""
    stages = plot_stages(data)
    if not stages:
        return None
    np = data.np
    samples = [(stage, data.sample(stage, NEEDED)) for stage in stages]
    # A name with "SIMULATED" and a count of those that got there fills a row alone.
    columns = 1 if any(sample.n < sample.of and data.simulated(stage, NEEDED) for stage, sample in samples) else 2
    rows = len(stages) + len(QUANTILES)
    figure, (axis,) = canvas.stacked([3.9], top=0.42, gap=0, bottom=0.6 + canvas.legend_height(rows, columns))
    positive = [float(sample.middle[sample.middle > 0][0]) for _stage, sample in samples if (sample.middle > 0).any()]
    left = max(min(positive, default=1e-3) / 2, 1e-4)  # what took no time that can be told stands at the left edge
    colour_of = colours(data)
    texts = []
    for stage, sample in samples:
        played = data.simulated(stage, NEEDED)
        values, ranks = canvas.thinned(np, np.maximum(sample.middle, left))
        name = shown(stage, played) + (f", {sample.n:,} seen" if sample.n < sample.of else "")
        axis.step(
            np.concatenate([values[:1], values]),
            np.concatenate([[0], ranks]) * 100 / sample.of,
            where="post",
            color=colour_of[stage],
            linestyle="--" if played else "-",
            linewidth=1.8,
            label=name,
        )
        said = []
        for q, marker in QUANTILES:
            found = sample.quantile(q).value
            if found is not None:
                axis.plot(
                    max(found, left),
                    q * 100,
                    marker,
                    color=colour_of[stage],
                    markersize=7,
                    markeredgecolor="white",
                    clip_on=False,
                    zorder=5,
                )
                said.append(f"P{q * 100:.0f} {words.seconds(found)}")
        known = ", ".join(said) or "no quantile known"
        texts.append(f"{shown(stage, played)}, {sample.n:,} of {sample.of:,}: {known}.")
    for q, marker in QUANTILES:
        axis.plot([], [], marker, color=GREY, label=f"P{q * 100:.0f}", markersize=7, linestyle="none")
    axis.set_xscale("log")
    axis.set_ylim(0, 103)
    axis.set_ylabel(f"% of {words.count(data.of, 'planned workload')}")
    axis.set_xlabel("took at most")
    canvas.durations(axis.xaxis)
    canvas.legend(figure, axis, columns)
    title = canvas.titled("Distribution of stage durations", label)
    canvas.heading(figure, title)
    return figure, title, f"{title}, cumulative. {' '.join(texts)}"


def counts(data: Data, label: str) -> tuple[Any, str, str] | None:
    """How many workloads had got how far at each moment, and how many were open and running."""
    curves = _curves(data)
    if not curves:
        return None
    from matplotlib.patches import Patch

    np = data.np
    stop = max(data.end - data.start, max(float(values[-1]) for _name, values, _played in curves))
    factor, unit = (1.0, "s") if stop < 600 else canvas.scale(stop)
    blind = bool(data.table.header["gaps"])
    figure, (upper, lower) = canvas.stacked([2.9, 1.7], top=0.42, gap=0.22, bottom=0.6 + canvas.legend_height(9, 3))
    texts = []
    due = data.span(INTENDED)[0]
    due = np.sort(due[~np.isnan(due)])
    for number, (name, values, played) in enumerate([("due", due, False), *curves] if len(due) else curves):
        moments, ranks = canvas.thinned(np, values)
        upper.step(
            np.concatenate([[min(0.0, float(values[0]))], moments, [stop]]) * factor,
            np.concatenate([[0], ranks, [len(values)]]),
            where="post",
            color="#999999" if name == "due" else colours(data).get(name, COLOURS[0]),
            linestyle=":" if name == "due" else "--" if played else "-",
            linewidth=max(3.6 - 0.5 * number, 1.5),  # the earlier ones shine through where curves coincide
            label=shown(name, played),
        )
        if name != "due":
            texts.append(
                f"{shown(name, played)}: {len(values):,} of {data.of:,}, last after {words.seconds(float(values[-1]))}."
            )
    upper.axhline(data.of, color=GREY, linewidth=0.8)
    upper.set_ylabel("workloads so far")
    upper.set_ylim(0, data.of * 1.06)
    areas = _occupancy(data, lower, factor, stop, texts)
    lower.set_ylabel("at that moment")
    lower.set_xlabel(f"time since the start of the load ({unit})")
    lower.set_ylim(bottom=0)
    for axis in (upper, lower):
        canvas.whole(axis.yaxis)
        axis.set_xlim(-0.02 * stop * factor, 1.02 * stop * factor)
    upper.tick_params(labelbottom=False)
    canvas.gaps(data, (upper, lower), factor)
    canvas.legend(
        figure, upper, 3, [*areas, *([Patch(color="#BBBBBB", alpha=0.6, label="watch was blind")] if blind else [])]
    )
    title = canvas.titled("Workloads over time", label)
    canvas.heading(figure, title)
    return figure, title, f"{title}. {' '.join(texts)}"


def _curves(data: Data) -> list[tuple[str, Any, bool]]:
    """Return (name, sorted moments, played) of what is counted, in the order of a workload's life."""
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


def _occupancy(data: Data, axis: Any, factor: float, stop: float, texts: list[str]) -> list[Any]:
    """Draw how many workloads were open (created, not ended) and running; return the areas for the legend."""
    np = data.np
    areas = []
    until = data.middle(ENDED) if data.knows(ENDED) else np.full(data.of, np.nan)
    for name, begin in (("open now", data.pick("created")), ("running now", data.pick(RUNNING))):
        moments, levels = level(data, data.middle(begin), until) if begin else ((), ())
        if not len(moments):
            continue
        played = data.knows(ENDED) and data.simulated(ENDED, begin or "")
        keep = np.unique(np.linspace(0, len(moments) - 1, canvas.MOST_STEPS).astype(int))
        x = np.concatenate([[0.0], moments[keep], [stop]]) * factor
        y = np.concatenate([[0], levels[keep], levels[-1:]])
        colour = colours(data).get(begin or "", COLOURS[0])
        areas.append(
            axis.fill_between(
                x,
                y,
                step="post",
                facecolor=f"{colour}55",
                edgecolor=colour,
                linewidth=1.0,
                hatch="///" if played else None,
                label=shown(name, bool(played)),
            )
        )
        texts.append(f"At most {int(levels.max()):,} {name.split()[0]} at once.")
    return areas
