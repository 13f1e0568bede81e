# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states of a run that module record_run_state records: of its phases and points, of its failures, and its end."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import close_session, point_attempts, run_record
from .terminal_output import show_line

#: States of a point by those of the module.
POINT_STATES = {"point_started": "running", "point_passed": "passed", "point_failed": "failed"}


def record_state(run_dir: Path, arguments: Mapping[str, Any], task_vars: Mapping[str, Any]) -> dict[str, Any]:
    """Record a state and return the result of module record_run_state. arguments: its options."""
    state = arguments["state"]
    if state == "next_point":
        return _next_point(run_dir, arguments)
    if state in POINT_STATES:
        return _record_point_state(run_dir, arguments, task_vars)
    if state in ("settled", "closed"):
        return _record_session_end(run_dir, arguments, task_vars)
    result = _session_failures_and_cause(arguments, task_vars) if state == "failed" else {}
    if task_vars.get("run_beside"):  # the record belongs to the session that works on the run
        return {"changed": False, **result, "phases": run_record.read_record(run_dir)["phases"]}
    if state == "started":
        record = run_record.start_phase(run_dir, arguments["phase"])
    elif state == "skipped":
        record = run_record.end_phase(run_dir, state, name=arguments["phase"])
    else:
        record = run_record.end_phase(run_dir, state, result["failures"][-1], result["cause"])
    return {"changed": True, **result, "phases": record["phases"]}


def _failed_task(task_vars: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
    """Return the task whose failure a rescue handles, its result, and its message."""
    task, result = (task_vars.get(f"ansible_failed_{name}") or {} for name in ("task", "result"))
    return task, result, str(result.get("msg") or "no message")


def _session_failures_and_cause(arguments: Mapping[str, Any], task_vars: Mapping[str, Any]) -> dict[str, Any]:
    """Return the failures of the session so far, with that of the failed task, and the class of its error.

    A fail task repeats the message of another task, so its own name is left out. It can't repeat the class of the
    error, which the fact run_cause holds until a failure was recorded with it.
    """
    task, failed, message = _failed_task(task_vars)
    if task.get("action") != "ansible.builtin.fail":
        message = f"{task.get('name') or 'unknown task'}: {message}"
    earlier = task_vars.get("run_failed") or {}
    fact = task_vars.get("run_cause") or ""
    cause = failed.get("error") or (fact if fact != earlier.get("used_fact") else "")
    failures = [*(earlier.get("failures") or ()), arguments["error"] or message]
    return {"failures": failures, "cause": arguments["cause"] or cause, "used_fact": fact}


def _record_point_state(run_dir: Path, arguments: Mapping[str, Any], task_vars: Mapping[str, Any]) -> dict[str, Any]:
    point, status = arguments["point"], POINT_STATES[arguments["state"]]
    if status == "running":
        scales, record = point_attempts.record_attempt_begin(run_dir, point)
        values = ", ".join(f"{name}={value}" for name, value in record["settings"].items())
        if values:
            show_line(f"Point {point}: {values}")
    else:
        scales, error, cause = False, arguments["error"], arguments["cause"]
        if status == "failed" and error is None:
            task, failed, message = _failed_task(task_vars)
            error = f"point {point}: {task.get('name') or 'unknown task'}: {message}"
            cause = failed.get("error") or ""
        point_attempts.record_attempt_end(run_dir, point, status, error, cause)
    folder = run_dir / "points" / point
    paths = {"path": str(folder), "settings_file": str(folder / "settings.yml")}
    return {"changed": True, "scales": scales, **paths}


def _next_point(run_dir: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
    keywords = point_attempts.ScheduleKeywords(arguments["repeat"], arguments["bisect"], arguments["kpis"])
    decision = point_attempts.next_attempt_module_result(run_dir, arguments["stop_on_error"], keywords)
    if decision["attempt"] > 1 or arguments["bisect"]:
        show_line(f"Point {decision['point']}: {decision['why']}" if decision["point"] else decision["why"])
    return {"changed": True, **decision}


def _record_session_end(run_dir: Path, arguments: Mapping[str, Any], task_vars: Mapping[str, Any]) -> dict[str, Any]:
    """Write the end of the session; if it is closed, also print the summary and fail if the session failed."""
    failures = list(arguments["failures"])
    result: dict[str, Any]
    if task_vars.get("run_beside"):  # the record belongs to the session that works on the run
        show_line(f"  report    {run_dir / 'report' / 'index.html'}, of the results so far")
        result = {"changed": False, "failures": failures, "held": [], "split": {}}
        return {**result, "failed": True, "msg": "; ".join(failures)} if failures else result
    began = run_record.session_start_time(run_dir, os.getppid())  # ansible-playbook: an action runs in a worker of it
    closed = close_session.close_session(run_dir, failures, arguments["fail_on"], began, arguments["repeat_failure"])
    record = closed.record
    result = {"changed": True, "failures": closed.failures, "held": record["held"], "split": record["split"]}
    if arguments["state"] == "settled":
        stats = {"data": close_session.results_for_later_jobs(run_dir, closed), "aggregate": False, "per_host": False}
        return {**result, "ansible_stats": stats}
    back = close_session.awx_give_back_hint(task_vars, run_dir)
    for line in close_session.summary_lines(
        record, run_dir, closed.verdict, closed.all_failures, back, closed.warnings
    ):
        show_line(line)
    if closed.failed:
        result.update(failed=True, msg=close_session.final_message_of_failed_run(closed.failures, run_dir))
    return {**result, "closed": str(run_dir)}
