# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report: plots as PNG files, and one HTML file that holds everything and needs nothing else."""

from __future__ import annotations

import base64
import multiprocessing
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results import across, figures, page
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.figures import Plot
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.functions import Data
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.run import Run
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.table import Table


def write(
    run: Run, verdict: Mapping[str, Any], tables: Mapping[str, Table | None], template: Path
) -> tuple[Path, list[str]]:
    """Write report/plots/*.png and report/index.html; return the latter's path and what couldn't be drawn.

    template: the Jinja2 template; files that it includes lie beside it. Raises InputError when it is missing.
    """
    if not template.is_file():
        raise InputError(f"report template {template} does not exist")
    folder = run.top / "report"
    plots = folder / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    for old in plots.glob("*.png"):
        old.unlink()
    notes: list[str] = []
    content = page.page(run, verdict, tables)
    labels = {point["number"]: point["label"] if point["several"] else "" for point in content["points"]}
    drawn = _draw_all({number: one for number, one in tables.items() if one is not None}, plots, labels, notes)
    for point in content["points"]:
        point["plots"] = [_embedded(one) for one in drawn.get(point["number"], [])]
    content["across"] = [_embedded(one) for one in _across(content, plots, notes)]
    content["missing"] = [*content["missing"], *notes]
    path = folder / "index.html"
    _files.replace_text(path, render(template, content))
    return path, notes


def _draw_all(
    tables: Mapping[str, Table], folder: Path, labels: Mapping[str, str], notes: list[str]
) -> dict[str, list[Plot]]:
    """Return point number -> plots. Several points are drawn on all processors, since one takes about a second."""
    jobs = [(table, folder, number, labels.get(number, "")) for number, table in tables.items()]
    found: Iterable[tuple[list[Plot], str]]
    processes = min(len(jobs), os.cpu_count() or 1)
    if processes > 1:
        with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as pool:
            found = list(pool.map(_draw, jobs))
    else:
        found = map(_draw, jobs)
    drawn = {}
    for (_table, _folder, number, _label), (plots, trouble) in zip(jobs, found, strict=True):
        drawn[number] = plots
        if trouble and trouble not in notes:
            notes.append(trouble)
    return drawn


def _draw(job: tuple[Table, Path, str, str]) -> tuple[list[Plot], str]:
    """Return the plots of a point, or why there are none: a plot that fails must not take the report with it."""
    table, folder, number, label = job
    try:
        return figures.draw(Data(table), folder, number, label), ""
    except ImportError as error:
        return [], f"no plots: {error.name} is not installed"
    except Exception as error:  # whatever a drawing library raises over odd data
        return [], f"plots of point {number} could not be drawn: {type(error).__name__}: {error}"


def _across(content: Mapping[str, Any], folder: Path, notes: list[str]) -> list[Plot]:
    labels = [point["label"] for point in content["points"]]
    numbers = [point["number"] for point in content["points"]]
    try:
        return across.compare(content["headline"], labels, numbers, folder)
    except ImportError:
        return []  # told once by the plots of the points
    except Exception as error:  # as above
        notes.append(f"plots across points could not be drawn: {type(error).__name__}: {error}")
        return []


def _embedded(plot: Plot) -> dict[str, Any]:
    data = plot.path.read_bytes()
    # The size stands in the header of a PNG: bytes 16 to 24, two big-endian numbers.
    width, height = (int.from_bytes(data[place : place + 4], "big") for place in (16, 20))
    return {
        "title": plot.title,
        "alt": plot.alt,
        "file": f"plots/{plot.path.name}",
        "data": f"data:image/png;base64,{base64.b64encode(data).decode('ascii')}",
        "width": width,
        "height": height,
    }


def render(template: Path, content: Mapping[str, Any]) -> str:
    """Return the page; every value is escaped, and a name that the template uses and nobody gave is an error."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template.parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template.name).render(content)
