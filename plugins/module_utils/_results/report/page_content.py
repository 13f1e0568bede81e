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
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.verdict_and_comparison_schemas import (
    FAILED_CHECKS,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import timeline_views
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run, point_label
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

from ..judge import explain_failures, overall_verdict
from . import kpi_text_filters, point_details, run_facts

#: Maximum length of the sentence beside the verdict; the table of checks has the full text.
SENTENCE = 260
#: Maximum number of rows with contradictions shown; timeline.csv has all.
MOST_ROWS = 10
#: List of comparisons with the run, beside index.html.
COMPARISONS = "comparisons.json"
QUANTILES = ("p50", "p95", "p99", "max")


def report_template_variables(
    run: Run, verdict: Mapping[str, Any], tables: Mapping[str, TimelineTable | None], notes: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the variables of the template, without the plots. tables: point number -> timeline or None."""
    record = run.record
    unread: list[str] = []
    state = run_facts.cluster_state_section(run.top, unread)
    left = run_facts.changed_cluster_objects_section(run.top, unread)
    return {
        "title": f"{record.get('project') or 'run'} {'+'.join(record.get('presets') or [])}".strip(),
        "run": run.id,
        "when": run_facts.format_run_start(record),
        "verdict": str(verdict.get("verdict") or "unknown"),
        "because": decisive_reason_of_verdict(verdict),
        "compared": overall_verdict.sentence_on_history(verdict),
        "answer": list(verdict.get("answer") or []),
        "warnings": list(verdict.get("warnings") or []),
        "headline": [
            {**entry, "confidence": _headline_confidence_text(entry)}
            for entry in verdict.get("headline") or []
            if entry.get("of")
        ],
        "checks": _shown_and_folded_checks(verdict.get("checks") or [], len(run.points)),
        "selection": str(verdict.get("selection") or ""),
        "simulation": simulated_and_real_stages(run, tables),
        "points": [_point_template_variables(run, point, tables.get(point.number)) for point in run.points],
        "settings": run_facts.non_default_settings(run.provenance),
        "phases": run_facts.phase_duration_rows(record),
        "prepared": run_facts.preload_and_download_rows(run.top),
        "versions": sorted((record.get("versions") or {}).items(), key=lambda pair: pair[0].lower()),
        "environment": run_facts.environment_rows(record.get("environment") or {}),
        "state": state,
        "left": left,
        "clusters": run_facts.clusters_with_their_hosts(run.clusters),
        "record": run_facts.run_record_rows(record),
        "failures": _collect_run_errors(run),
        "findings": explain_failures.read_findings_of_run(run.top),
        "comparisons": find_existing_comparisons(run.top / "report"),
        "missing": [*run.missing, *unread, *notes],
    }


def find_existing_comparisons(folder: Path) -> list[dict[str, str]]:
    """Return the existing comparisons that the report in ``folder`` links to: path, title, time."""
    try:
        entries = files.read_json(folder / COMPARISONS)["comparisons"]
        known = [{name: str(entry[name]) for name in ("path", "title", "made")} for entry in entries]
        # A path with a colon would lead a browser to another server.
        return [entry for entry in known if ":" not in entry["path"] and (folder / entry["path"]).is_file()]
    except (DataError, OSError, KeyError, TypeError):
        return []


def _shown_and_folded_checks(checks: Sequence[Mapping[str, Any]], points: int) -> dict[str, list[Mapping[str, Any]]]:
    """Return the checks to show and those to fold: passed checks of single points if there are many."""
    folded = [check for check in checks if check.get("point") and check["result"] == "pass"] if points > 2 else []
    return {"shown": [check for check in checks if check not in folded], "folded": folded}


def decisive_reason_of_verdict(verdict: Mapping[str, Any]) -> str:
    """Return the sentence beside the verdict: the first check, otherwise the first figure, that determined it."""
    checks = verdict.get("checks") or []
    for result in FAILED_CHECKS:
        for check in checks:
            if check["result"] == result:
                others = sum(1 for check in checks if check["result"] in FAILED_CHECKS) - 1
                more = f" ({formats.format_count(others, 'more check')} not passed, see below.)" if others else ""
                point = f"Point {check['point']}: " if check.get("point") and _has_several_points(checks) else ""
                return textwrap.shorten(f"{point}{check['detail']}", SENTENCE, placeholder=" …") + more
    figures = overall_verdict.explain_verdict({**verdict, "checks": []}) if verdict else []
    if figures:
        return textwrap.shorten(figures[0], SENTENCE, placeholder=" …")
    unknown = [check["detail"] for check in checks if check["result"] == "not judged"]
    if unknown:
        return textwrap.shorten(f"Nothing failed, but some checks lack data. {unknown[0]}", SENTENCE, placeholder=" …")
    if not checks:
        return "There is no verdict."
    return "No limit was exceeded, the generator was on time and no phase failed."


def _headline_confidence_text(entry: Mapping[str, Any]) -> str:
    """Return the confidence interval of a headline figure if there is only one point."""
    points = entry.get("points") or []
    return kpi_text_filters.format_confidence_interval({**points[0], "unit": entry["unit"]}) if len(points) == 1 else ""


def _has_several_points(checks: Sequence[Mapping[str, Any]]) -> bool:
    return len({check["point"] for check in checks if check.get("point")}) > 1


def simulated_and_real_stages(run: Run, tables: Mapping[str, TimelineTable | None]) -> dict[str, Any]:
    """Return the simulated writers, the stages that depend on them, and the real stages by writer."""
    stages = [stage for table in tables.values() if table is not None for stage in table.stages]
    stages = [stage for stage in stages if not stage["name"].endswith("_first")]
    kinds = {timeline_views.node_kind_of_timeline(table) for table in tables.values() if table is not None}
    simulated = {stage["name"] for stage in stages if stage["simulated"]}
    real: dict[str, dict[str, None]] = {}
    for stage in stages:
        if stage["name"] not in simulated:
            real.setdefault(formats.stage_writer_display_name(stage["writer"]), {})[
                formats.stage_display_name(stage["name"])
            ] = None
    count = sum(
        len(parts[1]) for table in tables.values() if table and (parts := timeline_views.split_real_simulated(table))
    )
    return {
        "apart": f"{formats.format_count(count, 'workload')} ran on simulated nodes" if count else "",
        "any": bool(simulated) or (run.simulated and kinds != {timeline_views.REAL}),
        "writers": [formats.stage_writer_display_name(simulated_writer) for simulated_writer in run.simulated_writers],
        "stages": list(
            dict.fromkeys(formats.stage_display_name(stage["name"]) for stage in stages if stage["name"] in simulated)
        ),
        "real": [{"writer": writer, "stages": list(names)} for writer, names in real.items()],
    }


def _point_template_variables(run: Run, point: Point, table: TimelineTable | None) -> dict[str, Any]:
    record = point.record
    if table is None:
        notes = ["There is no timeline of this point."]
    else:
        notes = list(table.header.get("notes") or [])
    if table is not None and not len(table):
        notes.insert(0, f"No workload was {'seen' if 'sent_is' in table.header else 'planned or sent'}.")
    nodes = point.ran.get("nodes") if any(point.record.get("nodes") for point in run.points) else None
    if nodes:
        gpus = f" with {formats.format_count(nodes['gpus'], 'GPU')}" if nodes.get("gpus") else ""
        notes.append(f"The cluster was scaled to {formats.format_count(nodes['count'], 'node')}{gpus}.")
    return {
        "number": point.number,
        "label": point_label(point, str(run.record.get("project") or "")),
        "open": len(run.points) <= 2 or table is None or set(table.outcome) != {"succeeded"},
        "several": len(run.points) > 1,
        "status": record.get("status") or "unknown",
        "error": record.get("error") or "",
        "seconds": run_facts.format_duration_between(record.get("started"), record.get("ended")),
        "notes": notes,
        "plots": [],
        "attribution": point.attribution,
        "noun": "workload" if table is None else table.noun,
        "users": point_details.section_of_simulated_users(point.folder, table),
        **_measurements_of_point(table if table is not None and len(table) else None, point.kpis or []),
    }


def _measurements_of_point(table: TimelineTable | None, kpis: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
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
        "foreign": point_details.time_sources_section(table),
        "clients": point_details.section_of_load_clients(table),
        "succeeded": table.outcome.count("succeeded"),
        "stages": _stage_rows_by_nodes(table, kpis),
        # Quantiles of stages are in the table of stages, figures of single clients in theirs.
        "kpis": [kpi for kpi in kpis if not _is_quantile(kpi) and "client" not in kpi.get("labels", {})],
        "headline": {kpi["name"]: kpi_text_filters.format_kpi_value(kpi) for kpi in kpis if kpi.get("headline")},
        "contradictions": _format_timeline_contradictions(table),
        "gaps": [_format_watch_gap(gap, table.header["start"]) for gap in table.header["gaps"]],
    }


def _format_watch_gap(gap: Mapping[str, Any], start: float) -> dict[str, str]:
    return {
        "kind": str(gap.get("kind") or ""),
        "from": formats.format_duration(gap["from"] - start),
        "length": formats.format_duration(gap["to"] - gap["from"]),
        "reason": str(gap.get("reason") or ""),
    }


def _collect_run_errors(run: Run) -> list[str]:
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


def _format_timeline_contradictions(table: TimelineTable) -> list[str]:
    rows = [f"{table.name[row]}: {'; '.join(texts)}" for row, texts in list(table.contradictions.items())[:MOST_ROWS]]
    left = len(table.contradictions) - len(rows)
    return [*rows, f"and {formats.format_count(left, 'more row')}, see timeline.csv"] if left else rows


def _is_quantile(kpi: Mapping[str, Any]) -> bool:
    """Return whether a figure is in the table of stages; a knee has these labels too, but is a rate."""
    labels = kpi.get("labels", {})
    listed = labels.get("since") in ("needed", "sent") and labels.get("quantile") in QUANTILES
    return listed and "stage" in labels and "curve" not in labels


def _stage_rows_by_nodes(table: TimelineTable, kpis: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of stages; those that nodes make twice, if workloads ran on real and on simulated nodes."""
    parts = timeline_views.split_real_simulated(table)
    if parts is None:
        return _stage_table_rows(table, kpis)
    simulated_kpis = [kpi for kpi in kpis if kpi["labels"].get("nodes") == timeline_views.SIMULATED]
    rows = _stage_table_rows(parts[0], [kpi for kpi in kpis if kpi not in simulated_kpis])
    others = [stage for stage in _stage_table_rows(parts[1], simulated_kpis) if stage["simulated"]]
    return rows + [{**other, "name": f"{other['name']}, simulated nodes"} for other in others]


def _stage_table_rows(table: TimelineTable, kpis: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
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
                "name": formats.stage_display_name(name),
                "writer": formats.stage_writer_display_name(stage["writer"]),
                "simulated": stage["simulated"],
                "after": formats.join_with_and(
                    [formats.stage_display_name(need) for need in stage.get("needs", ()) if need in table.latest]
                    or ["sending"]
                ),
                "n": table.seen(name),
                "of": len(table),
                "took": [kpi_by_labels.get((name, "needed", q)) for q in QUANTILES],
                "since": [kpi_by_labels.get((name, "sent", q)) for q in QUANTILES],
            }
        )
    return rows
