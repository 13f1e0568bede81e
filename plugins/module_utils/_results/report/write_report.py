# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the report: plots as PNG and CSV files, and one self-contained HTML file."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, untrusted_input
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader, schema_migration
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import (
    Result,
    Run,
    read_timelines_by_point,
    sha256_of_file,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

from . import kpi_text_filters, page_content, plot_canvas, verdict_plots
from .draw_run_plots import draw_plots_across_points, draw_plots_of_points, plot_label_of_point
from .plot_canvas import PlotFile


def schedule_decision_lines(run: Run) -> list[dict[str, str]]:
    """Return the decisions of a run that repeats or bisects, one line each; none for any other run."""
    if not run.repeats and not run.bisection:
        return []
    kinds = {"decided": "", "finished": "end"}
    return [
        {"at": str(line["at"]), "point": str(line.get("point") or kinds[line["type"]]), "why": str(line["why"])}
        for line in run.schedule
        if line.get("type") in kinds
    ]


def section_of_repeated_figures(
    run: Run, verdict: Mapping[str, Any], folder: Path, notes: list[str]
) -> list[dict[str, Any]]:
    """Return plot and sentence of each figure that was repeated; none if points are not repeated."""
    sections: list[dict[str, Any]] = []
    for place, kpi in enumerate(verdict_plots.repeated_kpis_to_draw(verdict.get("kpis") or ()) if run.repeats else ()):
        label = f"point {kpi['point']}" if len({point.of for point in run.points}) > 1 else ""
        plot = None
        # If a library is missing, the plots of the points report it.
        with contextlib.suppress(ImportError), plot_canvas.note_failed_plots(f"attempts of {kpi['name']}", notes):
            plot = verdict_plots.draw_repeated_figure(kpi, run.schedule, folder / f"repeated_{place:02d}", label)
        if plot is not None:
            limit = (kpi.get("limit") or {}).get("text")
            sections.append(
                {
                    "plot": plot,
                    "text": " ".join(dict.fromkeys(sentence for sentence in (limit, kpi["why"]) if sentence)),
                }
            )
    return sections


def section_of_bisection(run: Run, folder: Path, notes: list[str]) -> dict[str, Any]:
    """Return sentence, table and plot of a bisection; empty without one."""
    bisection = run.bisection
    if not bisection:
        return {}
    kpis = (kpi for point in run.points for kpi in point.kpis or [])
    unit = next((str(kpi["unit"]) for kpi in kpis if kpi["name"] == bisection["kpi"]), "")
    section = {
        "why": bisection["why"],
        "over": bisection["over"],
        "kpi": bisection["kpi"],
        "rows": verdict_plots.bisection_rows(bisection, unit),
        "plot": None,
    }
    with contextlib.suppress(ImportError), plot_canvas.note_failed_plots("the bisection", notes):
        section["plot"] = verdict_plots.draw_bisection(bisection, unit, folder / "bisection")
    return section


def render_report(
    run: Run, verdict: Mapping[str, Any], tables: Mapping[str, TimelineTable | None], template: Path
) -> tuple[Path, list[str]]:
    """Write report/plots/*.png and *.csv and report/index.html; return its path, and notes on plots that failed.

    template: Jinja2 template, in one directory with the files that it includes. Raises InputError if it is missing.
    """
    if not template.is_file():
        raise InputError(f"report template {template} does not exist")
    folder = run.top / "report"
    (folder / "plots").mkdir(parents=True, exist_ok=True)
    with files.hold_folder_lock(folder):  # a replot may write it at the same time as the run
        return _write_report_files(run, verdict, tables, template, folder)


def _write_report_files(
    run: Run, verdict: Mapping[str, Any], tables: Mapping[str, TimelineTable | None], template: Path, folder: Path
) -> tuple[Path, list[str]]:
    plots = folder / "plots"
    for old in [*plots.glob("*.png"), *plots.glob("*.csv")]:
        old.unlink()
    notes: list[str] = []
    content = page_content.report_template_variables(run, verdict, tables)
    labels = {point["number"]: plot_label_of_point(point, tables.get(point["number"])) for point in content["points"]}
    drawn = draw_plots_of_points(run, tables, plots, labels, notes)
    for point in content["points"]:
        point["plots"] = [embedded_plot_variables(drawn_plot) for drawn_plot in drawn.get(point["number"], [])]
    content["across"] = [
        embedded_plot_variables(drawn_plot) for drawn_plot in draw_plots_across_points(run, content, plots, notes)
    ]
    content["history"] = _history_plots_with_sentences(verdict, content, plots, notes)
    content |= _repetition_and_bisection_sections(run, verdict, plots, notes)
    content["missing"] = [*content["missing"], *notes]
    path = folder / "index.html"
    files.replace_text(path, render_template(template, content))
    return path, notes


def _history_plots_with_sentences(
    verdict: Mapping[str, Any], content: Mapping[str, Any], folder: Path, notes: list[str]
) -> list[dict[str, Any]]:
    """Return the pictures that explain the verdict, each with its sentences."""
    labels = {point["number"]: point["label"] if point["several"] else "" for point in content["points"]}
    first = next((entry["name"] for entry in content["headline"]), "")
    pictures: list[dict[str, Any]] = []
    for place, kpi in enumerate(verdict_plots.histories_to_draw(verdict.get("kpis") or (), first)):
        plot = None
        with contextlib.suppress(ImportError), plot_canvas.note_failed_plots(f"history of {kpi['name']}", notes):
            plot = verdict_plots.draw_history(kpi, folder / f"history_{place:02d}", labels.get(kpi["point"], ""))
        if plot is not None:
            pictures.append(
                {
                    "plot": embedded_plot_variables(plot),
                    "text": verdict_plots.history_sentences(kpi),
                    "reading": kpi["reading"],
                }
            )
    return pictures


def _repetition_and_bisection_sections(
    run: Run, verdict: Mapping[str, Any], folder: Path, notes: list[str]
) -> dict[str, Any]:
    """Return the sections on repeated points and on a bisection."""
    repeated = section_of_repeated_figures(run, verdict, folder, notes)
    bisection = section_of_bisection(run, folder, notes)
    if bisection and bisection["plot"]:
        bisection["plot"] = embedded_plot_variables(bisection["plot"])
    return {
        "repeated": [{**section, "plot": embedded_plot_variables(section["plot"])} for section in repeated],
        "bisection": bisection,
        "decisions": schedule_decision_lines(run),
    }


def embedded_plot_variables(plot: PlotFile) -> dict[str, Any]:
    """Return the variables of a plot in a template: embedded image, size, and relative paths of its files."""
    data = plot.path.read_bytes()
    # The PNG header contains the size in bytes 16 to 24, as two big-endian numbers.
    width, height = (int.from_bytes(data[place : place + 4], "big") for place in (16, 20))
    return {
        "title": plot.title,
        "alt": plot.alt,
        "file": f"plots/{plot.path.name}",
        "numbers": f"plots/{plot.data.name}" if plot.data else "",
        "data": f"data:image/png;base64,{base64.b64encode(data).decode('ascii')}",
        "width": width,
        "height": height,
    }


def _neutralise_text(value: Any) -> Any:
    """Return a text with its control characters made visible; markup and other values as they are."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return untrusted_input.escape_control_characters(value) if is_text else value


#: Seconds of processor time for the page; one of 100,000 workloads takes some seconds.
RENDERING_LIMIT = 300.0


def render_template(template: Path, content: Mapping[str, Any]) -> str:
    """Render the template; all values are escaped, and an undefined variable is an error."""
    import jinja2.sandbox

    environment = jinja2.sandbox.SandboxedEnvironment(  # a template may be somebody else's
        loader=jinja2.FileSystemLoader(template.parent),
        autoescape=True,
        finalize=_neutralise_text,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(kpi_text_filters.FILTERS)
    with untrusted_input.limit_processor_time(RENDERING_LIMIT, f"template {template}", hint=""):
        return environment.get_template(template.name).render(content)


def write_report(run_dir: str, template: str) -> Result:
    """Write report/index.html and its plots."""
    run = run_reader.read_run_directory(Path(run_dir))
    notes: list[str] = []
    loaded = read_timelines_by_point(run, notes)
    path = run.top / "verdict.json"
    verdict: dict[str, Any] = {}
    try:
        verdict = schema_migration.read_document_migrated(path, "verdict")
    except DataError as error:
        run.missing.append(f"verdict.json: {error}" if path.exists() else "verdict.json is missing")
    page = run.top / "report" / "index.html"
    before = sha256_of_file(page)
    written, trouble = render_report(run, verdict, loaded, Path(template))
    plots = sorted(str(path) for path in (written.parent / "plots").glob("*.png"))
    return {
        "changed": before != sha256_of_file(page),
        "path": str(written),
        "plots": plots,
        "warnings": trouble,
        "missing": [*run.missing, *notes, *trouble],
        "summary": f"{written}, {formats.format_count(len(plots), 'plot')}",
    }
