# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparison page: its variables and plots, its headline as lines for a terminal, and links to it from the reports.

A link is inserted between two comments of the report's template, and recorded in report/comparisons.json, from which a
report that is written again includes it.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import format_setting_value

from ..judge import overall_verdict
from ..kpi.point_data import NEEDED, SENT, PointData
from ..report import kpi_text_filters, page_content, plot_canvas, write_report
from ..report.kpi_text_filters import label_of_stage
from ..report.plot_canvas import COLOURS, GREY, PlotDrawing, stage_title_in_plot, stages_to_plot
from . import run_pairs

DASHES: Sequence[Literal["-", "--", "-.", ":"]] = ("-", "--", "-.", ":")
BAND_SAMPLES, BAND_POINTS = 200, 200
#: Comments around the replaced part of a report, and the template of that part.
BEGIN, END = "<!-- comparisons -->", "<!-- end of comparisons -->"
FRAGMENT = "comparisons.html.j2"
#: Maximum number of comparisons that a report links to, the newest.
MOST = 10


def headline_kpi_lines(pair: Mapping[str, Any]) -> list[str]:
    """Return the headline figures of a pair, one line each."""
    lines = []
    for row in pair["kpis"]:
        if row["headline"]:
            shown = _format_kpi_difference(row)
            interval = f" ({shown['confidence']})" if shown["confidence"] else ""
            change = f"{shown['before']} → {shown['after']} {shown['percent']}{interval}: {row['reading']}"
            lines.append(f"{pair['label']}: {row['title']} {change}{', SIMULATED' if row['simulated'] else ''}")
    return lines


