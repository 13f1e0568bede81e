# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What decides on further attempts in a run: the words ``repeat`` and ``bisect``, applied to its directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import stamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import (
    bisection,
    repetition,
    schedule_log,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.next_point import Chooser

BISECTION = "bisection.json"


def choosers(
    run_dir: Path, run: str, repeat: Mapping[str, Any], bisect: Mapping[str, Any], kpis: Sequence[Mapping[str, Any]]
) -> list[Chooser]:
    """Return what decides once each point was measured. kpis: judged figures by all attempts, as in verdict/2."""
    spent = schedule_log.spent(schedule_log.lines(run_dir), stamp())
    repeated, bisected = repetition.parse(repeat), bisection.parse(bisect)
    if bisected:

        def note(document: dict[str, Any]) -> None:
            files.write_json(run_dir / BISECTION, {**document, "run": run}, "bisection/1")

        return [bisection.chooser(bisected, lambda name: figure(run_dir, name, bisected.kpi), spent, note)]
    return [repetition.chooser(repeated, kpis, spent)] if repeated else []


def figure(run_dir: Path, name: str, kpi: str) -> float | None:
    """Return a figure of an attempt, None if it was not measured. name: of the attempt's folder."""
    try:
        found = files.read_json(run_dir / "points" / name / "kpis.json")
    except (DataError, OSError):
        return None
    return next((one["value"] for one in found["kpis"] if one["name"] == kpi), None)
