# -*- coding: utf-8 -*-
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the report says: plain data for the template, made from whatever there is of a run."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._results import facts, words
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.run import Point, Run
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.table import Table

#: Longest sentence beside the verdict, so that the headline figures stay in sight; the table of checks has all of it.
SENTENCE = 260
QUANTILES = ("p50", "p95", "p99", "max")


def page(
    run: Run, verdict: Mapping[str, Any], tables: Mapping[str, Table | None], notes: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the variables of the template, without the plots. tables: point number -> timeline or None."""
    record = run.record
    return {
        "title": f"{record.get('project') or 'run'} {'+'.join(record.get('presets') or [])}".strip(),
        "run": run.id,
        "when": facts.when(record),
        "verdict": str(verdict.get("verdict") or "unknown"),
        "because": because(verdict),
        "headline": [one for one in verdict.get("headline") or [] if one.get("of")],
        "checks": _checks(verdict.get("checks") or [], len(run.points)),
        "simulation": simulation(run, tables),
        "points": [_point(run, point, tables.get(point.number)) for point in run.points],
        "settings": facts.settings(run.provenance),
        "phases": facts.phases(record),
        "versions": sorted((record.get("versions") or {}).items(), key=lambda pair: pair[0].lower()),
        "environment": facts.plain(record.get("environment") or {}),
        "clusters": facts.clusters(run.clusters),
        "record": facts.record(record),
        "failures": _failures(run),
        "missing": [*run.missing, *notes],
    }


def label(point: Point, project: str = "") -> str:
    """Return what the matrix set for a point, in short names, else its number."""
    names = {key: key.removeprefix(f"{project}_") for key in point.settings}
    ends = [name.rpartition(".")[2] for name in names.values()]
    if len(set(ends)) == len(ends):
        names = dict(zip(names, ends, strict=True))
    return (
        ", ".join(f"{names[key]} = {facts.text(value, 40)}" for key, value in point.settings.items())
        or f"point {point.number}"
    )


def _checks(checks: Sequence[Mapping[str, Any]], points: int) -> dict[str, list[Mapping[str, Any]]]:
    """Return the checks to show, and those to fold away: passed ones of single points when there are many."""
    folded = [one for one in checks if one.get("point") and one["result"] == "pass"] if points > 2 else []
    return {"shown": [one for one in checks if one not in folded], "folded": folded}


def because(verdict: Mapping[str, Any]) -> str:
    """Return the one sentence that stands beside the verdict: the first check that decided it."""
    checks = verdict.get("checks") or []
    for result in ("invalid", "fail"):
        for check in checks:
            if check["result"] == result:
                others = sum(1 for one in checks if one["result"] in ("invalid", "fail")) - 1
                more = f" ({words.count(others, 'more check')} not passed, see below.)" if others else ""
                point = f"Point {check['point']}: " if check.get("point") and _several(checks) else ""
                return textwrap.shorten(f"{point}{check['detail']}", SENTENCE, placeholder=" …") + more
    if not checks:
        return "No verdict was made."
    return "Every workload succeeded, the generator was on time and no phase failed."


def _several(checks: Sequence[Mapping[str, Any]]) -> bool:
    return len({one["point"] for one in checks if one.get("point")}) > 1


def simulation(run: Run, tables: Mapping[str, Table | None]) -> dict[str, Any]:
    """Return what was played and what was real: the writers, and the stages that each wrote."""
    played: dict[str, list[str]] = {}
    real: dict[str, list[str]] = {}
    for table in tables.values():
        for stage in table.stages if table is not None else []:
            if not stage["name"].endswith("_first"):
                names = (played if stage["simulated"] else real).setdefault(stage["writer"], [])
                if stage["name"] not in names:
                    names.append(stage["name"])
    for writer in run.simulated_writers:
        played.setdefault(writer, [])
    return {
        "any": bool(played) or run.simulated,
        "played": [{"writer": words.writer(writer), "stages": _spaced(names)} for writer, names in played.items()],
        "real": [
            {"writer": words.writer(writer), "stages": _spaced(names)}
            for writer, names in real.items()
            if writer not in played
        ],
    }


def _spaced(names: Iterable[str]) -> list[str]:
    return [words.stage(name) for name in names]


def _point(run: Run, point: Point, table: Table | None) -> dict[str, Any]:
    read = table
    if table is not None and not len(table):
        table = None  # nothing was planned: there is nothing to show but why
        point.kpis = None
    kpis = point.kpis or []
    record = point.record
    notes = list(read.header.get("notes") or []) if read is not None else ["There is no timeline of this point."]
    return {
        "number": point.number,
        "label": label(point, str(run.record.get("project") or "")),
        "open": len(run.points) <= 2 or table is None or set(table.outcome) != {"succeeded"},
        "several": len(run.points) > 1,
        "status": record.get("status") or "unknown",
        "error": record.get("error") or "",
        "uuid": record.get("uuid") or "",
        "started": record.get("started") or "",
        "seconds": facts.between(record.get("started"), record.get("ended")),
        "planned": len(table) if table is not None else None,
        "succeeded": table.outcome.count("succeeded") if table is not None else None,
        "stages": _stages(table, kpis) if table is not None else [],
        "kpis": [_kpi(one) for one in kpis if "stage" not in one.get("labels", {}) or "quantile" not in one["labels"]],
        "headline": {one["name"]: _shown(one) for one in kpis if one.get("headline")},
        "notes": notes if table is not None or read is None else ["No workload was planned or sent.", *notes],
        "contradictions": _contradictions(table) if table is not None else [],
        "gaps": [
            {
                "kind": gap.get("kind", ""),
                "from": words.seconds(gap["from"] - table.header["start"]),
                "length": words.seconds(gap["to"] - gap["from"]),
                "reason": gap.get("reason", ""),
            }
            for gap in (table.header["gaps"] if table is not None else [])
        ],
        "plots": [],
    }


def _failures(run: Run) -> list[str]:
    """Return what failed: of phases and points as recorded, and what FAILURES adds from earlier sessions."""
    phases = (run.record.get("phases") or {}).values()
    told = [str(one["error"]) for one in phases if one.get("error")]
    told += [str(point.record["error"]) for point in run.points if point.record.get("error")]
    told += [line for line in run.failures.splitlines() if line.strip()]
    kept: list[str] = []
    for text in told:
        if not any(text in other for other in kept):
            kept.append(text)
    return kept


def _contradictions(table: Table) -> list[str]:
    return [f"{table.name[row]}: {'; '.join(told)}" for row, told in list(table.contradictions.items())[:10]] + (
        [f"and {len(table.contradictions) - 10:,} more rows, see timeline.csv"]
        if len(table.contradictions) > 10
        else []
    )


def _stages(table: Table, kpis: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row a stage: writer, how many reached it, quantiles of its duration and of the time since sending."""
    found: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for kpi in kpis:
        labels = kpi.get("labels", {})
        if {"stage", "since", "quantile"} <= labels.keys():
            found[labels["stage"], labels["since"], labels["quantile"]] = kpi
    rows = []
    for stage in table.stages:
        name = stage["name"]
        if name.endswith("_first"):
            continue
        rows.append(
            {
                "name": words.stage(name),
                "writer": words.writer(stage["writer"]),
                "simulated": stage["simulated"],
                "after": words.joined(
                    [words.stage(one) for one in stage.get("needs", ()) if one in table.latest] or ["sending"]
                ),
                "n": table.seen(name),
                "of": len(table),
                "took": [_cell(found.get((name, "needed", q))) for q in QUANTILES],
                "since": [_cell(found.get((name, "sent", q))) for q in QUANTILES],
            }
        )
    return rows


def _cell(kpi: Mapping[str, Any] | None) -> dict[str, Any]:
    if kpi is None:
        return {"text": "", "title": "", "simulated": False}
    shown = _shown(kpi)
    told = ["SIMULATED"] if kpi["simulated"] else []
    told += [part for part in (_interval(kpi), kpi.get("note", "")) if part]
    return {"text": shown, "title": "; ".join(told), "simulated": kpi["simulated"]}


def _shown(kpi: Mapping[str, Any]) -> str:
    note = str(kpi.get("note") or "")
    if kpi["value"] is None:
        return note.split(":")[0] if note.startswith("≥") else "–"
    return words.value(kpi["value"], kpi["unit"])


def _interval(kpi: Mapping[str, Any]) -> str:
    interval = kpi.get("interval")
    if not interval or interval[0] == interval[1]:
        return ""
    low, high = (words.value(one, kpi["unit"]) for one in interval)
    return f"between {low} and {high}" if low != high else ""


def _kpi(kpi: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "title": kpi.get("title") or kpi["name"],
        "name": kpi["name"],
        "help": kpi["help"],
        "text": _shown(kpi),
        "interval": _interval(kpi),
        "note": kpi.get("note", ""),
        "n": kpi["n"],
        "of": kpi["of"],
        "simulated": kpi["simulated"],
        "direction": kpi["direction"],
    }
