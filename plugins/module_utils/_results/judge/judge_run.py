# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict of a run, from its points' timelines and KPIs and from its phases: see docs/verdicts.md."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.verdict_schemas import VERDICTS
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import NOT_BEGUN, Point, Run
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import Table

from ..statistics.readings import NOT_MEASURED
from . import (
    busy_machine_warning,
    headline_answer,
    headline_figures,
    history_readings,
    kpi_patterns,
    limits,
    missing_user_files,
    overall_verdict,
    repeated_points,
    run_checks,
    unchecked_trainings,
)
from .collect_history import History
from .history_settings import ALL, HEADLINE, HistorySettings
from .limits import Limit
from .overall_verdict import ERROR, INVALID, NOT_JUDGED

#: The figure whose limit says how many workloads need not succeed.
FAILED = "workloads_failed"
NO_ANSWER = {
    INVALID: "No answer: the run is invalid, see its checks.",
    ERROR: "No answer: the run ended with an error, see its checks.",
}


@dataclass(frozen=True)
class JudgingRules:
    """What the settings demand. max_lateness: in seconds, for points whose settings have none.

    limits: by point number. max_errors: share of workloads. judged: patterns of KPI names; ``headline`` and ``all`` are
    groups of them. history: how KPIs are compared with past runs.
    """

    max_lateness: float = 0.1
    limits: Mapping[str, Sequence[Limit]] = field(default_factory=dict)
    max_errors: float = 0.01
    judged: Sequence[str] = (HEADLINE,)
    history: HistorySettings = field(default_factory=HistorySettings)


def judge(
    run: Run,
    tables: Mapping[str, Table | None],
    rules: JudgingRules,
    foreign: Collection[str] = (),
    labels: Mapping[str, str] | None = None,
    history: History | None = None,
) -> dict[str, Any]:
    """Return the verdict as in schema verdict/2.

    tables: point number -> timeline, None without one. foreign: numbers of the points from another tool. labels: point
    number -> matrix values as text; default is the number. history: None if there is none to compare with.
    """
    checks = [run_checks.phases(run, bool(foreign)), *run_checks.locks(run), *run_checks.points(run)]
    checks += run_checks.bisection(run)
    if run.bisection:  # its values are expected to differ, so that only failed workloads are judged
        history, rules = None, replace(rules, judged=(), limits=_of_workloads(rules.limits))
    attempts = repeated_points.attempts_of(run)
    kpis = _repeated_kpis(attempts, rules)
    for point in run.points:
        table = tables.get(point.number)
        if table is None and point.status in NOT_BEGUN:
            continue
        given = rules.limits.get(point.number, ())
        checks.append(run_checks.objects(point.number, table, _allowed(given), rules.max_errors))
        lateness = rules.max_lateness if point.max_lateness is None else point.max_lateness
        checks.append(run_checks.generator(point.number, table, lateness, point.number in foreign))
        if point.of not in attempts:
            kpis += judged_kpis(point, given, rules.judged)
    baseline = None
    if history:
        kpis, baseline = history_readings.with_history(run, kpis, history, rules.history, attempts)
    selections = {
        one.header["selection"]["text"] for one in tables.values() if one is not None and "selection" in one.header
    }
    readings = [one["reading"] for one in kpis] + [one["limit"]["result"] for one in kpis if "limit" in one]
    result = overall_verdict.overall([one["result"] for one in checks], readings)
    names = labels or {point.number: f"point {point.number}" for point in run.points}
    return {
        "schema": "verdict/2",
        "run": run.id,
        "verdict": result,
        "code": VERDICTS[result][0],
        "exit_status": VERDICTS[result][1],
        "cause": run_checks.cause_of(run, result),
        "checks": checks,
        "kpis": kpis,
        **({"history": history.document()} if history else {}),
        "baseline": baseline,
        "headline": headline_figures.headline(run.points),
        "answer": [NO_ANSWER[result]] if result in NO_ANSWER else _answer(run, names),
        "warnings": [
            *_resumed(run),
            *busy_machine_warning.warnings(run.points),
            *unchecked_trainings.warnings(run.points),
            *missing_user_files.warnings(run.points),
            *(history.notes if history else ()),
        ],
        **({"selection": "; ".join(sorted(selections))} if selections else {}),
    }


