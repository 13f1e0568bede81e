# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots and sentences that explain a verdict: a figure's history, its repetition, a bisection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader

from . import plot_canvas
from .plot_canvas import GREY, PlotDrawing, PlotFile, stage_title_in_plot

Kpi = Mapping[str, Any]
_BAND, _LIMIT = plot_canvas.COLOURS[0], plot_canvas.COLOURS[6]
_LIMITS = {"min": "lower limit", "max": "upper limit"}
#: Largest number of pictures.
MOST_HISTORIES = 9
#: Readings that need no explanation.
_PLAIN = ("pass", "not judged", "not enough history")
_OLD, _NEW = plot_canvas.COLOURS[0], plot_canvas.COLOURS[4]
_LEGEND_COLUMNS = 3
HISTORY_COLUMNS = ["run", "group", "value", "unit", "low_95", "high_95"]
REPETITION_COLUMNS = ["attempt", "value", "unit", "mean", "low", "high", "e_value", "reading"]
_ATTEMPT = plot_canvas.COLOURS[4]
#: Largest number of pictures.
MOST_REPETITIONS = 12
BISECTION_COLUMNS = ["order", "value", "point", "figure"]
_RUN, _STEP = plot_canvas.COLOURS[0], plot_canvas.COLOURS[4]
#: Length of the text of a value below the axis.
_LONGEST = 12


def _value_or_bound(measurement: Mapping[str, Any]) -> float | None:
    return measurement["value"] if measurement["value"] is not None else measurement.get("low")


def factor_and_unit_of_values(kpi: Kpi, values: Iterable[Mapping[str, Any]]) -> tuple[float, str]:
    """Return the factor and the unit in which the values of a figure are drawn."""
    known = [abs(number) for number in map(_value_or_bound, values) if number is not None]
    return plot_canvas.duration_scale_and_unit(max(known, default=0.0)) if kpi["unit"] == "s" else (1.0, kpi["unit"])


def draw_expected_interval_of_next_run(axis: Any, kpi: Kpi, factor: float) -> None:
    """Draw the interval in which one more old run is expected, if it is known."""
    if kpi.get("band"):
        low, high = (bound * factor for bound in kpi["band"])
        axis.axhspan(low, high, color=_BAND, alpha=0.12, linewidth=0, label="expected of one more run")


def draw_limits(axis: Any, kpi: Kpi, factor: float) -> None:
    """Draw the limits of a figure."""
    for name, end in limits_of_kpi(kpi).items():
        axis.axhline(end * factor, color=_LIMIT, linestyle="--", linewidth=1.4, label=_LIMITS[name])


def limits_of_kpi(kpi: Kpi) -> dict[str, float]:
    """Return the limits that a figure has: min, max."""
    limit = kpi.get("limit") or {}
    return {name: limit[name] for name in _LIMITS if limit.get(name) is not None}


def histories_to_draw(kpis: Iterable[Kpi], headline: str) -> list[Kpi]:
    """Return the figures to explain: regressions first, then that of the headline, then what else is not a plain pass.

    Only figures with past values are drawn. headline: name of the first headline figure, empty for none.
    """
    drawn = [kpi for kpi in kpis if _has_past(kpi) and (kpi["name"] == headline or not _is_plain(kpi))]
    return sorted(drawn, key=lambda kpi: (not _is_worse(kpi), kpi["name"] != headline))[:MOST_HISTORIES]


def _has_past(kpi: Kpi) -> bool:
    old = (measured for measured in kpi.get("series") or () if measured["group"] == "old")
    return any(_value_or_bound(measured) is not None for measured in old)


def _is_worse(kpi: Kpi) -> bool:
    return kpi["reading"] == "regression" or (kpi.get("limit") or {}).get("result") == "outside"


def _is_plain(kpi: Kpi) -> bool:
    limit = (kpi.get("limit") or {}).get("result", "within")
    return kpi["reading"] in _PLAIN and limit == "within"


def history_sentences(kpi: Kpi) -> str:
    """Return the reading and its reason, then the changes in the past and the limit, as sentences."""
    why = kpi["why"].rstrip(".").removeprefix(f"{kpi['reading']}: ")
    sentences = [f"{formats.capitalize_first_letter(kpi['reading'])}: {why}."]
    for change_point in kpi.get("change_points") or ():
        before, after = (formats.format_with_unit(change_point[key], kpi["unit"]) for key in ("before", "after"))
        sentences.append(f"It changed at run {change_point['run']}, from {before} to {after}.")
    limit = kpi.get("limit")
    if limit:
        sentences.append(f"{formats.capitalize_first_letter(limit['text'].rstrip('.'))}.")
    return " ".join(sentences)


