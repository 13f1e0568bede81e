# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the files and plots of the Run:ai scale-test tool from timelines.

A stage of a timeline is an interval; the tool needs a moment: the midpoint of the interval narrowed by the stage order.
The panels of general.png and detailed.png, their titles and their order are the tool's, so that plots of both can be
laid side by side. A panel shows the workloads that have the event; its title contains their mean.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from math import isnan
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import escape_csv_row
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader, timeline_table, timeline_views
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

from . import scale_test_files

#: Workloads that were never created have no row.
_NEVER_THERE = ("refused", "unsent", "lost")
_NEEDED = (
    scale_test_files.CREATED,
    "firstPodCreatedTimestamp",
    "lastPodCreatedTimestamp",
    scale_test_files.DECISION,
)
GENERAL, DETAILED = "general", "detailed"
PLOTS = (GENERAL, DETAILED)
#: Panels of each plot. Those of OPTIONAL are drawn only if a workload has the event.
PANELS = {
    GENERAL: ("Total Pod Scheduling Decision", "Total Backend Job Creation"),
    DETAILED: tuple(event for event in scale_test_files.EVENTS if not event.startswith("Total ")),
}
OPTIONAL = frozenset(("First Eviction", "First PVC Bind Request", "First PVC Bind"))
OPTIONAL |= {"Backend Job Creation", "Total Backend Job Creation"}
#: Sizes in inches, as the tool's.
_GENERAL_WIDTH, _GENERAL_HEIGHT = 15, 3
_DETAILED_WIDTH, _DETAILED_HEIGHT = 30, 1.7
#: A time axis that is shorter (seconds) has tenths of a second.
_TENTHS = 10.0
#: (Submission as seconds since the epoch, seconds) of each workload with an event.
Panel = list[tuple[float, float]]
#: Kinds of the workloads that are submitted to Run:ai.
KINDS = frozenset(("TrainingWorkload", "DistributedWorkload", "InteractiveWorkload"))


@dataclass(frozen=True)
class WorkloadTimes:
    """The times of a workload, in seconds. ``sentinels``: timestamps with the value of another one, as not measured."""

    moments: dict[str, float]
    sentinels: frozenset[str]

    def deltas(self) -> dict[str, float | None]:
        """Return event -> seconds since the event that it is counted from, never negative; None for a sentinel."""
        moments = self.moments
        seconds_by_event: dict[str, float | None] = {}
        for event, (key, reference) in scale_test_files.EVENTS.items():
            since = scale_test_files.timestamp_field_of_event(reference)
            known = key not in self.sentinels
            seconds_by_event[event] = round(max(moments[key] - moments[since], 0.0), 6) if known else None
        return seconds_by_event


def workload_times(table: TimelineTable, spans: timeline_views.Spans, row: int) -> WorkloadTimes | None:
    """Return the times of a workload; None unless it has every object that the tool requires.

    Missing timestamps get the tool's sentinel. Without a job of the platform, the time of the workload is used, and
    without a pod group the time of the last pod.
    """
    moments: dict[str, float] = {}
    for key, (stages, _of_server) in scale_test_files.STAMPS.items():
        span = next((spans[stage] for stage in stages if stage in spans and not isnan(spans[stage][1][row])), None)
        if span is not None:
            moments[key] = float(span[0][row] + span[1][row]) / 2
    sent = table.moments["sent"][row]
    if any(key not in moments for key in _NEEDED):
        return None
    replaced = {**scale_test_files.FALLBACKS, **scale_test_files.SENTINELS}
    missing = {key: moments[other] for key, other in replaced.items() if key not in moments}
    return WorkloadTimes({**moments, **missing, scale_test_files.SUBMIT: sent}, frozenset(missing))


def _workload_name_fields(table: TimelineTable, row: int) -> dict[str, str]:
    project = table.template[row] or "default"  # a template is named after its project
    name = scale_test_files.job_name(table.index[row])
    return {"jobName": name, "projectName": project, "jobNamespace": f"runai-{project}"}


def rows_in_submission_order(table: TimelineTable) -> list[int]:
    """Return the rows of workloads that were sent, in submission order."""
    rows = [row for row in range(len(table)) if not isnan(table.moments["sent"][row])]
    return sorted(rows, key=lambda row: table.moments["sent"][row])


def submitted_json_rows(table: TimelineTable) -> list[dict[str, str]]:
    """Return the rows of submitted.json: created workloads in submission order, keys in the tool's order."""
    rows = [row for row in rows_in_submission_order(table) if table.outcome[row] not in _NEVER_THERE]
    return [
        {
            **_workload_name_fields(table, row),
            scale_test_files.SUBMIT: scale_test_files.format_iso_time(table.moments["sent"][row]),
        }
        for row in rows
    ]


