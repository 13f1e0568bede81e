# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Common parts of all plots: sizes, colours, axes positioned in inches, PNG files with a small palette, stages to draw.

Positions are computed here, since matplotlib's layout engines draw everything twice. matplotlib is imported with the
first plot, not with this file. Simulated stages carry SIMULATED in their title or legend and are drawn dashed or
hatched, so that they are recognizable without colour. Up to SINGLE workloads each is drawn with its error bar, more as
bands over groups of neighbours.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    escape_csv_cell,
    escape_csv_row,
)

from ..kpi.point_data import ENDED, SENT, PointData

#: The colour-blind safe palette of Okabe and Ito (2008) without yellow, which is too light on white; then two colours
#: of Tol (2021) that differ from them; then grid colours at a CIELAB distance of at least 20 from all others, also in
#: the simulation of protanopia and deuteranopia by Machado et al. (2009).
COLOURS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000", "#882255", "#999933"),
    *("#0000FC", "#6C2400", "#B4D890", "#000090", "#486CFC", "#90D8B4"),
)
#: Colours of common stages, the same in every run.
USUAL = {
    "created": "#0072B2",
    "accepted": "#999933",
    "pods_created": "#E69F00",
    "pods_scheduled": "#009E73",
    "running": "#CC79A7",
    "pods_running": "#D55E00",
    "pods_succeeded": "#56B4E9",
    "succeeded": "#000000",
}
GREY = "#595959"
#: Background of a panel whose stage is simulated.
SIMULATED_BACKGROUND = "#F6F1E4"
#: Sizes in inches except DPI. A plot is 650 px wide on a page and 360 px on a phone, where its text must be readable.
WIDTH, LEFT, RIGHT, DPI = 6.6, 0.92, 0.18, 160
#: Of the letters of a title that would be longer than the figure is wide.
LEAST_TITLE_SIZE = 6.5
LEGEND_ROW = 0.225
#: Maximum number of steps of a curve: more cannot be distinguished at this width.
MOST_STEPS = 3000
STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "axes.edgecolor": GREY,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "legend.borderaxespad": 0.2,
    "hatch.linewidth": 0.6,
    # Names and values may have dollar signs, between which matplotlib would read formulas, and fail.
    "text.parse_math": False,
}
#: Width of a letter in inches, at 10 points.
LETTER = 0.085
SINGLE = 400
SCHEDULED, RUNNING = ("pods_scheduled", "scheduled", "admitted"), ("pods_running", "running")
PODS_SUCCEEDED = "pods_succeeded"


def generate_distinct_colours() -> Iterator[str]:
    """Yield distinct colours: the palette, then lighter tints of it except black."""
    from matplotlib.colors import to_hex, to_rgb

    yield from COLOURS
    for level in range(1, 5):
        for colour in COLOURS:
            if colour != "#000000":
                red, green, blue = (1 - (1 - part) * 0.55**level for part in to_rgb(colour))
                yield to_hex((red, green, blue)).upper()


@dataclass(frozen=True)
class PlotFile:
    """One PNG file with its title and alternative text."""

    path: Path
    title: str
    alt: str
    data: Path | None = None  # the CSV file with its data


def import_drawing_libraries() -> None:
    """Import the drawing libraries, which takes longer than drawing. Raises ImportError."""
    import PIL.Image  # noqa: F401


@contextmanager
def note_failed_plots(what: str, notes: list[str]) -> Iterator[None]:
    """Note why a plot failed, for whatever reason: it must not make the page fail. Raises ImportError.

    what: the plot, as the note begins.
    """
    try:
        yield
    except ImportError:
        raise
    except Exception as error:  # any exception of a drawing library on unusual data
        notes.append(f"{what} could not be drawn: {type(error).__name__}: {error}")


def plot_style_context() -> Any:
    """Return a context manager for drawing to files, without a display, in our style."""
    import matplotlib

    matplotlib.use("Agg")
    return matplotlib.rc_context(STYLE)


def create_stacked_axes(
    heights: Sequence[float], top: float, gap: float, bottom: float, left: float = LEFT
) -> tuple[Any, list[Any]]:
    """Return a figure and stacked axes. All sizes in inches; ``bottom`` has room for the last label and the legend."""
    from matplotlib.figure import Figure

    total = top + sum(heights) + gap * (len(heights) - 1) + bottom
    figure = Figure(figsize=(WIDTH, total), dpi=DPI)
    axes = []
    edge = total - top
    for height in heights:
        place = (left / WIDTH, (edge - height) / total, (WIDTH - left - RIGHT) / WIDTH, height / total)
        axes.append(figure.add_axes(place, sharex=None))
        edge -= height + gap
    return figure, axes


def draw_figure_title(figure: Any, text: str) -> None:
    """Write the title of a figure at its upper left, smaller if it is longer than the figure is wide."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    width, height = figure.get_size_inches()
    written = figure.text(0.1 / WIDTH, 1 - 0.08 / height, text, ha="left", va="top", fontsize=12.5, fontweight="bold")
    needed = written.get_window_extent(FigureCanvasAgg(figure).get_renderer()).width / figure.dpi
    written.set_fontsize(max(LEAST_TITLE_SIZE, 12.5 * min(1.0, (width - 0.2) / needed)))


def draw_bottom_legend(figure: Any, axis: Any, columns: int, extra: Sequence[Any] = ()) -> None:
    """Add a legend at the bottom with the handles of ``axis`` (None for none) and ``extra`` handles."""
    handles = axis.get_legend_handles_labels()[0] if axis is not None else []
    figure.legend(handles=[*handles, *extra], loc="lower left", ncols=columns, columnspacing=1.4, handlelength=1.8)


def legend_height(entries: int, columns: int) -> float:
    """Return the height of a legend in inches."""
    return LEGEND_ROW * -(-entries // columns) + 0.06


def write_png_and_csv(drawing: Any, path: Path) -> PlotFile:
    """Write a drawing as <path>.png and <path>.csv."""
    picture, numbers = path.with_suffix(".png"), path.with_suffix(".csv")
    save_palette_png(drawing.figure, picture)
    with open(numbers, "w", encoding="utf-8", newline="") as stream:
        out = csv.writer(stream, lineterminator="\n")
        out.writerow(escape_csv_row(drawing.columns))
        out.writerows([_format_csv_number(value) for value in row] for row in drawing.rows)
    return PlotFile(picture, drawing.title, drawing.alt, numbers)


def _format_csv_number(value: Any) -> Any:
    """Return a number with up to six decimals (microseconds), empty for an unknown value."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape_csv_cell(value)


