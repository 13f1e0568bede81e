# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write timeline.jsonl and timeline.csv of the points of a run. Module results_timeline calls it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader, timeline_table
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.each_point import Result, each_point
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point

from ..runai import read_scale_test_files
from ..runai.read_scale_test_files import is_foreign
from . import timeline_builder
from .workload_selection import WorkloadSelection, select


def write_timeline(
    run_dir: str, points: Iterable[str] = (), selection: WorkloadSelection | None = None, audit_log: str = ""
) -> Result:
    """Write timeline.jsonl and timeline.csv of the points (all if none is named) for the selected workloads.

    An audit log of the API server narrows the intervals.
    """
    run = run_reader.read(Path(run_dir))
    audit_path = Path(audit_log) if audit_log else None

    def one(point: Point, warnings: list[str]) -> Result:
        if is_foreign(point):
            table = read_scale_test_files.build(point.folder, run.id, point.number)
        else:
            table = timeline_builder.build(
                point.folder, run.id, point.number, run.simulated_writers, audit_path, run.real_nodes
            )
        table = select(table, selection or WorkloadSelection())
        timeline_table.write(table, point.folder)
        warnings += [f"point {point.number}: {note}" for note in table.header["notes"]]
        return {
            "point": point.number,
            "planned": len(table),
            "outcomes": dict(Counter(table.outcome)),
            "stages": {stage["name"]: table.seen(stage["name"]) for stage in table.stages},
            "contradictions": len(table.contradictions),
        }

    result = each_point(run, points, ("timeline.jsonl", "timeline.csv"), one)
    planned = sum(row["planned"] for row in result["points"])
    outcomes: Counter[str] = Counter()
    for row in result["points"]:
        outcomes.update(row["outcomes"])
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common()) or "none"
    result["summary"] = (
        f"{formats.count(planned, 'workload')} in {formats.count(len(result['points']), 'point')}: {counts}"
    )
    return result