def _resumed(run: Run) -> list[str]:
    names = [point.number for point in run.points if point.resumed and not run.repeats and not run.bisection]
    if not names:
        return []
    again = f"-e redo={','.join(names)} measures {'it' if len(names) == 1 else 'them'} again"
    return [f"Interrupted while measured, so times include the interruption: {formats.listed(names)}. {again}."]


def _of_workloads(limits_: Mapping[str, Sequence[Limit]]) -> dict[str, list[Limit]]:
    return {point: [one for one in given if one.pattern == FAILED] for point, given in limits_.items()}


def _repeated_kpis(attempts: Mapping[str, Sequence[Point]], rules: JudgingRules) -> list[dict[str, Any]]:
    """Return the judged KPIs of points that are repeated until decided: one of each for all attempts at a point."""
    found = repeated_points.judged_kpis(
        attempts, rules.limits, lambda kpi: is_judged(kpi, rules.judged), rules.history.level, (FAILED,)
    )
    return found + [_absent(point, limit) for point, limit in repeated_points.absent(attempts, rules.limits)]


def _answer(run: Run, names: Mapping[str, str]) -> list[str]:
    return [str(run.bisection["why"])] if run.bisection else headline_answer.sentences(run.points, names)


def _allowed(given: Sequence[Limit]) -> float | None:
    """Return the number of workloads that need not succeed, None without a limit."""
    most = [one.most for one in given if one.most is not None and one.matches(FAILED)]
    return min(most) if most else None


def judged_kpis(point: Point, given: Sequence[Limit], judged: Sequence[str]) -> list[dict[str, Any]]:
    """Return the KPIs of a point that the verdict depends on: those to be judged, and those with a limit."""
    found = []
    for kpi in point.kpis or []:
        own = [one for one in given if one.matches(kpi["name"])]
        if own or is_judged(kpi, judged):
            found.append(_judged(point, kpi, own, is_judged(kpi, judged)))
    names = [str(kpi["name"]) for kpi in point.kpis or []]
    absent = [one for one in given if not any(one.matches(name) for name in names)]
    return found + [_absent(point, one) for one in absent]


def is_judged(kpi: Mapping[str, Any], judged: Sequence[str]) -> bool:
    """Return whether a KPI is compared with history."""
    if ALL in judged or (HEADLINE in judged and kpi.get("headline")):
        return True
    return any(kpi_patterns.overlap(one, kpi["name"]) for one in judged)


def _judged(point: Point, kpi: Mapping[str, Any], own: Sequence[Limit], compared: bool) -> dict[str, Any]:
    low, high = limits.interval_of(kpi)
    readings = [limits.judge(one, kpi) for one in own]
    return {**limits.entry(point.number, kpi, own, readings, compared), "low": low, "high": high}


def _absent(point: Point, limit: Limit) -> dict[str, Any]:
    text = f"The limit is {limit.text}, and the test point has no such figure."
    return {
        "point": point.number,
        "name": limit.pattern,
        "title": limit.pattern,
        "unit": limit.unit,
        "direction": "none",
        "value": None,
        "simulated": False,
        "reading": NOT_JUDGED,
        "why": text,
        "limit": {"text": text, "result": NOT_MEASURED},
    }


def summary(verdict: Mapping[str, Any]) -> str:
    """Return the verdict and its first reason as one line."""
    reasons = overall_verdict.reasons(verdict)
    more = f" ({formats.count(len(reasons) - 1, 'further reason')})" if len(reasons) > 1 else ""
    return f"{verdict['verdict']}: {reasons[0]}{more}" if reasons else str(verdict["verdict"])
