# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""answer.json of a run: its answer, figures, verdict, causes and links, for other programs (schema answer/1).

Everything in it is in other files too, which are for this collection and change with it. This one is for others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run

from . import overall_verdict
from .past_runs import PastValue, kpis_by_name, left_out, mean_kpi_of_attempts

FILE, SCHEMA = "answer.json", "answer/1"


def answer_document(run: Run, verdict: Mapping[str, Any], findings: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return answer.json of a run with the attempts that count. verdict: empty if there is none."""
    record = run.record
    judged = {(kpi["point"], kpi["name"]): kpi for kpi in verdict.get("kpis") or []}
    attempts: dict[str, list[Point]] = {}
    for point in run.points:
        attempts.setdefault(point.of, []).append(point)
    points = [_point_answer(number, group, judged) for number, group in attempts.items()]
    links = {str(export["target"]): str(export["address"]) for export in record.get("exported") or []}
    report = run.top / "report" / "index.html"
    return {
        "schema": SCHEMA,
        "run": run.id,
        "project": str(record.get("project") or ""),
        "presets": list(map(str, record.get("presets") or [])),
        "status": str(record.get("status") or "unknown"),
        "started": record.get("started"),
        "ended": record.get("ended"),
        "verdict": verdict.get("verdict"),
        "exit_status": verdict.get("exit_status"),
        "answer": list(verdict.get("answer") or []),
        "reasons": overall_verdict.reasons_of_run(run, verdict),
        "warnings": list(verdict.get("warnings") or []),
        "simulated": any(figure["simulated"] for point in points for figure in point["figures"].values()),
        "points": points,
        "findings": list(findings),
        "held": [str(holding["what"]) for holding in record.get("held") or []],
        "directory": str(run.top),
        "report": "report/index.html" if report.exists() else None,
        "links": links,
    }


def _point_answer(
    number: str, attempts: Sequence[Point], judged: Mapping[tuple[str, str], Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a point of the matrix; of several attempts at it, the mean of each figure."""
    last = attempts[-1]
    measured = [point for point in attempts if point.kpis is not None]
    figures: dict[str, Any] = {}
    by_attempt: list[dict[str, PastValue]] = []
    with left_out([], last.folder):  # a damaged figure is absent; the report says that its file cannot be read
        by_attempt = [kpis_by_name(point.kpis, point.folder) for point in measured]
    for kpi in measured[-1].kpis or [] if by_attempt else ():
        with left_out([], last.folder):
            if kpi.get("headline") or (last.number, kpi["name"]) in judged:
                values = [known[kpi["name"]] for known in by_attempt if kpi["name"] in known]
                figures[kpi["name"]] = _figure(kpi, values, len(measured), judged.get((last.number, kpi["name"])))
    return {
        "point": number,
        "status": last.status or "unknown",
        "settings": dict(last.settings),
        "attempts": len(measured),
        "figures": figures,
    }


def _figure(
    kpi: Mapping[str, Any], values: Sequence[PastValue], attempts: int, judged: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return a figure. values: of the attempts that have it. attempts: number of measured ones."""
    mean = mean_kpi_of_attempts(values)
    ends, bounds = (mean.low, mean.high), "confidence" if mean.high is not None else None
    if bounds is None and kpi.get("interval") and attempts == 1 and mean.value is not None:
        ends, bounds = tuple(kpi["interval"]), "measurement"
    return {
        "title": kpi.get("title") or kpi["name"],
        "unit": kpi["unit"],
        "direction": kpi["direction"],
        "value": mean.value,
        "low": ends[0] if bounds else None,
        "high": ends[1] if bounds else None,
        "bounds": bounds,
        "at_least": mean.at_least,
        "n": kpi["n"],
        "of": kpi["of"],
        "simulated": kpi["simulated"],
        "reading": judged["reading"] if judged else None,
        "limit": (judged.get("limit") or {}).get("result") if judged else None,
    }
