# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the files and the plots of the Run:ai scale-test tool for the points of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader, timeline_table
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import Table

from . import scale_test_plots, write_scale_test_files

#: Kinds of the workloads that are submitted to Run:ai.
KINDS = frozenset(("TrainingWorkload", "DistributedWorkload", "InteractiveWorkload"))


def write(
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
    for point in run_reader.read(run_dir).points:
        timeline = point.folder / "timeline.jsonl"
        if not timeline.exists():  # a point that did not start has none
            continue
        table = timeline_table.read(timeline)
        if not all_points and KINDS.isdisjoint(table.kind):
            continue
        folder = point.folder / "runai"
        points[point.number] = write_scale_test_files.write(table, folder, skip_errors)
        try:
            _draw(table, folder, plots, skip_errors, head, tail)
        except ImportError as error:
            warnings.add(f"no plots in {folder}: {error.name} is not installed")
    return {"changed": bool(points), "points": points, "warnings": sorted(warnings)}


def _draw(table: Table, folder: Path, plots: Sequence[str], skip_errors: bool, head: int, tail: int) -> None:
    seen = [stamps for _row, stamps in write_scale_test_files.measured(table, skip_errors)]
    shown = scale_test_plots.chosen(seen, head, tail)
    simulated = scale_test_plots.simulated_events(table)
    for plot in scale_test_plots.PLOTS:
        path = folder / f"{plot}.png"
        if plot in plots:
            scale_test_plots.draw(shown, simulated, plot, path)
        else:
            path.unlink(missing_ok=True)  # of an earlier report, which would show other data
