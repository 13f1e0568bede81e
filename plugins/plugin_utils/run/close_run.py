# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a session: what run.yml, FAILURES and FINISHED then contain, and whether the session failed."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import stamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import overall_verdict, write_verdict

from . import held_by_run, phase_record, resumed_extra_vars, run_directory, run_record, run_summary


@dataclass(frozen=True)
class ClosedSession:
    """The record of the run, its verdict, the failures of this session and of all sessions, whether this one failed."""

    record: dict[str, Any]
    verdict: dict[str, Any]
    failures: list[str]
    all_failures: list[str]
    failed: bool


def close(
    directory: Path, failures: Sequence[str], fail_on: Collection[str], began: float, repeat: bool = False
) -> ClosedSession:
    """Close the session and write its end into the run directory.

    failures: those that tasks reported. fail_on: verdicts that fail the run. began: when the session began, seconds
    since the epoch. repeat: whether a session that only gives back fails if the run did.
    """
    verdict = run_directory.read_optional(directory / "verdict.json")
    judged = verdict_failure(verdict, fail_on)
    found = list(failures) or ([judged] if judged else [])
    split = run_summary.split(time.time() - began, run_directory.timings(directory, began))
    clusters = run_directory.read_optional(directory / "cluster.yml").get("clusters") or {}
    lease = run_directory.read_optional(directory / "lease.yml")

    def edit(record: dict[str, Any]) -> None:
        phase_record.close_running(record["phases"], "passed")
        record["clusters"] = clusters
        if released_nothing(record, lease):
            record["phases"]["release"]["status"] = "skipped"
        record["held"] = held_by_run.of(directory, record["started"])
        record["split"] = split
        record["ended"] = stamp()
        for session in record.get("sessions", [])[-1:]:
            session["ended"] = record["ended"]
        record["status"] = status(record, found)
        resumed_extra_vars.note_result(record, found, directory)

    record = run_record.change(directory, edit)
    everything = all_failures(record, found)
    if everything:
        files.replace_text(directory / "FAILURES", "\n".join(everything) + "\n")
    else:
        (directory / "FAILURES").unlink(missing_ok=True)
    files.replace_text(directory / "FINISHED", finished(record) + "\n")
    write_verdict.rewrite_texts(directory)
    # The verdict of an earlier session does not fail one that only gives back or exports.
    failed = bool(failures) or bool(judged and judged_now(record))
    if repeat and not failed and record["status"] != "passed":
        first = "".join(f": {one}" for one in everything[:1])
        found, failed = [f"what the run held is given back, but the run itself is {record['status']}{first}"], True
    return ClosedSession(record, verdict, found, everything, failed)


def stats(directory: Path, closed: ClosedSession) -> dict[str, Any]:
    """Return what the session hands on to later jobs of a workflow. No key is a setting of a later run."""
    headline = closed.verdict.get("headline") or []
    figures = {one["name"]: {key: one.get(key) for key in ("value", "unit", "simulated")} for one in headline}
    return {
        "seatrial_run_dir": str(directory),
        "seatrial_run_id": closed.record["id"],
        "seatrial_status": closed.record["status"],
        "seatrial_verdict": closed.verdict.get("verdict"),
        "seatrial_figures": figures,
        "seatrial_held": [one["what"] for one in closed.record["held"]],
    }


def released_nothing(record: Mapping[str, Any], lease: Mapping[str, Any]) -> bool:
    """Return whether a release that passed had nothing to release: no lease, and each cluster is kept."""
    kept = all(one.get("kept") and one["state"] != "released" for one in record["clusters"].values())
    return record["phases"].get("release", {}).get("status") == "passed" and not lease and kept


def verdict_failure(verdict: Mapping[str, Any], fail_on: Collection[str]) -> str | None:
    """Return why the verdict fails the run, None when it does not."""
    if verdict.get("verdict") not in fail_on:
        return None
    return f"verdict {verdict['verdict']}: " + "; ".join(overall_verdict.reasons(verdict))


def judged_now(record: Mapping[str, Any]) -> bool:
    """Return whether the last session wrote the report, and with it the verdict."""
    session: dict[str, Any] = next(iter(reversed(record.get("sessions") or [])), {})
    return record["phases"].get("report", {}).get("started", "") >= session.get("started", "")


def status(record: Mapping[str, Any], failures: Sequence[str]) -> str:
    """Return the status of the whole run; phases that earlier sessions left failed or interrupted count too."""
    states = {phase["status"] for phase in record["phases"].values()}
    if failures or "failed" in states:
        return "failed"
    return "interrupted" if "interrupted" in states else "passed"


def all_failures(record: Mapping[str, Any], failures: Sequence[str]) -> list[str]:
    """Return the failures of all sessions, each once, in the order of the phases; ``failures`` are the last ones."""
    earlier = [
        phase["error"] for phase in record["phases"].values() if phase["status"] == "failed" and phase.get("error")
    ]
    return list(dict.fromkeys([*earlier, *failures]))


def finished(record: Mapping[str, Any]) -> str:
    """Return the line of FINISHED."""
    seconds = (
        datetime.fromisoformat(record["ended"]).timestamp() - datetime.fromisoformat(record["started"]).timestamp()
    )
    return f"{record['ended']} {record['project']} {record['id']} {record['status']} after {seconds:.0f} s"