def draw_history(kpi: Kpi, path: Path, label: str = "") -> PlotFile:
    """Draw a figure with its past values as <path>.png and <path>.csv. kpi: as in verdict/2, with ``series``."""
    with plot_canvas.plot_style_context():
        return plot_canvas.write_png_and_csv(draw_history_with_sentences(kpi, label), path)


def draw_history_with_sentences(kpi: Kpi, label: str = "") -> PlotDrawing:
    """Return the drawing. label: the point, empty if there is only one."""
    series = kpi["series"]
    factor, unit = factor_and_unit_of_values(kpi, series)
    figure, (axis,) = plot_canvas.create_stacked_axes(
        [2.6], top=0.45, gap=0, bottom=0.56 + plot_canvas.legend_height(5, _LEGEND_COLUMNS)
    )
    draw_expected_interval_of_next_run(axis, kpi, factor)
    _draw_stable_segments(axis, kpi, factor)
    for group, colour, marker, name in (("old", _OLD, "o", "old runs"), ("new", _NEW, "D", "new runs, this one last")):
        _draw_run_values(axis, series, group, factor, color=colour, marker=marker, label=name)
    draw_limits(axis, kpi, factor)
    axis.set_xlim(0.4, len(series) + 0.6)
    _keep_runs_legible(axis, kpi, factor)
    axis.set_xlabel("old runs, then new ones, each from the oldest")
    axis.set_ylabel(unit or "value")
    plot_canvas.format_axis_as_integers(axis.xaxis)
    title = plot_canvas.title_with_label(stage_title_in_plot(kpi["title"], kpi["simulated"]), label)
    plot_canvas.draw_figure_title(figure, title)
    plot_canvas.draw_bottom_legend(figure, axis, _LEGEND_COLUMNS)
    rows = [
        [measured["run"], measured["group"], measured["value"], kpi["unit"], measured.get("low"), measured.get("high")]
        for measured in series
    ]
    alt = f"{title}: its value in {formats.format_count(len(series), 'run')}. {history_sentences(kpi)}"
    return PlotDrawing(figure, title, alt, HISTORY_COLUMNS, rows)


def _draw_run_values(axis: Any, series: Sequence[Mapping[str, Any]], group: str, factor: float, **style: Any) -> None:
    """Draw the values of a group, with their intervals within the run."""
    known = [
        (at, measurement)
        for at, measurement in enumerate(series, 1)
        if measurement["group"] == group and measurement["value"] is not None
    ]
    places, values = [at for at, _one in known], [measurement["value"] * factor for _at, measurement in known]
    axis.plot(places, values, linestyle="none", markersize=5 if group == "old" else 8, **style)
    for at, measurement in enumerate(series, 1):
        if measurement["group"] == group and _is_bound(measurement):  # an arrow upwards: at least this
            axis.plot(at, measurement["low"] * factor, linestyle="none", marker="^", markersize=7, color=style["color"])
    for at, measurement in known:
        if measurement.get("low") is not None and measurement.get("high") is not None:
            axis.vlines(
                at,
                measurement["low"] * factor,
                measurement["high"] * factor,
                color=style["color"],
                linewidth=1.2,
                alpha=0.6,
            )


def _is_bound(measurement: Mapping[str, Any]) -> bool:
    return measurement["value"] is None and measurement.get("low") is not None


def _draw_stable_segments(axis: Any, kpi: Kpi, factor: float) -> None:
    """Draw the median of each stable part of the past, with a step at each change point."""
    places = {measurement["run"]: at for at, measurement in enumerate(kpi["series"], 1)}
    changes = [change_point for change_point in kpi.get("change_points") or () if change_point["run"] in places]
    if not changes:
        return
    end = max(at for at, measurement in enumerate(kpi["series"], 1) if measurement["group"] == "old") + 0.5
    edges = [0.5, *(places[change["run"]] - 0.5 for change in changes), end]
    levels = [changes[0]["before"], *(change["after"] for change in changes)]
    across = [place for left, right in zip(edges, edges[1:], strict=False) for place in (left, right)]
    values = [level * factor for level in levels for _end in range(2)]
    axis.plot(across, values, color=GREY, linewidth=1.6, label="median before and after a change")


