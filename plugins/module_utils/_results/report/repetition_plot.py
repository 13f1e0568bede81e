# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plot of a figure that was repeated until decided: each attempt, and the interval that was known after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import attempt_names

from . import judged_figure, plot_canvas
from .plot_canvas import GREY, PlotFile, stage_title
from .plotted_stages import Drawing

Kpi = Mapping[str, Any]
REPETITION_COLUMNS = ["attempt", "value", "unit", "mean", "low", "high", "e_value", "reading"]
_ATTEMPT = plot_canvas.COLOURS[4]
#: Largest number of pictures.
MOST_REPETITIONS = 12


def repeated_kpis(kpis: Iterable[Kpi]) -> list[Kpi]:
    """Return the figures to draw (schema verdict/2): those with several attempts and a limit or an expected band."""
    return [one for one in kpis if len(_attempts(one)) > 1 and (one.get("limit") or one.get("band"))][:MOST_REPETITIONS]


def known_after_attempts(kpi: Kpi, schedule: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return what was known of a figure after each number of attempts, from the lines of schedule.jsonl."""
    found: dict[int, Mapping[str, Any]] = {}
    for line in schedule:
        for one in line.get("readings") or ():
            if one["kpi"] == kpi["name"] and one.get("point") == attempt_names.point_of_attempt(kpi["point"]):
                found[int(one.get("attempts") or 0)] = one
    return [found[attempts] for attempts in sorted(found)]


def draw_repetition(kpi: Kpi, schedule: Sequence[Mapping[str, Any]], path: Path, label: str = "") -> PlotFile:
    """Draw a figure as <path>.png and <path>.csv. label: the point, empty if there is only one."""
    with plot_canvas.style():
        return plot_canvas.write(repetition_drawing(kpi, schedule, label), path)


def repetition_drawing(kpi: Kpi, schedule: Sequence[Mapping[str, Any]], label: str = "") -> Drawing:
    """Return the drawing."""
    attempts, known = _attempts(kpi), known_after_attempts(kpi, schedule)
    factor, unit = judged_figure.value_scale(kpi, attempts)
    figure, (axis,) = plot_canvas.stacked([2.6], top=0.45, gap=0, bottom=0.56 + plot_canvas.legend_height(4, 2))
    judged_figure.draw_band(axis, kpi, factor)
    judged_figure.draw_limits(axis, kpi, factor)
    _intervals(axis, known, factor)
    measured = [(at, one["value"]) for at, one in enumerate(attempts, 1) if one["value"] is not None]
    places, values = [at for at, _value in measured], [value * factor for _at, value in measured]
    axis.plot(places, values, "D", color=_ATTEMPT, markersize=6, label="attempt")
    axis.set_xlim(0.4, len(attempts) + 0.8)
    axis.set_xlabel("attempts")
    axis.set_ylabel(unit or "value")
    plot_canvas.whole(axis.xaxis)
    title = plot_canvas.titled(stage_title(kpi["title"], kpi["simulated"]), label)
    plot_canvas.heading(figure, title)
    plot_canvas.legend(figure, axis, 2)
    alt = f"{title}: {formats.count(len(attempts), 'attempt')}, with the interval known after each. {kpi['why']}"
    return Drawing(figure, title, alt, REPETITION_COLUMNS, _repetition_rows(kpi, attempts, known))


def _attempts(kpi: Kpi) -> list[Mapping[str, Any]]:
    return [one for one in kpi.get("series") or () if one["group"] == "new"]


def _intervals(axis: Any, known: Sequence[Mapping[str, Any]], factor: float) -> None:
    """Draw mean and interval right beside the attempt after which they were known, within the range of the values."""
    named = False
    for one in known:
        at = one["attempts"] + 0.18
        if one.get("low") is None or one.get("high") is None or one.get("value") is None:
            continue
        mean = one["value"] * factor
        below, above = mean - one["low"] * factor, one["high"] * factor - mean
        axis.errorbar(
            [at], [mean], [[below], [above]], fmt="_", color=GREY, capsize=3, linewidth=1.4,
            label=None if named else "mean and interval after it",
        )  # fmt: skip
        named = True


def _repetition_rows(
    kpi: Kpi, attempts: Sequence[Mapping[str, Any]], known: Sequence[Mapping[str, Any]]
) -> list[list[Any]]:
    by_count = {one["attempts"]: one for one in known}
    rows = []
    for at, one in enumerate(attempts, 1):
        then = by_count.get(at, {})
        more = [then.get(name) for name in ("value", "low", "high", "e_value", "reading")]
        rows.append([one["run"], one["value"], kpi["unit"], *more])
    return rows
