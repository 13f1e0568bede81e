# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict of a run, from its points' timelines and KPIs and from its phases.

pass: every workload succeeded, the generator was on time, and no phase failed. regression: a workload did not succeed.
error: the run failed before its first point, so nothing was measured. invalid: the measurement is not the requested
one: the generator was late, the run lost its lock on the cluster, or a phase or point failed or was interrupted.
inconclusive: nothing failed, but the files of another tool lack some of the data that is judged. KPIs are recorded, but
not compared with history yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from math import isnan
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _format, _held_lock_file
from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi.censored_quantile import at
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir.run_reader import Run
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir.timeline_table import Table
from ansible_collections.perfscale.seatrial.plugins.module_utils._schemas.verdict_schemas import NO_HISTORY, VERDICTS
from ansible_collections.perfscale.seatrial.plugins.module_utils._verdict import (
    busy_machine_warning,
    headline_answer,
    headline_figures,
)

PASS, OUTSIDE, INVALID, ERROR, NOT_JUDGED = "pass", "outside", "invalid", "error", "not judged"
REGRESSION, INCONCLUSIVE = "regression", "inconclusive"
NO_ANSWER = "No answer: the run is invalid, see its checks."
FOREIGN = "The files of the Run:ai scale-test tool do not state"
#: Outcomes of workloads, in the order of a report.
OUTCOMES = {
    "failed": "failed",
    "unfinished": "unfinished at the end of the observation",
    "deleted": "deleted before the end",
    "refused": "refused by the API server",
    "lost": "sent, but never answered or seen",
    "unsent": "never sent",
}


def _check(name: str, result: str, detail: str, point: str | None = None) -> dict[str, Any]:
    return {"check": name, "result": result, "detail": detail, "point": point}


def objects(point: str, table: Table | None) -> dict[str, Any]:
    """Check that every planned workload succeeded."""
    if table is None:
        return _check("objects", INVALID, "There is no timeline, so the outcomes are unknown.", point)
    planned = len(table)
    if not planned:
        return _check("objects", INVALID, "No workload was planned or sent.", point)
    counts = Counter(table.outcome)
    good = counts.pop("succeeded", 0)
    if good == planned:
        subject = "The workload" if planned == 1 else "Both workloads" if planned == 2 else f"All {planned:,} workloads"
        return _check("objects", PASS, f"{subject} succeeded.", point)
    bad = "; ".join(
        f"{counts[outcome]:,} {text} ({_format.listed(_names(table, outcome), 3)})"
        for outcome, text in OUTCOMES.items()
        if counts[outcome]
    )
    return _check("objects", OUTSIDE, f"{good:,} of {_format.count(planned, 'workload')} succeeded; {bad}.", point)


def _names(table: Table, outcome: str) -> list[str]:
    return [name for name, found in zip(table.name, table.outcome, strict=True) if found == outcome]


def generator(point: str, table: Table | None, limit: float, foreign: bool = False) -> dict[str, Any]:
    """Check that the 99th percentile of the lateness of all sent workloads is at most ``limit`` seconds.

    Workloads that were never sent have no lateness; they fail the check objects().
    """
    if table is None:
        return _check("generator", INVALID, "There is no timeline, so the lateness is unknown.", point)
    if foreign:
        return _check("generator", NOT_JUDGED, f"{FOREIGN} when a workload was due.", point)
    intended, sent = table.moments["intended"], table.moments["sent"]
    late = sorted(
        one - due
        for one, due, outcome in zip(sent, intended, table.outcome, strict=True)
        if outcome != "unsent" and not (isnan(one) or isnan(due))
    )
    if not late:
        if not all(isnan(due) for due in intended) or not len(table):
            return _check("generator", INVALID, "Nothing was sent, so the load was not the requested one.", point)
        return _check("generator", PASS, "Closed loop: each workload was due as soon as an earlier one ended.", point)
    usual = at(late, len(late), 0.99) or 0.0
    most = _format.seconds(late[-1])
    text = f"99 % of {len(late):,} workloads were sent at most {_format.seconds(usual)} late, all at most {most}"
    if len(late) == 1:
        text = f"The only workload was sent {_format.seconds(usual)} late"
    result = INVALID if usual > limit else PASS
    return _check("generator", result, f"{text}; the limit is {_format.seconds(limit)}.", point)


