# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict of a run, from its points' timelines and KPIs, its phases and its history: see docs/verdicts.md.

Reasons to doubt its figures are warnings, one sentence each.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import open_regular_file
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader, run_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import NOT_BEGUN, Point, Run
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

from ..statistics.readings_from_p_values import INCONCLUSIVE, LEAST_HISTORY, NO_HISTORY, NOT_JUDGED, NOT_MEASURED
from . import headline, judge_history, judge_repeated_points, kpi_limits, overall_verdict, run_checks
from .collect_history import RunHistory
from .history_settings import ALL, HEADLINE, HistorySettings
from .kpi_limits import KpiLimit
from .overall_verdict import ERROR, INVALID

#: The figure whose limit says how many workloads need not succeed.
FAILED = "workloads_failed"
NO_ANSWER = {
    INVALID: "No answer: the run is invalid, see its checks.",
    ERROR: "No answer: the run ended with an error, see its checks.",
}
Kpi = dict[str, Any]


@dataclass(frozen=True)
class JudgingRules:
    """What the settings demand. max_lateness: in seconds, for points whose settings have none.

    limits: by point number. max_errors: share of workloads. judged: patterns of KPI names; ``headline`` and ``all`` are
    groups of them. history: how KPIs are compared with past runs.
    """

    max_lateness: float = 0.1
    limits: Mapping[str, Sequence[KpiLimit]] = field(default_factory=dict)
    max_errors: float = 0.01
    judged: Sequence[str] = (HEADLINE,)
    history: HistorySettings = field(default_factory=HistorySettings)


def judge_whole_run(
    run: Run,
    tables: Mapping[str, TimelineTable | None],
    rules: JudgingRules,
    foreign: Collection[str] = (),
    labels: Mapping[str, str] | None = None,
    history: RunHistory | None = None,
) -> dict[str, Any]:
    """Return the verdict as in schema verdict/2.

    Args:
        run: The run, with the attempts that count.
        tables: Point number -> timeline, None without one.
        rules: What the settings demand.
        foreign: Numbers of the points from another tool.
        labels: Point number -> matrix values as text; default is the number.
        history: None if there is none to compare with.
    """
    checks = [
        run_checks.check_run_phases(run, bool(foreign)),
        *run_checks.check_cluster_locks_kept(run),
        *run_checks.check_planned_points_finished(run),
    ]
    checks += run_checks.check_bisection_result(run)
    if run.bisection:  # its values are expected to differ, so that only failed workloads are judged
        of_workloads = {
            point: [limit for limit in of_point if limit.pattern == FAILED] for point, of_point in rules.limits.items()
        }
        history, rules = None, replace(rules, judged=(), limits=of_workloads)
    attempts = judge_repeated_points.passed_attempts_by_point(run)
    kpis = judge_repeated_points.judged_kpis_of_repeated_points(
        attempts, rules.limits, lambda kpi: is_compared_with_history(kpi, rules.judged), rules.history.level, (FAILED,)
    )
    for point in run.points:
        table = tables.get(point.number)
        if table is None and point.status in NOT_BEGUN:
            continue
        of_point = rules.limits.get(point.number, ())
        checks.append(
            run_checks.check_workload_successes(point.number, table, _allowed_failures(of_point), rules.max_errors)
        )
        lateness = rules.max_lateness if point.max_lateness is None else point.max_lateness
        checks.append(run_checks.check_load_generator_lateness(point.number, table, lateness, point.number in foreign))
        checks += run_checks.check_client_lag(point)
        if point.of not in attempts:
            kpis += judged_kpis(point, of_point, rules.judged)
    baseline, uncompared = None, list[dict[str, Any]]()
    if history:
        kpis, baseline, uncompared = _compare_kpis_with_history(run, kpis, history, rules.history, attempts)
    selections = {
        table.header["selection"]["text"]
        for table in tables.values()
        if table is not None and "selection" in table.header
    }
    readings = [kpi["reading"] for kpi in kpis] + [kpi["limit"]["result"] for kpi in kpis if "limit" in kpi]
    judgement = overall_verdict.verdict_with_exit_status([check["result"] for check in checks], readings)
    result = judgement["verdict"]
    names = labels or {point.number: f"point {point.number}" for point in run.points}
    return {
        "schema": "verdict/2",
        "run": run.id,
        **judgement,
        "cause": run_checks.error_class_of_verdict(run, result),
        "checks": checks,
        "kpis": kpis,
        **({"history": {**history.document(), "not_compared": uncompared}} if history else {}),
        "baseline": baseline,
        "headline": headline.headline_figures(run.points),
        "answer": [NO_ANSWER[result]] if result in NO_ANSWER else _run_answer_lines(run, names),
        "warnings": [
            *collect_run_warnings(run),
            *damaged_files_warnings(tables),
            *(history.notes if history else ()),
        ],
        **({"selection": "; ".join(sorted(selections))} if selections else {}),
    }


def _run_answer_lines(run: Run, names: Mapping[str, str]) -> list[str]:
    return [str(run.bisection["why"])] if run.bisection else headline.run_answer_sentence(run.points, names)