def _keep_runs_legible(axis: Any, kpi: Kpi, factor: float) -> None:
    """Cut a band that is much wider than the runs: few runs that differ much say little about the next one."""
    known = [number * factor for number in map(_value_or_bound, kpi["series"]) if number is not None]
    if not known or not kpi.get("band"):
        return
    room = 2.0 * (max(known) - min(known)) or 0.1 * abs(known[0]) or 1.0
    ends = [end * factor for end in limits_of_kpi(kpi).values()]
    low, high = axis.get_ylim()
    axis.set_ylim(max(low, min([*known, *ends]) - room), min(high, max([*known, *ends]) + room))


def repeated_kpis_to_draw(kpis: Iterable[Kpi]) -> list[Kpi]:
    """Return the figures to draw (schema verdict/2): those with several attempts and a limit or an expected band."""
    return [kpi for kpi in kpis if len(_new_attempts_of_kpi(kpi)) > 1 and (kpi.get("limit") or kpi.get("band"))][
        :MOST_REPETITIONS
    ]


def kpi_bounds_after_attempts(kpi: Kpi, schedule: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return what was known of a figure after each number of attempts, from the lines of schedule.jsonl."""
    reading_by_count: dict[int, Mapping[str, Any]] = {}
    for line in schedule:
        for reading in line.get("readings") or ():
            if reading["kpi"] == kpi["name"] and reading.get("point") == run_reader.point_of_attempt_folder(
                kpi["point"]
            ):
                reading_by_count[int(reading.get("attempts") or 0)] = reading
    return [reading_by_count[attempts] for attempts in sorted(reading_by_count)]


def draw_repeated_figure(kpi: Kpi, schedule: Sequence[Mapping[str, Any]], path: Path, label: str = "") -> PlotFile:
    """Draw a figure as <path>.png and <path>.csv. label: the point, empty if there is only one."""
    with plot_canvas.plot_style_context():
        return plot_canvas.write_png_and_csv(repetition_drawing(kpi, schedule, label), path)


def repetition_drawing(kpi: Kpi, schedule: Sequence[Mapping[str, Any]], label: str = "") -> PlotDrawing:
    """Return the drawing."""
    attempts, known = _new_attempts_of_kpi(kpi), kpi_bounds_after_attempts(kpi, schedule)
    factor, unit = factor_and_unit_of_values(kpi, attempts)
    figure, (axis,) = plot_canvas.create_stacked_axes(
        [2.6], top=0.45, gap=0, bottom=0.56 + plot_canvas.legend_height(4, 2)
    )
    draw_expected_interval_of_next_run(axis, kpi, factor)
    draw_limits(axis, kpi, factor)
    _draw_mean_intervals(axis, known, factor)
    measured = [(at, attempt["value"]) for at, attempt in enumerate(attempts, 1) if attempt["value"] is not None]
    places, values = [at for at, _value in measured], [value * factor for _at, value in measured]
    axis.plot(places, values, "D", color=_ATTEMPT, markersize=6, label="attempt")
    axis.set_xlim(0.4, len(attempts) + 0.8)
    axis.set_xlabel("attempts")
    axis.set_ylabel(unit or "value")
    plot_canvas.format_axis_as_integers(axis.xaxis)
    title = plot_canvas.title_with_label(stage_title_in_plot(kpi["title"], kpi["simulated"]), label)
    plot_canvas.draw_figure_title(figure, title)
    plot_canvas.draw_bottom_legend(figure, axis, 2)
    alt = f"{title}: {formats.format_count(len(attempts), 'attempt')}, with the interval known after each. {kpi['why']}"
    return PlotDrawing(figure, title, alt, REPETITION_COLUMNS, _repetition_rows(kpi, attempts, known))


def _new_attempts_of_kpi(kpi: Kpi) -> list[Mapping[str, Any]]:
    return [measured for measured in kpi.get("series") or () if measured["group"] == "new"]


def _draw_mean_intervals(axis: Any, known: Sequence[Mapping[str, Any]], factor: float) -> None:
    """Draw mean and interval right beside the attempt after which they were known, within the range of the values."""
    named = False
    for reading in known:
        at = reading["attempts"] + 0.18
        if reading.get("low") is None or reading.get("high") is None or reading.get("value") is None:
            continue
        mean = reading["value"] * factor
        below, above = mean - reading["low"] * factor, reading["high"] * factor - mean
        axis.errorbar(
            [at], [mean], [[below], [above]], fmt="_", color=GREY, capsize=3, linewidth=1.4,
            label=None if named else "mean and interval after it",
        )  # fmt: skip
        named = True


def _repetition_rows(
    kpi: Kpi, attempts: Sequence[Mapping[str, Any]], known: Sequence[Mapping[str, Any]]
) -> list[list[Any]]:
    by_count = {reading["attempts"]: reading for reading in known}
    rows = []
    for at, attempt in enumerate(attempts, 1):
        then = by_count.get(at, {})
        more = [then.get(name) for name in ("value", "low", "high", "e_value", "reading")]
        rows.append([attempt["run"], attempt["value"], kpi["unit"], *more])
    return rows


def draw_bisection(bisection: Mapping[str, Any], unit: str, path: Path) -> PlotFile:
    """Draw a bisection (schema bisection/1) as <path>.png and <path>.csv. unit: of the figure."""
    with plot_canvas.plot_style_context():
        return plot_canvas.write_png_and_csv(bisection_drawing(bisection, unit), path)


def bisection_drawing(bisection: Mapping[str, Any], unit: str) -> PlotDrawing:
    """Return the drawing: runs above, probabilities below."""
    known = [measurement for measurement in bisection["measurements"] if _known_figure(measurement) is not None]
    largest = max((abs(_known_figure(measurement) or 0.0) for measurement in known), default=0.0)
    factor, shown = plot_canvas.duration_scale_and_unit(largest) if unit == "s" else (1.0, unit)
    figure, (above, below) = plot_canvas.create_stacked_axes([2.2, 1.0], top=0.45, gap=0.15, bottom=0.56)
    for marker, bound in (("o", False), ("^", True)):  # a triangle: the figure is at least that
        shown_runs = [measurement for measurement in known if (measurement["figure"] is None) == bound]
        figures = [(_known_figure(measurement) or 0.0) * factor for measurement in shown_runs]
        places = [measurement["index"] for measurement in shown_runs]
        above.plot(places, figures, marker, color=_RUN, markersize=5, alpha=0.7)
    below.bar([at + 0.5 for at in range(len(bisection["probabilities"]))], bisection["probabilities"], 0.8, color=_STEP)
    step = bisection.get("step")
    if step:
        above.axvline(step["index"] + 0.5, color=_STEP, linestyle="--", linewidth=1.4)
    texts = [formats.format_setting_value(value, _LONGEST) for value in bisection["values"]]
    for axis in (above, below):
        axis.set_xlim(-0.5, len(texts) - 0.5)
        axis.set_xticks(range(len(texts)), texts if axis is below else [""] * len(texts))
    above.set_ylabel(shown or "value")
    below.set_ylim(0, 1)
    below.set_ylabel("step here")
    below.set_xlabel(bisection["over"])
    title = f"{bisection['kpi']} over {bisection['over']}"
    plot_canvas.draw_figure_title(figure, title)
    alt = (
        f"{title}: {formats.format_count(len(known), 'run')}, and the probability of a step after each value."
        f" {bisection['why']}"
    )
    rows = [
        [at, texts[measurement["index"]], measurement["point"], measurement["figure"]]
        for at, measurement in enumerate(bisection["measurements"], 1)
    ]
    return PlotDrawing(figure, title, alt, BISECTION_COLUMNS, rows)


def _known_figure(measurement: Mapping[str, Any]) -> float | None:
    """Return the figure of a run of a bisection, or the bound if only that is known."""
    figure = measurement["figure"]
    return measurement.get("at_least") if figure is None else figure


def bisection_rows(bisection: Mapping[str, Any], unit: str) -> list[dict[str, str]]:
    """Return the values of a bisection for a table: runs, their mean, the probability of a step after each."""
    table = []
    for index, value in enumerate(bisection["values"]):
        runs = [measurement for measurement in bisection["measurements"] if measurement["index"] == index]
        known = [figure for figure in map(_known_figure, runs) if figure is not None]
        at_least = "≥ " if any(run["figure"] is None and _known_figure(run) is not None for run in runs) else ""
        last = index == len(bisection["values"]) - 1
        table.append(
            {
                "value": formats.format_setting_value(value, 60),
                "runs": str(len(runs)),
                "mean": at_least + formats.format_with_unit(sum(known) / len(known), unit) if known else "–",
                "probability": "" if last else f"{bisection['probabilities'][index] * 100:.1f} %",
            }
        )
    return table
