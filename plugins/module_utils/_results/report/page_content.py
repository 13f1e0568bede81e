# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Content of the report: the variables of its template, from the files that exist of a run."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.verdict_schemas import FAILED_CHECKS
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import timeline_views
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run, point_label
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import Table

from ..judge import overall_verdict
from . import figure_texts, point_section, run_facts

#: Maximum length of the sentence beside the verdict; the table of checks has the full text.
SENTENCE = 260
#: Maximum number of rows with contradictions shown; timeline.csv has all.
MOST_ROWS = 10
#: List of comparisons with the run, beside index.html.
COMPARISONS = "comparisons.json"
QUANTILES = ("p50", "p95", "p99", "max")


def page(
    run: Run, verdict: Mapping[str, Any], tables: Mapping[str, Table | None], notes: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the variables of the template, without the plots. tables: point number -> timeline or None."""
    record = run.record
    unread: list[str] = []
    state = run_facts.cluster_state_section(run.top, unread)
    left = run_facts.run_diff_section(run.top, unread)
    return {
        "title": f"{record.get('project') or 'run'} {'+'.join(record.get('presets') or [])}".strip(),
        "run": run.id,
        "when": run_facts.when(record),
        "verdict": str(verdict.get("verdict") or "unknown"),
        "because": because(verdict),
        "compared": overall_verdict.history_sentence(verdict),
        "answer": list(verdict.get("answer") or []),
        "warnings": list(verdict.get("warnings") or []),
        "headline": [
            {**entry, "confidence": _card(entry)} for entry in verdict.get("headline") or [] if entry.get("of")
        ],
        "checks": _checks(verdict.get("checks") or [], len(run.points)),
        "selection": str(verdict.get("selection") or ""),
        "simulation": simulation(run, tables),
        "points": [_point(run, point, tables.get(point.number)) for point in run.points],
        "settings": run_facts.settings(run.provenance),
        "phases": run_facts.phases(record),
        "prepared": run_facts.prepared_rows(run.top),
        "versions": sorted((record.get("versions") or {}).items(), key=lambda pair: pair[0].lower()),
        "environment": run_facts.plain(record.get("environment") or {}),
        "state": state,
        "left": left,
        "clusters": run_facts.clusters(run.clusters),
        "record": run_facts.record(record),
        "failures": _failures(run),
        "comparisons": comparisons(run.top / "report"),
        "missing": [*run.missing, *unread, *notes],
    }


def comparisons(folder: Path) -> list[dict[str, str]]:
    """Return the existing comparisons that the report in ``folder`` links to: path, title, time."""
    try:
        entries = files.read_json(folder / COMPARISONS)["comparisons"]
        return [entry for entry in entries if (folder / entry["path"]).is_file()]
    except (DataError, OSError, KeyError, TypeError):
        return []


def _checks(checks: Sequence[Mapping[str, Any]], points: int) -> dict[str, list[Mapping[str, Any]]]:
    """Return the checks to show and those to fold: passed checks of single points if there are many."""
    folded = [check for check in checks if check.get("point") and check["result"] == "pass"] if points > 2 else []
    return {"shown": [check for check in checks if check not in folded], "folded": folded}


def because(verdict: Mapping[str, Any]) -> str:
    """Return the sentence beside the verdict: the first check, otherwise the first figure, that determined it."""
    checks = verdict.get("checks") or []
    for result in FAILED_CHECKS:
        for check in checks:
            if check["result"] == result:
                others = sum(1 for check in checks if check["result"] in FAILED_CHECKS) - 1
                more = f" ({formats.count(others, 'more check')} not passed, see below.)" if others else ""
                point = f"Point {check['point']}: " if check.get("point") and _several(checks) else ""
                return textwrap.shorten(f"{point}{check['detail']}", SENTENCE, placeholder=" …") + more
    figures = overall_verdict.explanation({**verdict, "checks": []}) if verdict else []
    if figures:
        return textwrap.shorten(figures[0], SENTENCE, placeholder=" …")
    unknown = [check["detail"] for check in checks if check["result"] == "not judged"]
    if unknown:
        return textwrap.shorten(f"Nothing failed, but some checks lack data. {unknown[0]}", SENTENCE, placeholder=" …")
    if not checks:
        return "There is no verdict."
    return "No limit was exceeded, the generator was on time and no phase failed."


def _card(entry: Mapping[str, Any]) -> str:
    """Return the confidence interval of a headline figure if there is only one point."""
    points = entry.get("points") or []
    return figure_texts.confidence_text({**points[0], "unit": entry["unit"]}) if len(points) == 1 else ""


def _several(checks: Sequence[Mapping[str, Any]]) -> bool:
    return len({check["point"] for check in checks if check.get("point")}) > 1


def simulation(run: Run, tables: Mapping[str, Table | None]) -> dict[str, Any]:
    """Return the simulated writers, the stages that depend on them, and the real stages by writer."""
    stages = [stage for table in tables.values() if table is not None for stage in table.stages]
    stages = [stage for stage in stages if not stage["name"].endswith("_first")]
    kinds = {timeline_views.node_kinds_of(table) for table in tables.values() if table is not None}
    simulated = {stage["name"] for stage in stages if stage["simulated"]}
    real: dict[str, dict[str, None]] = {}
    for stage in stages:
        if stage["name"] not in simulated:
            real.setdefault(formats.writer(stage["writer"]), {})[formats.stage(stage["name"])] = None
    count = sum(
        len(parts[1]) for table in tables.values() if table and (parts := timeline_views.split_real_simulated(table))
    )
    return {
        "apart": f"{formats.count(count, 'workload')} ran on simulated nodes" if count else "",
        "any": bool(simulated) or (run.simulated and kinds != {timeline_views.REAL}),
        "writers": [formats.writer(simulated_writer) for simulated_writer in run.simulated_writers],
        "stages": list(dict.fromkeys(formats.stage(stage["name"]) for stage in stages if stage["name"] in simulated)),
        "real": [{"writer": writer, "stages": list(names)} for writer, names in real.items()],
    }


def _point(run: Run, point: Point, table: Table | None) -> dict[str, Any]:
    record = point.record
    if table is None:
        notes = ["There is no timeline of this point."]
    else:
        notes = list(table.header.get("notes") or [])
    if table is not None and not len(table):
        notes.insert(0, f"No workload was {'seen' if 'sent_is' in table.header else 'planned or sent'}.")
    nodes = point.ran.get("nodes") if any(point.record.get("nodes") for point in run.points) else None
    if nodes:
        gpus = f" with {formats.count(nodes['gpus'], 'GPU')}" if nodes.get("gpus") else ""
        notes.append(f"The cluster was scaled to {formats.count(nodes['count'], 'node')}{gpus}.")
    return {
        "number": point.number,
        "label": point_label(point, str(run.record.get("project") or "")),
        "open": len(run.points) <= 2 or table is None or set(table.outcome) != {"succeeded"},
        "several": len(run.points) > 1,
        "status": record.get("status") or "unknown",
        "error": record.get("error") or "",
        "seconds": run_facts.between(record.get("started"), record.get("ended")),
        "notes": notes,
        "plots": [],
        "attribution": point.attribution,
        "users": point_section.users_section(point.folder, table),
        **_measured(table if table is not None and len(table) else None, point.kpis or []),
    }


def _measured(table: Table | None, kpis: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the measurements of a point; empty without rows in its timeline."""
    if table is None:
        return {
            "planned": None,
            "foreign": None,
            "clients": [],
            "succeeded": None,
            "stages": [],
            "kpis": [],
            "headline": {},
            "contradictions": [],
            "gaps": [],
        }
    return {
        "planned": len(table),
        "foreign": point_section.time_sources_section(table),
        "clients": point_section.clients_section(table),
        "succeeded": table.outcome.count("succeeded"),
        "stages": _stages_apart(table, kpis),
        # Quantiles of stages are in the table of stages, figures of single clients in theirs.
        "kpis": [kpi for kpi in kpis if not _is_quantile(kpi) and "client" not in kpi.get("labels", {})],
        "headline": {kpi["name"]: figure_texts.value_text(kpi) for kpi in kpis if kpi.get("headline")},
        "contradictions": _contradictions(table),
        "gaps": [_gap(gap, table.header["start"]) for gap in table.header["gaps"]],
    }


def _gap(gap: Mapping[str, Any], start: float) -> dict[str, str]:
    return {
        "kind": str(gap.get("kind") or ""),
        "from": formats.seconds(gap["from"] - start),
        "length": formats.seconds(gap["to"] - gap["from"]),
        "reason": str(gap.get("reason") or ""),
    }


def _failures(run: Run) -> list[str]:
    """Return the errors of phases and points, and those of earlier sessions from FAILURES."""
    phases = (run.record.get("phases") or {}).values()
    texts = [str(phase["error"]) for phase in phases if phase.get("error")]
    texts += [str(point.record["error"]) for point in run.points if point.record.get("error")]
    texts += [line for line in run.failures.splitlines() if line.strip()]
    kept: list[str] = []
    for text in texts:
        if not any(text in other for other in kept):
            kept.append(text)
    return kept


def _contradictions(table: Table) -> list[str]:
    rows = [f"{table.name[row]}: {'; '.join(texts)}" for row, texts in list(table.contradictions.items())[:MOST_ROWS]]
    left = len(table.contradictions) - len(rows)
    return [*rows, f"and {formats.count(left, 'more row')}, see timeline.csv"] if left else rows


def _is_quantile(kpi: Mapping[str, Any]) -> bool:
    """Return whether a figure is a quantile of a stage duration; a knee has these labels too, but is a rate."""
    labels = kpi.get("labels", {})
    return {"stage", "since", "quantile"} <= labels.keys() and "curve" not in labels


def _stages_apart(table: Table, kpis: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of stages; those that nodes make twice, if workloads ran on real and on simulated nodes."""
    parts = timeline_views.split_real_simulated(table)
    if parts is None:
        return _stages(table, kpis)
    simulated_kpis = [kpi for kpi in kpis if kpi["labels"].get("nodes") == timeline_views.SIMULATED]
    rows = _stages(parts[0], [kpi for kpi in kpis if kpi not in simulated_kpis])
    others = [stage for stage in _stages(parts[1], simulated_kpis) if stage["simulated"]]
    return rows + [{**other, "name": f"{other['name']}, simulated nodes"} for other in others]


def _stages(table: Table, kpis: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per stage: writer, workloads that reached it, quantiles of its duration and since sending."""
    kpi_by_labels: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for kpi in filter(_is_quantile, kpis):
        labels = kpi["labels"]
        kpi_by_labels[labels["stage"], labels["since"], labels["quantile"]] = kpi
    rows = []
    for stage in table.stages:
        name = stage["name"]
        if name.endswith("_first"):
            continue
        rows.append(
            {
                "name": formats.stage(name),
                "writer": formats.writer(stage["writer"]),
                "simulated": stage["simulated"],
                "after": formats.join_with_and(
                    [formats.stage(need) for need in stage.get("needs", ()) if need in table.latest] or ["sending"]
                ),
                "n": table.seen(name),
                "of": len(table),
                "took": [kpi_by_labels.get((name, "needed", q)) for q in QUANTILES],
                "since": [kpi_by_labels.get((name, "sent", q)) for q in QUANTILES],
            }
        )
    return rows