def _allowed_failures(of_point: Sequence[KpiLimit]) -> float | None:
    """Return the number of workloads that need not succeed, None without a limit."""
    most = [limit.most for limit in of_point if limit.most is not None and limit.matches(FAILED)]
    return min(most) if most else None


def judged_kpis(point: Point, of_point: Sequence[KpiLimit], judged: Sequence[str]) -> list[Kpi]:
    """Return the KPIs of a point that the verdict depends on: those to be judged, and those with a limit."""
    entries = []
    for kpi in point.kpis or []:
        own = [limit for limit in of_point if limit.matches(kpi["name"])]
        if own or is_compared_with_history(kpi, judged):
            readings = [kpi_limits.check_kpi_against_limit(limit, kpi) for limit in own]
            low, high = kpi_limits.kpi_uncertainty_interval(kpi)
            entry = kpi_limits.judge_kpi_by_limits(
                point.number, kpi, own, readings, is_compared_with_history(kpi, judged)
            )
            entries.append({**entry, "low": low, "high": high})
    names = [str(kpi["name"]) for kpi in point.kpis or []]
    absent = [limit for limit in of_point if not any(map(limit.matches, names))]
    return entries + [kpi_limits.entry_of_missing_kpi(point.number, limit) for limit in absent]


def is_compared_with_history(kpi: Mapping[str, Any], judged: Sequence[str]) -> bool:
    """Return whether a KPI is compared with history."""
    if ALL in judged or (HEADLINE in judged and kpi.get("headline")):
        return True
    return any(kpi_limits.do_patterns_overlap(pattern, kpi["name"]) for pattern in judged)


def _compare_kpis_with_history(
    run: Run, kpis: Sequence[Kpi], history: RunHistory, settings: HistorySettings, repeated: Collection[str]
) -> tuple[list[Kpi], str | None, list[dict[str, Any]]]:
    """Return the judged KPIs of a run with their comparison with its history, the baseline, and what it lacks.

    Those that may decide the verdict have the reading "not enough history". All attempts at a point are compared
    together, and the last one has the result. The baseline is a text such as "18 runs of 4.19.3", None if a figure is
    compared with too few past runs. The last part is ``not_compared`` of schema verdict/2.

    Args:
        run: The run.
        kpis: Its judged KPIs, as in schema verdict/2.
        history: Its past runs.
        settings: How KPIs are compared.
        repeated: Points of the matrix whose attempts were added until decided, and which have one entry for all.
    """
    last = {
        point.of: point.of if point.of in repeated else point.number for point in run.points if point.kpis is not None
    }
    interrupted = {point.number for point in run.points if point.resumed}
    pairs = [
        (kpi, history.series(run, kpi, of, judged=kpi["reading"] == NO_HISTORY, repeated=of in repeated))
        for kpi in kpis
        if last.get(of := run_reader.point_of_attempt_folder(kpi["point"])) == kpi["point"]
        and kpi["point"] not in interrupted
        and _is_measured(kpi)
    ]
    judged = judge_history.judge_kpis(
        pairs,
        settings,
        lambda kpi: history.unread if run_reader.point_of_attempt_folder(kpi["point"]) in repeated else (),
    )
    by_kpi = {id(kpi): entry for (kpi, _series), entry in zip(pairs, judged, strict=True)}
    entries = [by_kpi.get(id(kpi)) or _not_compared(kpi, last, interrupted) for kpi in kpis]
    covered = [
        (str(kpi["point"]), series.name, history.coverage(series.point, series.name, series.unit))
        for kpi, series in pairs
        if series.judged and series.direction in ("lower", "higher")
    ]
    runs = {run for _point, _name, coverage in covered for run in coverage.runs}
    uncompared = [
        {"point": point, "name": name, "runs": len(coverage.runs), "of": coverage.of, "why": coverage.why}
        for point, name, coverage in covered
        if coverage.why
    ]
    return entries, _baseline_description(history, runs, (series.baseline for _kpi, series in pairs)), uncompared


def _is_measured(kpi: Kpi) -> bool:
    """Return whether an entry is a KPI of the point, and not a limit whose KPI the point does not have."""
    return (kpi.get("limit") or {}).get("result") != NOT_MEASURED or kpi["reading"] == NO_HISTORY


def _not_compared(kpi: Kpi, last: Mapping[str, str], interrupted: Collection[str]) -> Kpi:
    """Return an entry that is not compared with history. last: point -> attempt that is."""
    if kpi["reading"] != NO_HISTORY:
        return kpi
    if kpi["point"] in interrupted:
        result, text = INCONCLUSIVE, f"inconclusive: point {kpi['point']} was interrupted while it was measured"
    else:
        compared = last.get(run_reader.point_of_attempt_folder(kpi["point"]), "")
        result, text = NOT_JUDGED, f"It is compared together with attempt {compared}."
    return {**kpi, "reading": result, "why": judge_history.kpi_explanation_text(kpi, result, text)}