def _format_kpi_difference(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a difference of a KPI with all figures formatted."""
    difference = row["difference"]
    signed = (
        "–"
        if difference is None
        else f"{'+' if difference > 0 else ''}{formats.format_with_unit(difference, row['unit'])}"
    )
    percent = "" if row["percent"] is None else f"{row['percent']:+.1f} %"
    return {
        **row,
        **{
            side: kpi_text_filters.format_kpi_value(
                {"value": row[side], "at_least": row.get(f"{side}_at_least"), "unit": row["unit"]}
            )
            for side in ("before", "after")
        },
        "difference": signed,
        "percent": percent,
        "confidence": kpi_text_filters.format_confidence_interval(
            {"confidence": row["confidence"], "unit": row["unit"]}
        ),
        "rows": " / ".join(f"{n:,} of {of:,}" for n, of in zip(row["n"], row["of"], strict=True)),
        "note": row.get("note", ""),
    }


def comparison_verdict_lines(document: Mapping[str, Any]) -> list[str]:
    """Return which runs are A and B, the verdict with its reasons, and the stages that changed, one line each."""
    if "verdict" not in document:
        return []
    reasons = document["why"]
    more = f" ({formats.format_count(len(reasons) - 1, 'further reason')})" if len(reasons) > 1 else ""
    why = f": {reasons[0]}{more}" if reasons else ""
    return [
        *group_description_lines(document),
        f"verdict {document['verdict'].upper()}{why}",
        *_changed_stage_lines(document),
    ]


def group_description_lines(document: Mapping[str, Any]) -> list[str]:
    """Return a line on each group: its runs, and the labels that differ from those of the first."""
    lines = []
    for place, group in enumerate(document.get("groups") or []):
        what = f", {group['what']}" if group["what"] else ", with the same labels" if place else ", the baseline"
        lines.append(f"{group['letter']} is {formats.format_list(group['runs'], 10)}{what}")
    return lines


def _changed_stage_lines(document: Mapping[str, Any]) -> list[str]:
    changes = document["changed"]
    several = len({change["point"] for change in changes}) > 1
    return [
        f"{change['group']} against A" + (f", point {change['point']}" if several else "") + f": {change['text']}"
        for change in changes
    ]


def _verdict_section_variables(
    document: Mapping[str, Any], pictures: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Return what the page says about the verdict; None without one."""
    if "verdict" not in document:
        return None
    several = len({kpi["point"] for kpi in document["kpis"]}) > 1
    rows = [
        {
            **kpi,
            "title": kpi["title"] + (f", point {kpi['point']}" if several else ""),
            "before": formats.format_with_unit((kpi.get("old") or {}).get("value"), kpi["unit"]),
            "after": overall_verdict.judged_value_text(kpi),
            "change": overall_verdict.kpi_change_text(kpi),
            "runs": f"{kpi['old']['n']} / {kpi['new']['n']}",
        }
        for kpi in document["kpis"]
    ]
    history = document.get("history")
    return {
        "verdict": document["verdict"],
        "why": list(document["why"]),
        "groups": group_description_lines(document),
        "changed": _changed_stage_lines(document),
        "kpis": rows,
        "history": overall_verdict.summarize_history_use(history) if history else "",
        "plots": list(pictures),
    }


def comparison_template_variables(
    document: Mapping[str, Any],
    drawn: Sequence[Sequence[Mapping[str, Any]]],
    reports: Sequence[str],
    explaining: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the variables of the page's template.

    drawn: the plots of each pair. reports: relative paths of the runs' reports, empty where there is none.
    explaining: the plots of judged figures.
    """
    shown = []
    for pair, pictures in zip(document["pairs"], drawn, strict=True):
        rows = [_format_kpi_difference(row) for row in pair["kpis"]]
        total = [formats.format_duration(seconds) if seconds is not None else "–" for seconds in pair["total"]]
        shown.append(
            {
                "label": pair["label"],
                "sides": pair["sides"],
                "headline": [row for row in rows if row["headline"]],
                "changed": [row for row in rows if not row["headline"] and row["reading"] in ("better", "worse")],
                "others": [row for row in rows if not row["headline"] and row["reading"] not in ("better", "worse")],
                "counts": run_pairs.count_figures_by_reading(pair["kpis"]),
                "total": total,
                "writers": [
                    _stage_contribution_row(writer, formats.stage_writer_display_name(writer["name"]))
                    for writer in pair["writers"]
                ],
                "stages": [_stage_contribution_row(stage, label_of_stage(stage["name"])) for stage in pair["stages"]],
                "plots": list(pictures),
            }
        )
    settings = [
        {
            "name": setting["name"],
            "values": [textwrap.shorten(format_setting_value(value), 80) for value in setting["values"]],
        }
        for setting in document["settings"]
    ]
    return {
        "title": comparison_title(document["runs"]),
        "runs": [{**run, "report": where} for run, where in zip(document["runs"], reports, strict=True)],
        "judged": _verdict_section_variables(document, explaining),
        "settings": settings,
        "pairs": shown,
        "notes": list(document["notes"]),
        "simulated": any(run["simulated"] for run in document["runs"]),
    }


def comparison_title(compared: Sequence[Mapping[str, Any]]) -> str:
    """Return the title of a comparison: of two runs, or of the points of one run."""
    first, second = compared[:2]
    return (
        f"the points of {first['run']}" if first["run"] == second["run"] else f"{second['run']} against {first['run']}"
    )


def _stage_contribution_row(share: Mapping[str, Any], name: str) -> dict[str, Any]:
    signed = f"{'+' if share['difference'] > 0 else ''}{formats.format_duration(share['difference'])}"
    return {
        "name": name,
        "writer": formats.stage_writer_display_name(share["writer"]),
        "before": formats.format_duration(share["before"]),
        "after": formats.format_duration(share["after"]),
        "difference": signed,
        "confidence": kpi_text_filters.format_confidence_interval({"confidence": share["confidence"], "unit": "s"}),
        "simulated": share["simulated"],
    }


def draw_stage_distributions(runs: Sequence[tuple[str, PointData]], label: str) -> PlotDrawing | None:
    """Draw one panel per common stage: the cumulative distribution of its duration, one line per run."""
    stages = [
        stage for stage in stages_to_plot(runs[0][1]) if all(stage in stages_to_plot(data) for _name, data in runs[1:])
    ]
    last = next((stage for stage in reversed(stages) if stage in runs[0][1].end_stages()), None)
    panels = [(stage, NEEDED) for stage in stages] + ([(last, SENT)] if last else [])
    if not panels:
        return None
    from matplotlib.lines import Line2D

    figure, axes = plot_canvas.create_stacked_axes(
        [1.05] * len(panels), top=0.66, gap=0.62, bottom=0.35 + plot_canvas.legend_height(len(runs), 1)
    )
    texts: list[str] = []
    rows: list[list[Any]] = []
    for axis, (stage, since) in zip(axes, panels, strict=True):
        simulated = any(data.is_simulated(stage, since) for _name, data in runs)
        medians = [
            _draw_distribution_curve(axis, place, name, data, (stage, since), rows)
            for place, (name, data) in enumerate(runs)
        ]
        title = (
            stage_title_in_plot(stage, simulated)
            if since == NEEDED
            else stage_title_in_plot("from sending to the end", simulated)
        )
        axis.set_title(title, loc="left", fontsize=10.5, fontweight="bold", pad=4)
        axis.set_xscale("log")
        axis.set_ylim(0, 104)
        axis.set_ylabel("%")
        plot_canvas.format_axis_as_durations(axis.xaxis)
        texts.append(f"{title}: {', '.join(medians)}.")
    handles = [
        Line2D([], [], color=COLOURS[place % len(COLOURS)], linestyle=DASHES[place % len(DASHES)], label=name)
        for place, (name, _data) in enumerate(runs)
    ]
    plot_canvas.draw_bottom_legend(figure, None, 1, handles)
    title = plot_canvas.title_with_label("Stage durations by run", label)
    plot_canvas.draw_figure_title(figure, title)
    columns = ["run", "stage", "since", "took_s", "share_percent", "low_percent", "high_percent"]
    return PlotDrawing(figure, title, f"{title}, cumulative, with 95 % bands. {' '.join(texts)}", columns, rows)


def _draw_distribution_curve(
    axis: Any, place: int, name: str, data: PointData, panel: tuple[str, str], rows: list[list[Any]]
) -> str:
    np = data.np
    sample = data.sample(*panel)
    positive = sample.middle[sample.middle > 0]
    if not len(positive):
        return f"{name} none"
    left, right = max(float(positive[0]) / 1.5, 1e-4), float(sample.middle[-1])
    colour = COLOURS[place % len(COLOURS)]
    values, shares = plot_canvas.thin_ordered_values(np, np.maximum(sample.middle, left), sample.shares * 100)
    axis.step(values, shares, where="post", color=colour, linestyle=DASHES[place % len(DASHES)], linewidth=1.7)
    grid = np.geomspace(left, max(right, left * 1.001), BAND_POINTS)
    at = np.concatenate([[0.0], sample.shares])[np.searchsorted(sample.middle, grid, side="right")]
    low = high = np.full(len(grid), np.nan)
    if data.resampling is not None:
        low, high = data.resampling.curves(sample, grid, BAND_SAMPLES)
        axis.fill_between(grid, low * 100, high * 100, step="post", color=colour, alpha=0.15, linewidth=0)
    columns = np.column_stack([grid, at * 100, low * 100, high * 100]).tolist()
    rows += [[name, *panel, *row] for row in columns]
    median = sample.quantile(0.5).value
    return f"{name} median {formats.format_duration(median)}" if median is not None else f"{name} median unknown"


def draw_stage_contributions(parts: Sequence[Mapping[str, Any]], label: str) -> PlotDrawing | None:
    """Draw the contribution of each stage to the difference of the mean times; to the right: slower."""
    drawn = [part for part in parts if abs(part["difference"]) > 1e-9]
    if not drawn:
        return None
    names = [label_of_stage(part["name"]) for part in drawn]
    whole = sum(part["difference"] for part in parts)
    left = 0.25 + 0.083 * max(len(name) for name in [*names, "total"])
    figure, (axis,) = plot_canvas.create_stacked_axes(
        [0.29 * (len(drawn) + 1) + 0.1], top=0.42, gap=0, bottom=0.56, left=left
    )
    most = max(abs(part["difference"]) for part in drawn)
    factor, unit = plot_canvas.duration_scale_and_unit(max(most, abs(whole)))
    texts, rows, reach = [], [], []
    for place, part in enumerate([*drawn, {"name": "total", "writer": "", "difference": whole, "simulated": False}]):
        value = part["difference"] * factor
        colour = "#D55E00" if value > 0 else "#0072B2"
        last = place == len(drawn)
        axis.barh(
            place,
            value,
            height=0.72,
            facecolor="#DDDDDD" if last else f"{colour}88",
            edgecolor=GREY if last else colour,
            hatch="///" if part["simulated"] else None,
        )
        confidence = part.get("confidence") or {}
        low, high = confidence.get("low"), confidence.get("high")
        if low is not None and high is not None:
            axis.hlines(place, low * factor, high * factor, color="black", linewidth=1.3)
        text = f"{'+' if value > 0 else ''}{formats.format_duration(part['difference'])}"
        ends = [value, (low or 0) * factor, (high or 0) * factor]
        edge = max(ends) if value >= 0 else min(ends)
        reach += [(edge, f" {text} "), *((end, "") for end in ends)]
        axis.text(edge, place, f" {text} ", va="center", ha="left" if value >= 0 else "right", fontsize=9.5)
        if not last:
            texts.append(
                f"{stage_title_in_plot(part['name'], part['simulated'])} by"
                f" {formats.stage_writer_display_name(part['writer'])}: {text}."
            )
            rows.append([part["name"], part["writer"], part["before"], part["after"], part["difference"], low, high])
    axis.axvline(0, color=GREY, linewidth=0.9)
    axis.set_yticks(range(len(drawn) + 1), [*names, "total"], fontsize=10)
    axis.set_ylim(len(drawn) + 0.5, -0.5)
    axis.set_xlim(*plot_canvas.axis_limits_for_labels(reach, left))
    axis.grid(axis="y", visible=False)
    axis.set_xlabel(f"difference of the mean time ({unit}); black: 95 %", loc="right")
    title = plot_canvas.title_with_label("What makes up the difference", label)
    plot_canvas.draw_figure_title(figure, title)
    columns = ["stage", "writer", "before_s", "after_s", "difference_s", "low_s", "high_s"]
    return PlotDrawing(
        figure, title, f"{title}, {formats.format_duration(whole)} in total. {' '.join(texts)}", columns, rows
    )


def link_from_run_reports(tops: Iterable[Path], target: Path, title: str, made: str, template: Path) -> list[str]:
    """Link from the report of each run to the page ``target``; return notes on those that could not be changed.

    template: of the comparison; without a template of the links beside it, no links are added.
    """
    fragment = template.parent / FRAGMENT
    notes = []
    for top in dict.fromkeys(tops):
        folder = top / "report"
        if not fragment.is_file() or not (folder / "index.html").is_file():
            continue
        try:
            with files.hold_folder_lock(folder):
                _link_from_run_report(folder, target, title, made, fragment)
        except (OSError, DataError, UnicodeDecodeError) as error:
            notes.append(f"{folder / 'index.html'} has no link to the comparison: {error}")
    return notes


def _link_from_run_report(folder: Path, target: Path, title: str, made: str, fragment: Path) -> None:
    path = os.path.relpath(target, folder)
    entries = [
        comparison for comparison in page_content.find_existing_comparisons(folder) if comparison["path"] != path
    ]
    entries = [*entries, {"path": path, "title": title, "made": made}][-MOST:]
    document = {"schema": "comparisons/1", "comparisons": entries}
    files.write_json(folder / page_content.COMPARISONS, document, "comparisons/1")
    whole = (folder / "index.html").read_text(encoding="utf-8")
    before, begin, rest = whole.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if begin and end:
        links = write_report.render_template(fragment, {"comparisons": entries}).strip()
        files.replace_text(folder / "index.html", f"{before}{links}{after}")


def relative_path_to_report(top: Path, target: Path) -> str:
    """Return the relative path from the page ``target`` to the report of a run, empty without a report."""
    index = top / "report" / "index.html"
    return os.path.relpath(index, target.parent) if index.is_file() else ""
