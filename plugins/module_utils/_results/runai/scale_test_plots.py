# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""general.png and detailed.png, laid out as the plots of the Run:ai scale-test tool.

The panels, their titles and their order are the tool's, so that plots of both can be laid side by side. A panel shows
the workloads that have the event; its title contains their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import Table

from . import scale_test_formats
from .write_scale_test_files import Stamps

GENERAL, DETAILED = "general", "detailed"
PLOTS = (GENERAL, DETAILED)
#: Panels of each plot. Those of OPTIONAL are drawn only if a workload has the event.
PANELS = {
    GENERAL: ("Total Pod Scheduling Decision", "Total Backend Job Creation"),
    DETAILED: tuple(event for event in scale_test_formats.EVENTS if not event.startswith("Total ")),
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


def panels(of: Sequence[Stamps], plot: str) -> dict[str, Panel]:
    """Return event -> its values in submission order, for the panels of a plot."""
    found: dict[str, Panel] = {event: [] for event in PANELS[plot]}
    for one in of:
        deltas, sent = one.deltas(), one.moments[scale_test_formats.SUBMIT]
        for event, values in found.items():
            delta = deltas[event]
            if delta is not None:
                values.append((sent, delta))
    return {event: values for event, values in found.items() if values or event not in OPTIONAL}


def simulated_events(table: Table) -> set[str]:
    """Return the events whose time depends on a stage that is simulated."""
    simulated = {one["name"] for one in table.stages if one.get("simulated")}

    def is_simulated(event: str) -> bool:
        if event == scale_test_formats.SUBMISSION:
            return False
        key, since = scale_test_formats.EVENTS[event]
        stages = scale_test_formats.STAMPS[key][0]
        return any(one in simulated for one in stages) or is_simulated(since)

    return {event for event in scale_test_formats.EVENTS if is_simulated(event)}


def title(event: str, values: Panel, plot: str, simulated: bool) -> str:
    """Return the title of a panel, with the mean."""
    since = scale_test_formats.EVENTS[event][1]
    mean = f"average: {sum(value for _sent, value in values) / len(values):.2f} seconds" if values else "no workload"
    text = f"{event} Time from {since}" if plot == GENERAL else f"Time between {since} and {event}"
    return f"{text} ({mean}){' – SIMULATED' if simulated else ''}"


def time_of_day(moment: datetime, span: float) -> str:
    """Return the label of a moment on an axis of ``span`` seconds: with tenths if whole seconds would repeat."""
    return moment.strftime("%H:%M:%S.%f")[:-5] if span < _TENTHS else moment.strftime("%H:%M:%S")


def draw(of: Sequence[Stamps], simulated: set[str], plot: str, path: Path) -> None:
    """Write a plot as PNG. ``of``: the workloads in submission order. Raises ImportError without matplotlib."""
    import matplotlib.dates
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    shown = panels(of, plot)
    columns, width, height = (
        (1, _GENERAL_WIDTH, _GENERAL_HEIGHT) if plot == GENERAL else (2, _DETAILED_WIDTH, _DETAILED_HEIGHT)
    )
    figure = Figure(figsize=(width, height * len(shown)), layout="tight")
    figure.suptitle(f"Total number of jobs run: {len(of)}", fontsize=20)
    axes = figure.subplots(len(shown), columns, squeeze=False)
    for row, (event, values) in zip(axes, shown.items(), strict=True):
        for axis in row:
            axis.set_title(title(event, values, plot, event in simulated))
        seconds = [value for _sent, value in values]
        if plot == GENERAL:
            row[0].plot(range(len(seconds)), seconds)
            row[0].set(xlabel="Number of jobs", ylabel="Time (seconds)")
            continue
        moments = [datetime.fromtimestamp(sent, timezone.utc) for sent, _value in values]
        span = (moments[-1] - moments[0]).total_seconds() if moments else 0.0
        row[0].plot(moments, seconds)
        row[0].xaxis.set_major_formatter(
            FuncFormatter(lambda at, _place, span=span: time_of_day(matplotlib.dates.num2date(at), span))
        )
        row[0].set(xlabel="Submit Timestamp (UTC)", ylabel="Time (seconds)")
        row[1].hist(seconds)
        row[1].set(xlabel="Time (seconds)", ylabel="Number of jobs")
    FigureCanvasAgg(figure).print_png(str(path))


def chosen(of: Sequence[Any], head: int, tail: int) -> Sequence[Any]:
    """Return the first ``head`` workloads and of these the last ``tail``; 0 for all."""
    first = of[:head] if head else of
    return first[-tail:] if tail else first
