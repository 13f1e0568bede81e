# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write verdict.json of a run, and from it junit.xml and summary.md. Module results_verdict calls it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader, schema_migration
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.each_point import Result, digest_of, tables_of
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import (
    Point,
    Run,
    counted_points,
    point_label,
)

from ..kpi import kpi_definitions
from ..runai.read_scale_test_files import is_foreign
from . import judge_run, limits, overall_verdict, summary_text
from .collect_history import HistoryRequest, collect
from .judge_run import JudgingRules
from .junit import junit
from .kept_runs import KeptRuns

VERDICT = "verdict.json"
#: Limits of a run that has none.
DEFAULT_LIMITS = {judge_run.FAILED: {"max": 0}}
DEFAULT_RULES = JudgingRules()
NO_HISTORY = HistoryRequest()


def write_verdict(
    run_dir: str,
    max_lateness: float,
    definitions: Iterable[str] = (),
    given: Mapping[str, Any] | None = None,
    rules: JudgingRules = DEFAULT_RULES,
    past: HistoryRequest = NO_HISTORY,
    write: bool = True,
) -> Result:
    """Write the verdict; return the result of module results_verdict.

    max_lateness: in seconds. definitions: files of KPI definitions. given: limits, for points whose settings have none;
    None for the default. rules: max_lateness and limits are filled in. past: the history to compare with.
    write: whether to write the files, which the schedule of a run does not need between two attempts.
    Raises InputError for a wrong limit.
    """
    run = counted_points(run_reader.read(Path(run_dir)))
    warnings: list[str] = []
    foreign = [point.number for point in run.points if is_foreign(point)]
    labels = {point.number: point_label(point, str(run.record.get("project") or "")) for point in run.points}
    known = kpi_definitions.load(definitions)
    default = DEFAULT_LIMITS if given is None else given
    of_points = {
        point.number: limits.parse(_limits(point, default), _definitions(point, known)) for point in run.points
    }
    filled = replace(rules, max_lateness=max_lateness, limits=of_points)
    store = KeptRuns(run.top, run.session) if run.repeats and past.sources else None
    history = collect(run, past, store=store) if past.sources else None
    found = judge_run.judge(run, tables_of(run, warnings), filled, foreign, labels, history)
    path = run.top / VERDICT
    before = digest_of(path)
    if write:
        files.write_json(path, found, "verdict/2")
        write_texts(run, found)
    return {
        "changed": before != digest_of(path),
        "verdict": found["verdict"],
        "code": found["code"],
        "exit_status": found["exit_status"],
        "checks": found["checks"],
        "kpis": found["kpis"],
        "headline": found["headline"],
        "answer": found["answer"],
        "doubts": found["warnings"],
        "path": str(path),
        "reasons": [
            one for one in (*overall_verdict.explanation(found), overall_verdict.history_sentence(found)) if one
        ],
        "warnings": warnings,
        "summary": judge_run.summary(found),
    }


def _limits(point: Point, default: Mapping[str, Any]) -> Mapping[str, Any]:
    own = (point.all_settings or {}).get(limits.SETTING)
    return own if isinstance(own, Mapping) else default


def _definitions(point: Point, known: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the KPIs for which there can be limits: the defined ones, and those of the point."""
    return [{"name": judge_run.FAILED, "unit": "workloads"}, *(point.kpis or []), *known]


def write_texts(run: Run, verdict: Mapping[str, Any]) -> None:
    """Write junit.xml and summary.md into the run directory. verdict: empty if there is none."""
    files.replace_text(run.top / "junit.xml", junit(run, verdict))
    files.replace_text(run.top / "summary.md", summary_text.summary(run, verdict))


def rewrite_texts(top: Path) -> None:
    """Write junit.xml and summary.md of a run again, because its record has changed since the verdict."""
    try:
        verdict = schema_migration.upgraded(top / VERDICT, "verdict")
    except DataError:
        verdict = {}
    write_texts(counted_points(run_reader.read(top)), verdict)