def save_palette_png(figure: Any, path: Path) -> None:
    """Write a PNG with a palette of 128 colours: a third of the size without a visible difference."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    picture = Image.fromarray(_canvas_rgb_pixels(canvas))
    few = picture.quantize(128, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    few.save(path, "PNG", compress_level=6)


def _canvas_rgb_pixels(canvas: Any) -> Any:
    import numpy

    return numpy.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def title_with_label(text: str, label: str) -> str:
    """Return a title with its label, if there is one."""
    return f"{text} – {label}" if label else text


def stage_title_in_plot(stage: str, simulated: bool) -> str:
    """Return the display name of a stage, marked if it is simulated."""
    return f"{formats.stage_display_name(stage)}{' – SIMULATED' if simulated else ''}"


def duration_scale_and_unit(largest: float) -> tuple[float, str]:
    """Return factor and unit for durations of up to ``largest`` seconds."""
    if largest < 0.5:
        return 1e3, "ms"
    return (1.0, "s") if largest < 600 else (1 / 60, "min") if largest < 36_000 else (1 / 3600, "h")


def axis_limits_for_labels(labels: Sequence[tuple[float, str]], left: float = LEFT) -> tuple[float, float]:
    """Return limits of an axis with room for each (place, text): to the right, for places < 0 to the left.

    left: inches before the axis. The limits always include 0.
    """
    width = WIDTH - left - RIGHT
    low, high = 0.0, 0.0
    for _round in range(50):  # the width of a text depends on the limits, which depend on the widths
        share = (high - low) / width * LETTER
        lows = [place - share * len(text) for place, text in labels if place < 0]
        highs = [place + share * len(text) for place, text in labels if place >= 0]
        low, high = min(lows, default=0.0), max(highs, default=0.0)
    return (low, high) if high > low else (0.0, 1.0)


def format_axis_as_integers(axis: Any) -> None:
    """Format an axis with integers."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, nbins=7))
    axis.set_major_formatter(FuncFormatter(lambda value, _place: f"{int(value):,}"))


def format_axis_as_durations(axis: Any) -> None:
    """Format a logarithmic axis with durations: 10 ms, 1 s, 2 min."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(10, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _place: formats.format_duration(value)))
    axis.set_minor_formatter(NullFormatter())


def thin_ordered_values(np: Any, ordered: Any, ranks: Any = None) -> tuple[Any, Any]:
    """Return values and ranks (1, 2, … unless given) of an ascending array, at most MOST_STEPS of them."""
    ranks = np.arange(1, len(ordered) + 1) if ranks is None else ranks
    if len(ordered) > MOST_STEPS:
        keep = np.unique(np.linspace(0, len(ordered) - 1, MOST_STEPS).astype(int))
        return ordered[keep], ranks[keep]
    return ordered, ranks


def shade_watch_gaps(data: Any, axes: Sequence[Any], factor: float) -> None:
    """Shade the gaps of the watch."""
    for gap in data.table.header["gaps"]:
        for axis in axes:
            begin, end = (gap["from"] - data.start) * factor, (gap["to"] - data.start) * factor
            axis.axvspan(begin, end, color="#BBBBBB", alpha=0.4, linewidth=0)


@dataclass(frozen=True)
class PlotDrawing:
    """A matplotlib figure, its title, alternative text, and data (names of columns, rows)."""

    figure: Any
    title: str
    alt: str
    columns: Sequence[str]
    rows: Iterable[Sequence[Any]]


def stages_to_plot(data: PointData) -> list[str]:
    """Return the stages whose durations are drawn: those reached by any workload, without first pods and failures.

    Of a load that others submitted, without the creation that shows when it was sent.
    """
    return [
        stage["name"]
        for stage in data.table.stages
        if stage["ends"] != "failed"
        and not stage["name"].endswith("_first")
        and stage["name"] != data.sent_is
        and data.table.seen(stage["name"])
    ]


def stage_colours(data: PointData) -> dict[str, str]:
    """Return a unique colour for each stage, the same in all plots of a point."""
    stages = stages_to_plot(data)
    colours = {stage: USUAL[stage] for stage in stages if stage in USUAL}
    others = [stage for stage in stages if stage not in colours]
    free = (shade for shade in generate_distinct_colours() if shade not in colours.values())
    colours.update(zip(others, free, strict=False))
    last = next((stage for stage in stages if stage in data.end_stages()), "")
    return {**colours, SENT: GREY, ENDED: colours.get(last, COLOURS[1])}


def factor_and_unit_of_time_axis(stop: float) -> tuple[float, str]:
    """Return factor and unit of a time axis of ``stop`` seconds."""
    return (1.0, "s") if stop < 600 else duration_scale_and_unit(stop)
