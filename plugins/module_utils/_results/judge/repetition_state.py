# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Further attempts until the figures of a run are decided: the state of a repetition, from its attempts and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader

from ..statistics.readings import LEAST_HISTORY, NO_HISTORY
from . import repetition, time_budget
from .next_point import Chooser
from .planned_points import FAILED, PLANNED, SKIPPED, Attempt, Finished, PlannedPoint, ScheduleState
from .repetition import FigureReading, RepeatedPoint, Repetition, RepetitionEnd

Kpi = Mapping[str, Any]
#: Readings of a history that decide nothing.
_SILENT = ("not judged", NO_HISTORY)


def chooser(plan: Repetition, kpis: Sequence[Kpi], spent: float) -> Chooser:
    """Return what decides on further attempts. kpis: judged figures by all attempts, as in verdict/2.

    spent: seconds, from time_budget.spent().
    """

    def choose(state: ScheduleState) -> PlannedPoint | Finished:
        found = repetition.next_attempt(plan, points(state.attempts, kpis), spent)
        read = tuple(readings(kpis))
        if isinstance(found, RepetitionEnd):
            return Finished(f"{formats.capitalized(found.why)}.", read)
        left = time_budget.left(plan.budget, spent)
        return PlannedPoint(found.point, found.attempt, formats.capitalized(found.why), read, left)

    return choose


def points(attempts: Sequence[Attempt], kpis: Sequence[Kpi]) -> list[RepeatedPoint]:
    """Return the points that are repeated: all that the matrix does not skip. An attempt that was resumed is none."""
    found: dict[str, list[Attempt]] = {}
    for one in attempts:
        if one.status in (PLANNED, SKIPPED):
            continue
        each = found.setdefault(one.of, [])
        if not one.resumed:
            each.append(one)
    return [
        RepeatedPoint(of, len(each), bool(each) and each[-1].status == FAILED, tuple(_readings(of, kpis)))
        for of, each in found.items()
    ]


def _readings(of: str, kpis: Sequence[Kpi]) -> list[FigureReading]:
    found = []
    for kpi in kpis:
        if run_reader.point_of_attempt(kpi["point"]) != of:
            continue
        if kpi.get("limit"):
            found.append(FigureReading(kpi["name"], kpi["limit"]["result"], kpi["limit"]["text"]))
        past = (kpi.get("old") or {}).get("n")
        if kpi["reading"] not in _SILENT or (past is not None and kpi["reading"] == NO_HISTORY):
            can_change = past is None or past >= LEAST_HISTORY
            found.append(FigureReading(kpi["name"], kpi["reading"], kpi["why"], can_change))
    return found


def readings(kpis: Sequence[Kpi]) -> list[dict[str, Any]]:
    """Return the judged figures as a line of schedule.jsonl has them."""
    found = []
    for kpi in kpis:
        limit = (kpi.get("limit") or {}).get("result")
        if not limit and kpi["reading"] in _SILENT:
            continue
        p = kpi.get("p_corrected")
        attempts = [one for one in kpi.get("series") or () if one["group"] == "new"]
        found.append(
            {
                "kpi": kpi["name"],
                "point": run_reader.point_of_attempt(kpi["point"]),
                "reading": limit if kpi["reading"] in _SILENT else kpi["reading"],
                "attempts": len(attempts) or 1,
                "value": kpi["value"],
                "low": kpi.get("low"),
                "high": kpi.get("high"),
                "e_value": 1.0 / p if p else None,
                "text": kpi["why"],
            }
        )
    return found
