# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which points ``-e redo`` demands again, by the attempts and the verdict of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import (
    next_point,
    repetition,
    schedule_log,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.next_point import PlannedPoint
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader, schema_migration

from . import point_attempts

#: Results of a figure, by history or by limit, that leave it undecided.
UNDECIDED = (*repetition.UNDECIDED, "not measured")


def of(run_dir: Path, raw: Any, points: Sequence[str]) -> list[PlannedPoint]:
    """Return the further attempts. raw: the value of redo. points: those of the run. Raises InputError."""
    asked = next_point.parse_redo(raw, points)
    unclear = inconclusive(run_dir) if next_point.INCONCLUSIVE in asked else set()
    repeats = bool(run_reader.last_schedule_keyword(schedule_log.lines(run_dir), repetition.KEYWORD))
    return next_point.points_to_redo(asked, point_attempts.state_of(run_dir), unclear, repeats)


def inconclusive(run_dir: Path) -> set[str]:
    """Return the points with a judged figure that is not decided. Raises InputError without a verdict."""
    path = run_dir / "verdict.json"
    if not path.exists():
        raise InputError("redo=inconclusive: the run has no verdict yet; --tags report determines it")
    kpis = schema_migration.upgraded(path, "verdict").get("kpis") or []
    found = set()
    for one in kpis:
        if one.get("reading") in UNDECIDED or (one.get("limit") or {}).get("result") in UNDECIDED:
            found.add(run_reader.point_of_attempt(one["point"]))
    return found
