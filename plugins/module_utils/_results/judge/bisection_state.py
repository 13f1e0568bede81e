# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bisect with the attempts of a run: the measurements so far, what comes next, and bisection.json."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.verdict_schemas import VERDICTS
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader

from . import bisection_plan, time_budget
from .bisection_plan import BisectionEnd, BisectionPlan, Measurement
from .next_point import Chooser
from .planned_points import FAILED, PASSED, Attempt, Finished, PlannedPoint, ScheduleState

#: Name of the folder of an attempt -> its figure, None without one.
Figure: TypeAlias = "Callable[[str], float | None]"


def chooser(plan: BisectionPlan, figure: Figure, spent: float, note: Callable[[dict[str, Any]], None]) -> Chooser:
    """Return what decides which value is measured next.

    spent: seconds, from time_budget.spent(). note: takes the state of the bisection, as in bisection/1 without run.
    """

    def choose(state: ScheduleState) -> PlannedPoint | Finished:
        points = sorted({one.of for one in state.attempts}, key=run_reader.attempt_order)
        ended = in_order(state.attempts)
        # A failed attempt may have a figure of the part that was measured.
        measured = [
            Measurement(points.index(one.of), figure(one.name) if one.status == PASSED else None) for one in ended
        ]
        found = bisection_plan.next_value(plan, measured, spent)
        names = [one.name for one in ended]
        if isinstance(found, BisectionEnd):
            note(document(plan, measured, names, found))
            return Finished(f"{formats.capitalized(found.why)}.")
        note(document(plan, measured, names, BisectionEnd("inconclusive", f"not finished: {found.why}")))
        of = points[found.index]
        why = formats.capitalized(found.why)
        return PlannedPoint(of, state.fresh_attempt(of), why, (), time_budget.left(plan.budget, spent))

    return choose


def in_order(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempts that have ended without an interruption, in the order in which they were begun."""
    ended = [one for one in attempts if one.status in (PASSED, FAILED) and not one.resumed]
    return sorted(ended, key=lambda one: (str(one.record.get("started") or ""), one.attempt, one.of))


def document(
    plan: BisectionPlan, measured: Sequence[Measurement], names: Sequence[str], end: BisectionEnd
) -> dict[str, Any]:
    """Return the state of a bisection as in schema bisection/1, without the run. names: folders of the attempts."""
    probabilities = bisection_plan.probabilities(plan, measured)
    code, status = VERDICTS[end.verdict]
    found = {
        "schema": "bisection/1",
        "over": plan.over,
        "kpi": plan.kpi,
        "values": list(plan.values),
        "measurements": [
            {"index": one.index, "point": name, "figure": one.figure} for one, name in zip(measured, names, strict=True)
        ],
        "probabilities": list(probabilities),
        "verdict": end.verdict,
        "code": code,
        "exit_status": status,
        "why": f"{formats.capitalized(end.why)}.",
    }
    if end.step is None:
        return found
    before, after = plan.values[end.step], plan.values[end.step + 1]
    step = {"index": end.step, "before": before, "after": after, "probability": probabilities[end.step]}
    return {**found, "step": step}
