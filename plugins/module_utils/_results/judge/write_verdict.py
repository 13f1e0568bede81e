# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write verdict.json of a run, and from it findings.json, junit.xml, summary.md and answer.json, for module results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    SeatrialError,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader, schema_migration
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import (
    Point,
    Result,
    Run,
    point_label,
    read_timelines_by_point,
    run_with_counted_attempts,
    sha256_of_file,
)

from ..kpi import kpi_definitions
from . import explain_failures, judge_run, kpi_limits, overall_verdict
from .collect_history import HistoryRequest, RunHistory, collect_past_runs
from .judge_run import JudgingRules
from .junit import render_run_xml
from .past_run_data import KeptRuns, PastValue, kpis_by_name, leave_out_damaged_run, mean_kpi_of_attempts

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
    with leave_out_damaged_run(
        [], last.folder
    ):  # a damaged figure is absent; the report says that its file cannot be read
        by_attempt = [kpis_by_name(point.kpis, point.folder) for point in measured]
    for kpi in measured[-1].kpis or [] if by_attempt else ():
        with leave_out_damaged_run([], last.folder):
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


VERDICT = "verdict.json"
#: Limits of a run that has none.
DEFAULT_LIMITS = {judge_run.FAILED: {"max": 0}}
DEFAULT_RULES = JudgingRules()
NO_HISTORY = HistoryRequest()


def write_verdict(
    run_dir: str,
    max_lateness: float,
    definitions: Iterable[str] = (),
    default_limits: Mapping[str, Any] | None = None,
    rules: JudgingRules = DEFAULT_RULES,
    past: HistoryRequest = NO_HISTORY,
    write: bool = True,
    signatures: Iterable[str] = (),
) -> Result:
    """Write the verdict; return the result of stage verdict of module results.

    Args:
        run_dir: The run directory.
        max_lateness: In seconds, for points whose settings have none.
        definitions: Files of KPI definitions.
        default_limits: Limits, for points whose settings have none; None for those of every run.
        rules: How the run is judged; max_lateness and limits are filled in.
        past: The history to compare with.
        write: Whether to write the files, which the schedule of a run does not need between two attempts.
        signatures: Files of signatures of failures; without any, nothing is explained.

    Raises:
        InputError: For a wrong limit or signature.
    """
    run = run_with_counted_attempts(run_reader.read_run_directory(Path(run_dir)))
    warnings: list[str] = []
    foreign = [point.number for point in run.points if point.foreign]
    labels = {point.number: point_label(point, str(run.record.get("project") or "")) for point in run.points}
    defined = [{"name": judge_run.FAILED, "unit": "workloads"}, *kpi_definitions.load_kpi_definitions(definitions)]
    default = DEFAULT_LIMITS if default_limits is None else default_limits
    of_points = {}
    for point in run.points:
        own = (point.all_settings or {}).get(kpi_limits.SETTING)
        raw = own if isinstance(own, Mapping) else default
        of_points[point.number] = kpi_limits.parse_kpi_limits(raw, [*(point.kpis or []), *defined])
    filled = replace(rules, max_lateness=max_lateness, limits=of_points)
    warnings += _unknown_answer(run.points)
    store = KeptRuns(run.top, run.session) if run.repeats and past.sources else None
    history = collect_past_runs(run, past, store=store) if past.sources else None
    verdict = judge_run.judge_whole_run(run, read_timelines_by_point(run, warnings), filled, foreign, labels, history)
    path = run.top / VERDICT
    before = sha256_of_file(path)
    if write:
        files.write_json(path, verdict, "verdict/2")
        warnings += write_failure_explanations(run, verdict, signatures, history)
        write_junit_summary_and_answer(run, verdict)
    why = (*overall_verdict.explain_verdict(verdict), overall_verdict.sentence_on_history(verdict))
    copied = ("verdict", "code", "exit_status", "checks", "kpis", "headline", "answer")
    return {
        "changed": before != sha256_of_file(path),
        **{name: verdict[name] for name in copied},
        "doubts": verdict["warnings"],
        "path": str(path),
        "reasons": [reason for reason in why if reason],
        "warnings": warnings,
        "summary": overall_verdict.verdict_with_first_reason(verdict),
    }


def _unknown_answer(points: Sequence[Point]) -> list[str]:
    """Return a sentence on each KPI that is to answer the question of the run, and that none of its points has.

    A run checks the name before it begins; a replot can do so only now.
    """
    names = sorted({kpi["name"] for point in points for kpi in point.kpis or ()})
    named = {str((point.all_settings or {}).get(kpi_definitions.NAMED_ANSWER) or "") for point in points}
    return [
        f"{kpi_definitions.NAMED_ANSWER}: the run has no KPI '{name}'{suggest_similar_name(name, names)}"
        for name in sorted(named - {"", *names})
        if names
    ]


def write_failure_explanations(
    run: Run, verdict: Mapping[str, Any], paths: Iterable[str], history: RunHistory | None = None
) -> list[str]:
    """Write findings.json of a run, what explains its failures; return why it could not be written.

    paths: files of signatures; none changes nothing.
    """
    signatures = explain_failures.load_failure_signatures(paths)
    notes: list[str] = []
    if signatures:
        past = (history.findings, len(history.findings_of)) if history else (None, 0)
        with leave_out_damaged_run(notes, run.top):  # an explanation must not end a run
            document = explain_failures.explain_run(run, verdict, signatures, *past)
            files.write_json(run.top / explain_failures.FILE, document, explain_failures.SCHEMA)
    return notes


def write_junit_summary_and_answer(run: Run, verdict: Mapping[str, Any]) -> None:
    """Write junit.xml, summary.md and answer.json into the run directory. verdict: empty if there is none."""
    findings = explain_failures.read_findings_of_run(run.top)
    files.replace_text(run.top / "junit.xml", render_run_xml(run, verdict, findings))
    files.replace_text(run.top / "summary.md", overall_verdict.render_summary_markdown(run, verdict, findings))
    files.write_json(run.top / FILE, answer_document(run, verdict, findings), SCHEMA)


def rewrite_junit_summary_and_answer(top: Path, signatures: Sequence[str] = ()) -> list[str]:
    """Write what others read of a run again, because its record has changed since the verdict. Return warnings.

    signatures: files of signatures of failures, ours first; without any, the findings stay. They also stay if one of
    the files has been removed or damaged. If there are none, ours then have to do.
    """
    try:
        verdict = schema_migration.read_document_migrated(top / VERDICT, "verdict")
    except DataError:
        verdict = {}
    run = run_with_counted_attempts(run_reader.read_run_directory(top))
    try:
        warnings = write_failure_explanations(run, verdict, signatures)
    except (SeatrialError, OSError) as error:
        warnings = [f"signatures of failures cannot be read again: {' '.join(str(error).split())}"]
        if not explain_failures.read_findings_of_run(top):
            write_failure_explanations(run, verdict, signatures[:1])
    write_junit_summary_and_answer(run, verdict)
    return warnings