def _baseline_description(history: RunHistory, compared: Collection[str], names: Iterable[str]) -> str | None:
    """Return the old runs as text. compared: runs with a judged figure."""
    old = {past.run.run for points in history.points.values() for past in points if not past.new}
    old &= set(compared)
    if len(old) < LEAST_HISTORY:
        return None
    known = dict.fromkeys(name for name in names if name)
    return formats.format_count(len(old), "run") + (f" of {formats.format_list(known, 2)}" if known else "")


#: Thresholds of a busy machine: share of CPU time stolen by the hypervisor, and load average per processor.
STOLEN, LOAD = 0.05, 2.0
#: More than any figure of a machine.
MOST = 1e9
#: The last line of a file of a load lies within this many bytes of its end.
_TAIL = 16_384


def collect_run_warnings(run: Run) -> list[str]:
    """Return the warnings of a run: interrupted points, busy machines, unchecked trainings, missing files of users."""
    groups = (
        interrupted_points_warning(run),
        busy_machine_warning(run.points),
        unchecked_trainings_warnings(run.points),
        missing_user_files_warnings(run.points),
    )
    return [sentence for sentences in groups for sentence in sentences]


def interrupted_points_warning(run: Run) -> list[str]:
    """Return a sentence on the points whose times include an interruption."""
    names = [point.number for point in run.points if point.resumed and not run.repeats and not run.bisection]
    if not names:
        return []
    again = f"-e redo={','.join(names)} measures {'it' if len(names) == 1 else 'them'} again"
    return [f"Interrupted while measured, so times include the interruption: {formats.format_list(names)}. {again}."]


def busy_machine_warning(points: Iterable[Point]) -> list[str]:
    """Return a sentence on the test points during which the machine that sent the load was busy."""
    busy = [
        (point.number, reason)
        for point in points
        for name in ("ledger.jsonl", "requests.jsonl")
        if (reason := _why_busy(read_machine_load_record(point.folder / name)))
    ]
    if not busy:
        return []
    first = "; ".join(f"test point {number}: {reason}" for number, reason in busy[:3])
    more = f"; and {formats.format_count(len(busy) - 3, 'more test point')}" if len(busy) > 3 else ""
    return [f"The machine that sent the load was busy, so times may be longer than on an idle one ({first}{more})."]


def read_machine_load_record(path: Path) -> dict[str, Any]:
    """Return the record on the machine at the end of a file of a load; empty if there is none."""
    try:
        with open_regular_file(path) as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _TAIL))
            lines = stream.read().splitlines()
        last = parse_json(lines[-1])
    except (OSError, DataError, IndexError, ValueError):
        return {}
    machine = last.get("machine") if isinstance(last, dict) and last.get("type") == "end" else None
    return machine if isinstance(machine, dict) else {}


def _why_busy(machine: Mapping[str, Any]) -> str:
    reasons = []
    stolen, cpus, load = (_number_or_zero(machine.get(name)) for name in ("stolen", "cpus", "load"))
    if stolen >= STOLEN:
        reasons.append(f"the hypervisor took {stolen * 100:.0f} % of its processor time")
    if cpus > 0 and load >= LOAD * cpus:
        reasons.append(f"load average {formats.format_number(load)} on {formats.format_count(int(cpus), 'processor')}")
    return ", ".join(reasons)


def _number_or_zero(value: object) -> float:
    """Return a number of a file that a stranger may have written, 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= MOST:
        return 0.0
    return float(value)


def damaged_files_warnings(tables: Mapping[str, TimelineTable | None]) -> list[str]:
    """Return a sentence on each point of whose files the timeline lacks a part, or uses it with a reservation."""
    return [
        f"test point {number}: {'; '.join(map(str, table.header['notes']))}"
        for number, table in tables.items()
        if table is not None and table.header.get("notes")
    ]


def unchecked_trainings_warnings(points: Iterable[Point]) -> list[str]:
    """Return a sentence for each reason why nobody knows whether the processes of a training worked together."""
    by_reason: dict[str, list[str]] = {}
    for point in points:
        rows = point_reader.read_json_lines(point.folder / "training.jsonl", [], finite=False)
        for reason in sorted({str(row["unchecked"]) for row in rows if row.get("unchecked")}):
            by_reason.setdefault(reason, []).append(f"test point {point.number}")
    return [
        "Whether the processes of a training worked together, or each on all data, was not checked at "
        f"{formats.format_list(names, 3)}: {reason}."
        for reason, names in by_reason.items()
    ]


def missing_user_files_warnings(points: Iterable[Point]) -> list[str]:
    """Return a sentence for each test point at which files of users in pods are missing."""
    sentences = []
    for point in points:
        why = _why_missing(point_reader.read_simulated_user_summary(point.folder, []).get("files") or {})
        if why:
            sentences.append(f"Files of users are missing at test point {point.number}: {'; '.join(why)}.")
    return sentences


def _why_missing(files: Mapping[str, Any]) -> list[str]:
    why = []
    if files.get("left_out"):
        users = formats.format_count(files["left_out_users"], "user")
        why.append(
            f"{formats.format_count(files['left_out'], 'file')} of {users} exceeded the limit ({files['limit']})"
        )
    if files.get("failed_users"):
        users = formats.format_count(files["failed_users"], "user")
        why.append(f"{users} could not send files ({files['first_error']})")
    return why