def phases(run: Run, foreign: bool = False) -> dict[str, Any]:
    """Check that no phase failed and the run was not interrupted."""
    known: Mapping[str, Any] = run.record.get("phases") or {}
    begun = any(point.record.get("status") != "planned" for point in run.points)
    grave = INVALID if begun else ERROR
    failed = {name: one.get("error") for name, one in known.items() if one.get("status") == "failed"}
    cut = [name for name, one in known.items() if one.get("status") == "interrupted"]
    # One phase runs during this check; another one in status running was left by a killed session.
    running = sorted((one.get("started") or "", name) for name, one in known.items() if one.get("status") == "running")
    cut += [name for _started, name in running[:-1]]
    if failed:
        name, error = next(iter(failed.items()))
        more = f" So did {_format.listed(list(failed)[1:])}." if len(failed) > 1 else ""
        return _check("phases", grave, f"Phase {name} failed: {_sentence(error or 'no reason was recorded')}{more}")
    if cut:
        return _check("phases", grave, f"The run was interrupted in phase {_format.listed(cut)}.")
    if run.failures and not known:
        return _check("phases", grave, f"A failure was recorded: {_sentence(run.failures.splitlines()[0])}")
    if not run.record and foreign:
        return _check("phases", NOT_JUDGED, f"{FOREIGN} whether anything other than a workload failed.")
    if not run.record:
        return _check("phases", INVALID, "There is no run.yml, so the results of the phases are unknown.")
    done = [name for name, one in known.items() if one.get("status") == "passed"]
    return _check("phases", PASS, f"No phase failed ({', '.join(done)} passed)." if done else "No phase failed.")


def _sentence(text: str) -> str:
    flat = " ".join(str(text).split())
    flat = flat[:297] + "…" if len(flat) > 298 else flat
    return flat if flat.endswith((".", "!", "?", "…")) else f"{flat}."


def locks(run: Run) -> list[dict[str, Any]]:
    """Check that the run kept its locks. Clusters that the run created have none."""
    if not any(run.top.glob(_held_lock_file.PATTERN)):
        return []
    why = _held_lock_file.lost(run.top)
    if why:
        return [_check("lock", INVALID, _sentence(f"{why[0].upper()}{why[1:]}. Another run may have used the cluster"))]
    return [_check("lock", PASS, "The run held its lock on the cluster all the time.")]


def points(run: Run) -> list[dict[str, Any]]:
    """Check that each planned test point ran to its end."""
    if not run.points:
        why = "There is no test point: the test phase did not run or failed before its first one."
        return [_check("points", ERROR, why)]
    checks = []
    there = {point.number for point in run.points}
    absent = [number for number in run.record.get("points") or [] if number not in there]
    if absent:
        checks.append(
            _check(
                "points",
                INVALID,
                f"{_format.count(len(absent), 'planned test point')} did not run: {_format.listed(absent)}.",
            )
        )
    for point in run.points:
        status = point.record.get("status")
        if status == "failed":
            error = _sentence(point.record.get("error") or "no reason was recorded")
            checks.append(_check("points", INVALID, f"Test point {point.number} failed: {error}", point.number))
        elif status in ("planned", "running"):
            text = "was not started" if status == "planned" else "was started, but did not end"
            checks.append(_check("points", INVALID, f"Test point {point.number} {text}.", point.number))
    if not checks:
        one = "The test point" if len(there) == 1 else f"All {len(there)} test points"
        checks.append(_check("points", PASS, f"{one} ran."))
    return checks


def judge(
    run: Run,
    tables: Mapping[str, Table | None],
    limit: float,
    foreign: Collection[str] = (),
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the verdict as in schema verdict/2.

    tables: point number -> timeline, None without one. limit: of lateness in seconds, for points whose settings have
    none. foreign: numbers of the points from another tool. labels: point number -> matrix values as text; default is
    the number.
    """
    checks = [phases(run, bool(foreign)), *locks(run), *points(run)]
    recorded = 0
    for point in run.points:
        checks.append(objects(point.number, tables.get(point.number)))
        allowed = limit if point.max_lateness is None else point.max_lateness
        checks.append(generator(point.number, tables.get(point.number), allowed, point.number in foreign))
        recorded += len(point.kpis or [])
    if recorded:
        checks.append(
            _check(
                "KPIs",
                NO_HISTORY,
                f"{_format.count(recorded, 'figure')} recorded; there is no baseline to compare with.",
            )
        )
    selections = {
        one.header["selection"]["text"] for one in tables.values() if one is not None and "selection" in one.header
    }
    result = overall(one["result"] for one in checks)
    names = labels or {point.number: f"point {point.number}" for point in run.points}
    return {
        "schema": "verdict/2",
        "run": run.id,
        "verdict": result,
        "code": VERDICTS[result][0],
        "exit_status": VERDICTS[result][1],
        "checks": checks,
        "kpis": [],
        "baseline": None,
        "headline": headline_figures.headline(run.points),
        "answer": [NO_ANSWER] if result == INVALID else headline_answer.sentences(run.points, names),
        "warnings": busy_machine_warning.warnings(run.points),
        **({"selection": "; ".join(sorted(selections))} if selections else {}),
    }


def overall(results: Iterable[str]) -> str:
    """Return the verdict from the results of all checks."""
    found = set(results)
    for result, verdict in ((ERROR, ERROR), (INVALID, INVALID), (OUTSIDE, REGRESSION)):
        if result in found:
            return verdict
    return INCONCLUSIVE if NOT_JUDGED in found else PASS
