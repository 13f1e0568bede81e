# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read one side of a comparison: a run, or one point of a run, with its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import (
    run_reader,
    schema_migration,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import (
    SKIPPED,
    counted_points,
    point_label,
)

from ..judge.judge_groups import RunSide, letter
from ..judge.write_verdict import write_verdict
from ..kpi import write_kpis
from ..kpi.point_data import read_point
from ..timeline.write_timeline import write_timeline

#: Limit of lateness in seconds, for points without that setting.
DEFAULT_LATENESS = 0.1


@dataclass
class PointSide(RunSide):
    """One point of a run, compared like a run."""

    @property
    def settings(self) -> dict[str, Any]:
        """The values that the matrix set for the point."""
        return {name: [{"value": value}] for name, value in self.run.points[0].settings.items()}


def read_side(top: Path, loaded: Sequence[Mapping[str, Any]], notes: list[str]) -> RunSide:
    """Read a run, write its timelines and verdict if missing; add to ``notes`` what could not be read."""
    run = counted_points(run_reader.read(top))
    run.points = [point for point in run.points if point.status != SKIPPED]
    if any(not (point.folder / "timeline.jsonl").exists() for point in run.points):
        notes += write_timeline(str(top))["warnings"]
        write_verdict(str(top), DEFAULT_LATENESS)
    try:
        judged = schema_migration.upgraded(top / "verdict.json", "verdict")
    except DataError:
        judged = {}
    verdict = str(judged.get("verdict") or "unknown")
    notes += [f"{run.id}: {one}" for one in judged.get("warnings") or ()]
    presets = "+".join(run.record.get("presets") or [])
    side = RunSide(run, f"{run.record.get('project') or 'run'} {presets}".strip(), verdict)
    for point in run.points:
        try:
            data = read_point(run, point, notes)
        except (DataError, OSError, KeyError, ValueError) as error:
            notes.append(f"{run.id}, point {point.number}: {error}")
            continue
        if data.of:
            side.data[point.number] = data
            side.kpis[point.number] = {kpi["name"]: (kpi, found) for kpi, found in write_kpis.figures(data, loaded)}
    return side


def points_of(side: RunSide) -> list[RunSide]:
    """Return the points of a run as sides. Raises InputError for fewer than two points."""
    if len(side.run.points) < 2:
        raise InputError(f"{side.run.top} has {formats.count(len(side.run.points), 'point')}: a comparison needs two")
    found: list[RunSide] = []
    for place, point in enumerate(side.run.points):
        named = point_label(point, str(side.run.record.get("project") or ""))
        label = f"{letter(place)} ({named})"
        found.append(PointSide(replace(side.run, points=[point]), label, side.verdict, side.data, side.kpis))
    return found