def sampled_json_rows(table: TimelineTable) -> list[dict[str, str]]:
    """Return the rows of sampled.json: workloads with every object, keys and time formats as the tool's."""
    entries, spans = [], timeline_views.narrowed_spans(table)
    for row in range(len(table)):
        seen = workload_times(table, spans, row)
        if seen is None:
            continue
        names = _workload_name_fields(table, row)
        entry = {key: names[key] for key in scale_test_files.SAMPLED_KEYS[:3]}
        for key, (_stages, of_server) in scale_test_files.STAMPS.items():
            entry[key] = scale_test_files.format_whole_second(seen.moments[key], of_server)  # sentinels included
        entries.append(entry)
    return entries


def fully_measured_workloads(table: TimelineTable, skip_errors: bool = True) -> list[tuple[int, WorkloadTimes]]:
    """Return (row, times) of the workloads with every object, in submission order.

    skip_errors: leave out workloads whose times contradict each other.
    """
    spans = timeline_views.narrowed_spans(table)
    rows = [row for row in rows_in_submission_order(table) if not (skip_errors and row in table.contradictions)]
    return [(row, seen) for row in rows if (seen := workload_times(table, spans, row)) is not None]


def times_csv_rows(table: TimelineTable, of: Sequence[tuple[int, WorkloadTimes]]) -> Iterator[list[Any]]:
    """Yield the rows of times.csv: a header, then 26 values per workload, differences in seconds (0 of a sentinel)."""
    yield [*scale_test_files.MOMENT_COLUMNS, *(f"{event} (s)" for event in scale_test_files.EVENTS)]
    for row, seen in of:
        names = _workload_name_fields(table, row)
        shown = [names[key] for key in scale_test_files.SAMPLED_KEYS[:3]]
        keys = (*scale_test_files.STAMPS, scale_test_files.SUBMIT)
        shown += [scale_test_files.format_csv_time(seen.moments[key]) for key in keys]
        yield [*shown, *(delta or 0.0 for delta in seen.deltas().values())]


def _format_csv(rows: Iterable[list[Any]]) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows(escape_csv_row(row) for row in rows)
    return out.getvalue()


def write_runai_files(table: TimelineTable, folder: Path, skip_errors: bool = True) -> dict[str, int]:
    """Write the files of a point to ``folder``; return the number of workloads in each JSON file."""
    folder.mkdir(parents=True, exist_ok=True)
    sent, seen = submitted_json_rows(table), sampled_json_rows(table)
    # The tool's format: one array on one line, a space after each colon and comma, no newline at the end.
    files.replace_text(folder / scale_test_files.SUBMITTED, json.dumps(sent))
    files.replace_text(folder / scale_test_files.SAMPLED, json.dumps(seen))
    files.replace_text(
        folder / scale_test_files.TIMES,
        _format_csv(times_csv_rows(table, fully_measured_workloads(table, skip_errors))),
    )
    names = ([scale_test_files.job_name(index), name] for index, name in zip(table.index, table.name, strict=True))
    files.replace_text(folder / scale_test_files.NAMES, _format_csv([["jobName", "name"], *names]))
    return {scale_test_files.SUBMITTED: len(sent), scale_test_files.SAMPLED: len(seen)}


def plot_values_by_event(of: Sequence[WorkloadTimes], plot: str) -> dict[str, Panel]:
    """Return event -> its values in submission order, for the panels of a plot."""
    values_by_event: dict[str, Panel] = {event: [] for event in PANELS[plot]}
    for parameters in of:
        deltas, sent = parameters.deltas(), parameters.moments[scale_test_files.SUBMIT]
        for event, values in values_by_event.items():
            delta = deltas[event]
            if delta is not None:
                values.append((sent, delta))
    return {event: values for event, values in values_by_event.items() if values or event not in OPTIONAL}


def events_of_simulated_stages(table: TimelineTable) -> set[str]:
    """Return the events whose time depends on a stage that is simulated."""
    simulated = {stage["name"] for stage in table.stages if stage.get("simulated")}

    def is_simulated(event: str) -> bool:
        if event == scale_test_files.SUBMISSION:
            return False
        key, since = scale_test_files.EVENTS[event]
        stages = scale_test_files.STAMPS[key][0]
        return any(stage in simulated for stage in stages) or is_simulated(since)

    return {event for event in scale_test_files.EVENTS if is_simulated(event)}


