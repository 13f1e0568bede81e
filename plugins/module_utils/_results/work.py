# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules results_* do: each takes a run directory, works through its points and returns what happened.

A point whose files are missing or damaged never stops the others: it is told in ``warnings``.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import DataError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi import definitions as definition_files
from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi import job as kpi_job
from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi.data import Figure
from ansible_collections.perfscale.seatrial.plugins.module_utils._report import page as pages
from ansible_collections.perfscale.seatrial.plugins.module_utils._report import report as reports
from ansible_collections.perfscale.seatrial.plugins.module_utils._results import run as runs
from ansible_collections.perfscale.seatrial.plugins.module_utils._results import table as tables
from ansible_collections.perfscale.seatrial.plugins.module_utils._results import timeline as timelines
from ansible_collections.perfscale.seatrial.plugins.module_utils._results import verdict as verdicts
from ansible_collections.perfscale.seatrial.plugins.module_utils._results import words
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.run import Point, Run
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.selection import Selection, apply
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.table import Table
from ansible_collections.perfscale.seatrial.plugins.module_utils._runai import read as runai
from ansible_collections.perfscale.seatrial.plugins.module_utils._step import Step

Result = dict[str, Any]


def timeline(
    run_dir: str, points: Iterable[str] = (), selection: Selection | None = None, audit_log: str = ""
) -> Result:
    """Write timeline.jsonl and timeline.csv of the points (all when none is named), of the selected workloads.

    An audit log of the API server narrows the intervals.
    """
    run = runs.read(Path(run_dir))
    audit_path = Path(audit_log) if audit_log else None

    def one(point: Point, warnings: list[str]) -> Result:
        if _foreign(point):
            table = runai.build(point.folder, run.id, point.number)
        else:
            table = timelines.build(point.folder, run.id, point.number, run.simulated_writers, audit_path)
        table = apply(table, selection or Selection())
        tables.write(table, point.folder)
        warnings += [f"point {point.number}: {note}" for note in table.header["notes"]]
        return {
            "point": point.number,
            "planned": len(table),
            "outcomes": dict(Counter(table.outcome)),
            "stages": {stage["name"]: table.seen(stage["name"]) for stage in table.stages},
            "contradictions": len(table.contradictions),
        }

    result = _each(run, points, ("timeline.jsonl", "timeline.csv"), one)
    planned = sum(row["planned"] for row in result["points"])
    outcomes: Counter[str] = Counter()
    for row in result["points"]:
        outcomes.update(row["outcomes"])
    told = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common()) or "none"
    result["summary"] = f"{words.count(planned, 'workload')} in {words.count(len(result['points']), 'point')}: {told}"
    return result


def kpis(run_dir: str, definitions: Iterable[str], points: Iterable[str] = ()) -> Result:
    """Write kpis.json and attribution.json of the points from their timelines."""
    run = runs.read(Path(run_dir))
    loaded = definition_files.load(definitions)
    first: dict[str, tuple[str, Figure]] = {}

    def one(point: Point, warnings: list[str]) -> Result:
        found = kpi_job.write(run, point, loaded, warnings, _labels(run, point), first)
        return {
            "point": point.number,
            "kpis": len(found),
            "without_value": sum(1 for kpi in found if kpi["value"] is None),
        }

    result = _each(run, points, kpi_job.WRITTEN, one)
    count = sum(row["kpis"] for row in result["points"])
    result["summary"] = f"{words.count(count, 'figure')} in {words.count(len(result['points']), 'point')}"
    return result


def _labels(run: Run, point: Point) -> dict[str, Any]:
    cluster = run.clusters.get("sutest") or {}
    labels = {
        "project": run.record.get("project"),
        "presets": run.record.get("presets"),
        "provider": cluster.get("provider"),
        "kubernetes": cluster.get("version"),
        "simulated": cluster.get("simulated"),
        "uuid": point.record.get("uuid"),
        "matrix": point.settings,
    }
    return {key: value for key, value in labels.items() if value is not None}


