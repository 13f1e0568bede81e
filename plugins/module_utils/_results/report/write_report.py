# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the report: plots as PNG and CSV files, and one self-contained HTML file."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, plain_text
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ProcessPool
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import (
    run_reader,
    schema_migration,
    timeline_views,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.each_point import (
    Result,
    read_timelines_by_point,
    sha256_of_file,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Run
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

from ..judge import headline
from ..kpi import read_point_data
from ..kpi.point_data import PointData
from . import figure_texts, judged_plots, matrix_plots, page_content, plot_canvas
from .failure_plots import draw_failed_ranks, draw_gpu_seconds
from .measurement_plots import draw_captured_metrics, draw_training_loss
from .placement_plots import draw_placement
from .plot_canvas import PlotDrawing, PlotFile
from .progress_plots import draw_cluster_occupancy, draw_workload_counts, draw_workload_stage_raster
from .request_plots import draw_rate_against_latency, draw_single_requests, draw_token_gaps
from .scale_plots import draw_servers_over_time
from .share_plots import draw_queue_shares
from .stage_plots import (
    draw_point_latency_waterfall,
    draw_saturation_curves,
    draw_stage_distributions,
    draw_stage_durations,
)

#: In the order of the page.
POINT_PLOTS: dict[str, Callable[[PointData, str, float], PlotDrawing | None]] = {
    # First, because it is the purpose of a load in steps; other loads have none.
    "rate": lambda data, label, gpus: draw_rate_against_latency(data, label),
    "servers": lambda data, label, gpus: draw_servers_over_time(data, label),
    "saturation": lambda data, label, gpus: draw_saturation_curves(data, label),
    "requests": lambda data, label, gpus: draw_single_requests(data, label),
    "gaps": lambda data, label, gpus: draw_token_gaps(data, label),
    "ranks": lambda data, label, gpus: draw_failed_ranks(data, label),
    "gpu_seconds": lambda data, label, gpus: draw_gpu_seconds(data, label),
    "counts": lambda data, label, gpus: draw_workload_counts(data, label),
    "raster": lambda data, label, gpus: draw_workload_stage_raster(data, label),
    "waterfall": lambda data, label, gpus: draw_point_latency_waterfall(data, label),
    "occupancy": draw_cluster_occupancy,
    "shares": lambda data, label, gpus: draw_queue_shares(data, label),
    "placement": lambda data, label, gpus: draw_placement(data, label),
    "distributions": lambda data, label, gpus: draw_stage_distributions(data, label),
    "durations": lambda data, label, gpus: draw_stage_durations(data, label),
    "loss": lambda data, label, gpus: draw_training_loss(data, label),
    "metrics": lambda data, label, gpus: draw_captured_metrics(data, label),
}
#: The slowest first, so that all processors finish at about the same time.
LONGEST_FIRST = (
    "ranks",
    "gpu_seconds",
    "placement",
    "shares",
    "durations",
    "distributions",
    "raster",
    "waterfall",
    "counts",
    "occupancy",
    "saturation",
    "rate",
    "servers",
    "gaps",
    "requests",
    "metrics",
    "loss",
)
#: What follows the number of a point: nothing, or the nodes of the workloads that are drawn.
SUFFIXES = ("", f"-{timeline_views.REAL}", f"-{timeline_views.SIMULATED}")
#: Whether to draw confidence bands. The benchmark turns them off, to time drawing without resampling.
BANDS = True
#: Data of the points for the worker processes, which are forked so that it is not copied.
_DRAWN_FROM: dict[str, PointData] = {}
Job = tuple[str, str, Path, str, float]


def draw_point_plot(data: PointData, name: str, path: Path, label: str = "", gpus: float = 0) -> PlotFile | None:
    """Draw one plot of a point as <path>.png and <path>.csv; None without data for it.

    label: the point if there are several, and the selection. gpus: number of GPUs of the cluster.
    """
    with plot_canvas.plot_style_context():
        drawing = POINT_PLOTS[name](data, label, gpus)
        return plot_canvas.write_png_and_csv(drawing, path) if drawing is not None else None


def schedule_decisions(run: Run) -> list[dict[str, str]]:
    """Return the decisions of a run that repeats or bisects, one line each; none for any other run."""
    if not run.repeats and not run.bisection:
        return []
    kinds = {"decided": "", "finished": "end"}
    return [
        {"at": str(line["at"]), "point": str(line.get("point") or kinds[line["type"]]), "why": str(line["why"])}
        for line in run.schedule
        if line.get("type") in kinds
    ]


def repeated_section(run: Run, verdict: Mapping[str, Any], folder: Path, notes: list[str]) -> list[dict[str, Any]]:
    """Return plot and sentence of each figure that was repeated; none if points are not repeated."""
    sections: list[dict[str, Any]] = []
    for place, kpi in enumerate(judged_plots.repeated_kpis(verdict.get("kpis") or ()) if run.repeats else ()):
        label = f"point {kpi['point']}" if len({point.of for point in run.points}) > 1 else ""
        try:
            plot = judged_plots.draw_repetition(kpi, run.schedule, folder / f"repeated_{place:02d}", label)
        except ImportError:
            return sections  # the plots of the points report it
        except Exception as error:  # any exception of a drawing library on unusual data
            notes.append(f"attempts of {kpi['name']} could not be drawn: {type(error).__name__}: {error}")
        else:
            limit = (kpi.get("limit") or {}).get("text")
            sections.append(
                {
                    "plot": plot,
                    "text": " ".join(dict.fromkeys(sentence for sentence in (limit, kpi["why"]) if sentence)),
                }
            )
    return sections


def bisection_section(run: Run, folder: Path, notes: list[str]) -> dict[str, Any]:
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
        "rows": judged_plots.bisection_rows(bisection, unit),
        "plot": None,
    }
    try:
        return {**section, "plot": judged_plots.draw_bisection(bisection, unit, folder / "bisection")}
    except ImportError:
        return section
    except Exception as error:  # as above
        notes.append(f"the bisection could not be drawn: {type(error).__name__}: {error}")
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
    with lock_report_folder(folder):
        return _write_report_files(run, verdict, tables, template, folder)


@contextlib.contextmanager
def lock_report_folder(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder of a report, since a replot may write it at the same time as the run."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # released when the process ends in any way
        yield
    finally:
        os.close(descriptor)


def _write_report_files(
    run: Run, verdict: Mapping[str, Any], tables: Mapping[str, TimelineTable | None], template: Path, folder: Path
) -> tuple[Path, list[str]]:
    plots = folder / "plots"
    for old in [*plots.glob("*.png"), *plots.glob("*.csv")]:
        old.unlink()
    notes: list[str] = []
    content = page_content.report_template_variables(run, verdict, tables)
    labels = {point["number"]: _plot_label_of_point(point, tables.get(point["number"])) for point in content["points"]}
    drawn = _draw_all(run, tables, plots, labels, notes)
    for point in content["points"]:
        point["plots"] = [embedded_plot_variables(drawn_plot) for drawn_plot in drawn.get(point["number"], [])]
    content["across"] = [
        embedded_plot_variables(drawn_plot) for drawn_plot in _draw_plots_across_points(run, content, plots, notes)
    ]
    content["history"] = _history_plots_with_sentences(verdict, content, plots, notes)
    content |= _repetition_and_bisection_sections(run, verdict, plots, notes)
    content["missing"] = [*content["missing"], *notes]
    path = folder / "index.html"
    files.replace_text(path, render(template, content))
    return path, notes


def _plot_label_of_point(point: Mapping[str, Any], table: TimelineTable | None) -> str:
    """Return the second part of a plot's title: the point, and the selection of workloads."""
    selection = table.header.get("selection") if table is not None else None
    return ", ".join(
        part for part in (point["label"] if point["several"] else "", selection and selection["text"]) if part
    )


def _draw_all(
    run: Run, tables: Mapping[str, TimelineTable | None], folder: Path, labels: Mapping[str, str], notes: list[str]
) -> dict[str, list[PlotFile]]:
    """Return point number -> plots, drawn in parallel, since each takes some tenths of a second."""
    gpus = float((run.clusters.get("sutest") or {}).get("gpus") or 0)
    points = {point.number: point for point in run.points}
    jobs = []
    for number, table in tables.items():
        if table is None or not len(table):
            continue
        point = points[number]
        extras = read_point_data.extras_for_plots(run, point, table, notes)
        for suffix, part in _real_and_simulated_tables(table):
            _DRAWN_FROM[number + suffix] = PointData(
                part, read_point_data.extras_of_workload_subset(extras, part), resample=BANDS
            )
            nodes = f"on {suffix[1:]} nodes" if suffix else ""
            label = ", ".join(part for part in (labels.get(number, ""), nodes) if part)
            prefix = number + suffix.replace("-", "_")
            jobs += [(number + suffix, name, folder / f"{prefix}_{name}", label, gpus) for name in LONGEST_FIRST]
    try:
        results = _on_all_processors(jobs)
    finally:
        _DRAWN_FROM.clear()
    drawn: dict[str, dict[str, PlotFile]] = {}
    for (number, name, *_rest), (plot, trouble) in zip(jobs, results, strict=True):
        if plot is not None:
            drawn.setdefault(number, {})[name] = plot
        if trouble and trouble not in notes:
            notes.append(trouble)
    return {
        number: [
            plots[name]
            for suffix in SUFFIXES
            if (plots := drawn.get(number + suffix))
            for name in POINT_PLOTS
            if name in plots
        ]
        for number in tables
    }


def _real_and_simulated_tables(table: TimelineTable) -> list[tuple[str, TimelineTable]]:
    """Return the tables of a point that are drawn: workloads on real and on simulated nodes are kept apart."""
    parts = timeline_views.split_real_simulated(table)
    return list(zip(SUFFIXES[1:], parts, strict=True)) if parts else [("", table)]


def _on_all_processors(jobs: Sequence[Job]) -> list[tuple[PlotFile | None, str]]:
    processes = min(len(jobs), os.cpu_count() or 1)
    if processes <= 1:
        return [_draw_plot_or_error(job) for job in jobs]
    with contextlib.suppress(ImportError):
        plot_canvas.import_drawing_libraries()  # once here, not in each process
    with ProcessPool(processes) as pool:
        return list(pool.map(_draw_plot_or_error, jobs))


def _draw_plot_or_error(job: Job) -> tuple[PlotFile | None, str]:
    """Return a plot, or why it failed: a failing plot must not make the report fail."""
    number, name, path, label, gpus = job
    try:
        return draw_point_plot(_DRAWN_FROM[number], name, path, label, gpus), ""
    except ImportError as error:
        return None, f"no plots: {error.name} is not installed"
    except Exception as error:  # any exception of a drawing library on unusual data
        return None, f"plot {name} of point {number} could not be drawn: {type(error).__name__}: {error}"


def _draw_plots_across_points(run: Run, content: Mapping[str, Any], folder: Path, notes: list[str]) -> list[PlotFile]:
    labels = [point["label"] for point in content["points"]]
    numbers = [point["number"] for point in content["points"]]
    # Those of the verdict are of the attempts that count; here each attempt has its figures.
    figures = headline.headline_figures(run.points) or content["headline"]

    def points() -> list[PlotFile]:
        varied = matrix_plots.matrix_grid([point.settings for point in run.points], numbers)
        if varied is not None:
            return matrix_plots.draw_heatmaps(figures, varied, folder)
        return matrix_plots.draw_bars(figures, labels, numbers, folder)

    drawn = _unless_broken("plots across points", points, notes)

    def effects() -> list[PlotFile]:
        trainings = matrix_plots.draw_effects(run.points, folder)
        return trainings or matrix_plots.draw_repeated_effects(figures, run.points, folder)

    return drawn + _unless_broken("effects of settings", effects, notes)


def _unless_broken(what: str, draw: Callable[[], list[PlotFile]], notes: list[str]) -> list[PlotFile]:
    try:
        return draw()
    except ImportError:
        return []  # the plots of the points report it
    except Exception as error:  # as above
        notes.append(f"{what} could not be drawn: {type(error).__name__}: {error}")
        return []


def _history_plots_with_sentences(
    verdict: Mapping[str, Any], content: Mapping[str, Any], folder: Path, notes: list[str]
) -> list[dict[str, Any]]:
    """Return the pictures that explain the verdict, each with its sentences."""
    labels = {point["number"]: point["label"] if point["several"] else "" for point in content["points"]}
    first = next((entry["name"] for entry in content["headline"]), "")
    pictures: list[dict[str, Any]] = []
    for place, kpi in enumerate(judged_plots.histories_to_draw(verdict.get("kpis") or (), first)):
        try:
            plot = judged_plots.draw_history(kpi, folder / f"history_{place:02d}", labels.get(kpi["point"], ""))
        except ImportError:
            return pictures  # the plots of the points report it
        except Exception as error:  # as above
            notes.append(f"history of {kpi['name']} could not be drawn: {type(error).__name__}: {error}")
        else:
            pictures.append(
                {
                    "plot": embedded_plot_variables(plot),
                    "text": judged_plots.history_sentences(kpi),
                    "reading": kpi["reading"],
                }
            )
    return pictures


def _repetition_and_bisection_sections(
    run: Run, verdict: Mapping[str, Any], folder: Path, notes: list[str]
) -> dict[str, Any]:
    """Return the sections on repeated points and on a bisection."""
    repeated = repeated_section(run, verdict, folder, notes)
    bisection = bisection_section(run, folder, notes)
    if bisection and bisection["plot"]:
        bisection["plot"] = embedded_plot_variables(bisection["plot"])
    return {
        "repeated": [{**section, "plot": embedded_plot_variables(section["plot"])} for section in repeated],
        "bisection": bisection,
        "decisions": schedule_decisions(run),
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
    return plain_text.visible_text(value) if is_text else value


def render(template: Path, content: Mapping[str, Any]) -> str:
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
    environment.filters.update(figure_texts.FILTERS)
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