def panel_title(event: str, values: Panel, plot: str, simulated: bool) -> str:
    """Return the title of a panel, with the mean."""
    since = scale_test_files.EVENTS[event][1]
    mean = f"average: {sum(value for _sent, value in values) / len(values):.2f} seconds" if values else "no workload"
    text = f"{event} Time from {since}" if plot == GENERAL else f"Time between {since} and {event}"
    return f"{text} ({mean}){' – SIMULATED' if simulated else ''}"


def time_axis_label(moment: datetime, span: float) -> str:
    """Return the label of a moment on an axis of ``span`` seconds: with tenths if whole seconds would repeat."""
    return moment.strftime("%H:%M:%S.%f")[:-5] if span < _TENTHS else moment.strftime("%H:%M:%S")


def draw_runai_plot(of: Sequence[WorkloadTimes], simulated: set[str], plot: str, path: Path) -> None:
    """Write a plot as PNG. ``of``: the workloads in submission order. Raises ImportError without matplotlib."""
    import matplotlib.dates
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    shown = plot_values_by_event(of, plot)
    columns, width, height = (
        (1, _GENERAL_WIDTH, _GENERAL_HEIGHT) if plot == GENERAL else (2, _DETAILED_WIDTH, _DETAILED_HEIGHT)
    )
    figure = Figure(figsize=(width, height * len(shown)), layout="tight")
    figure.suptitle(f"Total number of jobs run: {len(of)}", fontsize=20)
    axes = figure.subplots(len(shown), columns, squeeze=False)
    for row, (event, values) in zip(axes, shown.items(), strict=True):
        for axis in row:
            axis.set_title(panel_title(event, values, plot, event in simulated))
        seconds = [value for _sent, value in values]
        if plot == GENERAL:
            row[0].plot(range(len(seconds)), seconds)
            row[0].set(xlabel="Number of jobs", ylabel="Time (seconds)")
            continue
        moments = [datetime.fromtimestamp(sent, timezone.utc) for sent, _value in values]
        span = (moments[-1] - moments[0]).total_seconds() if moments else 0.0
        row[0].plot(moments, seconds)
        row[0].xaxis.set_major_formatter(
            FuncFormatter(lambda at, _place, span=span: time_axis_label(matplotlib.dates.num2date(at), span))
        )
        row[0].set(xlabel="Submit Timestamp (UTC)", ylabel="Time (seconds)")
        row[1].hist(seconds)
        row[1].set(xlabel="Time (seconds)", ylabel="Number of jobs")
    FigureCanvasAgg(figure).print_png(str(path))


def select_tail_of_head(of: Sequence[Any], head: int, tail: int) -> Sequence[Any]:
    """Return the first ``head`` workloads and of these the last ``tail``; 0 for all."""
    first = of[:head] if head else of
    return first[-tail:] if tail else first


def write_runai_files_of_points(
    run_dir: Path, all_points: bool, plots: Sequence[str], skip_errors: bool, head: int, tail: int
) -> dict[str, Any]:
    """Write the files of the points to ``runai/`` of each; return the module's result.

    all_points: also of points whose workloads did not go through Run:ai. head, tail: workloads to draw, 0 for all.
    Raises InputError for a negative number.
    """
    for name, number in (("head", head), ("tail", tail)):
        if number < 0:
            raise InputError(f"{name} is {number}, it must be 0 (all workloads) or more")
    points, warnings = {}, set()
    for point in run_reader.read_run_directory(run_dir).points:
        timeline = point.folder / "timeline.jsonl"
        if not timeline.exists():  # a point that did not start has none
            continue
        table = timeline_table.read_timeline_jsonl(timeline)
        if not all_points and KINDS.isdisjoint(table.kind):
            continue
        folder = point.folder / "runai"
        points[point.number] = write_runai_files(table, folder, skip_errors)
        try:
            _draw_plots(table, folder, plots, skip_errors, head, tail)
        except ImportError as error:
            warnings.add(f"no plots in {folder}: {error.name} is not installed")
    return {"changed": bool(points), "points": points, "warnings": sorted(warnings)}


def _draw_plots(
    table: TimelineTable, folder: Path, plots: Sequence[str], skip_errors: bool, head: int, tail: int
) -> None:
    seen = [stamps for _row, stamps in fully_measured_workloads(table, skip_errors)]
    shown = select_tail_of_head(seen, head, tail)
    simulated = events_of_simulated_stages(table)
    for plot in PLOTS:
        path = folder / f"{plot}.png"
        if plot in plots:
            draw_runai_plot(shown, simulated, plot, path)
        else:
            path.unlink(missing_ok=True)  # of an earlier report, which would show other data