def _each(
    run: Run, numbers: Iterable[str], written: tuple[str, ...], one: Callable[[Point, list[str]], Result]
) -> Result:
    """Call ``one`` for each point. What it can't do becomes a warning, and no older file is left in its place."""
    warnings: list[str] = []
    rows: list[Result] = []
    changed = False
    for point in runs.chosen(run, numbers):
        before = [_digest(point.folder / name) for name in written]
        try:
            with _uncollected():
                rows.append(one(point, warnings))
        except (SeatrialError, OSError, KeyError, TypeError, ValueError) as error:
            text = str(error) if isinstance(error, SeatrialError) else f"{type(error).__name__}: {error}"
            warnings.append(f"point {point.number}: no {written[0]}: {text}")
            for name in written:
                (point.folder / name).unlink(missing_ok=True)
        changed = changed or before != [_digest(point.folder / name) for name in written]
    if not run.points:
        warnings.append(f"{run.top} has no test point")
    return {"changed": changed, "points": rows, "warnings": warnings}


@contextmanager
def _uncollected() -> Iterator[None]:
    """Leave out the collection of cyclic garbage: millions of records are made here, and none is part of a cycle.

    Each collection looks at all that is held, so that ten times the rows would take more than ten times as long.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _digest(path: Path) -> str | None:
    return _files.sha256_of(path) if path.exists() else None


def _tables(run: Run, warnings: list[str]) -> dict[str, Table | None]:
    found: dict[str, Table | None] = {}
    for point in run.points:
        try:
            with _uncollected():
                found[point.number] = tables.read(point.folder / "timeline.jsonl")
        except DataError as error:
            found[point.number] = None
            warnings.append(f"point {point.number}: {error}")
    return found


def _foreign(point: Point) -> bool:
    """Tell whether another tool made the point, whose files say nothing of plans and phases."""
    return runai.is_here(point.folder) and not (point.folder / "plan.jsonl").exists()


def verdict(run_dir: str, max_lateness: float) -> Result:
    """Write verdict.json and return it, flat."""
    run = runs.read(Path(run_dir))
    warnings: list[str] = []
    foreign = [point.number for point in run.points if _foreign(point)]
    labels = {point.number: pages.label(point, str(run.record.get("project") or "")) for point in run.points}
    found = verdicts.judge(run, _tables(run, warnings), max_lateness, foreign, labels)
    path = run.top / "verdict.json"
    before = _digest(path)
    _files.write_json(path, found, "verdict/1")
    bad = [check for check in found["checks"] if check["result"] in ("fail", "invalid")]
    bad = bad or [check for check in found["checks"] if check["result"] == verdicts.NOT_JUDGED]
    return {
        "changed": before != _digest(path),
        "verdict": found["verdict"],
        "checks": found["checks"],
        "headline": found["headline"],
        "answer": found["answer"],
        "doubts": found["warnings"],
        "path": str(path),
        "warnings": warnings,
        "summary": f"{found['verdict']}: {bad[0]['detail']}" if bad else found["verdict"],
    }


def report(run_dir: str, template: str) -> Result:
    """Write report/index.html and its plots."""
    run = runs.read(Path(run_dir))
    notes: list[str] = []
    loaded = _tables(run, notes)
    path = run.top / "verdict.json"
    found: dict[str, Any] = {}
    try:
        found = _files.read_json(path)
    except DataError as error:
        run.missing.append(f"verdict.json: {error}" if path.exists() else "verdict.json is missing")
    page = run.top / "report" / "index.html"
    before = _digest(page)
    written, trouble = reports.write(run, found, loaded, Path(template))
    plots = sorted(str(one) for one in (written.parent / "plots").glob("*.png"))
    return {
        "changed": before != _digest(page),
        "path": str(written),
        "plots": plots,
        "warnings": trouble,
        "missing": [*run.missing, *notes, *trouble],
        "summary": f"{written}, {words.count(len(plots), 'plot')}",
    }


def logged(step: Step, warn: Callable[[str], None], result: Result) -> Result:
    """Leave the summary in the log of the role call, show warnings with ``warn``, return what the module returns."""
    step.log(result["summary"])
    for warning in result.pop("warnings"):
        step.log(f"warning: {warning}")
        warn(warning)
    return result
