"""Makes a synthetic point one whose load was killed and resumed, with the last records of the first session lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Attempts of the resumed session, by what happens to its first request: (status, outcome) of each.
FIRST_ATTEMPTS = {
    "found": [(409, "already_mine")],
    "no reply": [(0, "ambiguous"), (409, "already_mine")],
    "overloaded": [(429, "retry"), (0, "ambiguous"), (409, "already_mine")],
}


def resume(folder: Path, target: Path, at: float, lost: float, first: str) -> Path:
    """Write the point in ``folder`` to ``target``, killed at the moment ``at``.

    lost: seconds before ``at`` of which nothing was recorded. first: key of FIRST_ATTEMPTS for the workloads that were
    created in this time. The resumed session begins one second later.
    """
    target.mkdir(parents=True)
    (target / "plan.jsonl").write_bytes((folder / "plan.jsonl").read_bytes())
    for name, change in (("ledger", _ledger), ("observations", _observations)):
        rows = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
        session = {**rows[0], "pid": 4712}
        kept = [row for row in rows if _moment(row) < at - lost]
        missed = [row for row in rows if at - lost <= _moment(row) < at + 1]
        after = [row for row in rows if _moment(row) >= at + 1]
        found = [*kept, session, *change(missed, at, lost, first), *after]
        (target / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in found), encoding="utf-8")
    return target


def _moment(row: dict[str, Any]) -> float:
    """Return when a row was written, 0 for those of the beginning."""
    if row["type"] in ("start", "watching"):
        return 0.0
    return float(row.get("received") or row.get("answered") or row.get("at") or 0.0)


def _ledger(missed: list[dict[str, Any]], at: float, _lost: float, first: str) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(missed):
        if row["type"] != "attempt" or row["outcome"] != "created":
            continue
        if row["sent"] >= at:
            yield row
            continue
        known = {key: value for key, value in row.items() if key != "resource_version"}
        for attempt, (status, outcome) in enumerate(FIRST_ATTEMPTS[first], 1):
            sent = at + 1.1 + 0.02 * number + 0.1 * attempt
            moments = {"sent": sent, "answered": sent + 0.01, "attempt": attempt}
            yield {**known, **moments, "status": status, "outcome": outcome}


def _observations(missed: list[dict[str, Any]], at: float, lost: float, _first: str) -> Iterator[dict[str, Any]]:
    yield {"type": "watching", "at": at + 1.05, "kind": "*", "resource_version": "1"}
    yield {"type": "gap", "from": at - lost, "to": at + 1, "kind": "*", "reason": "no sampler was running"}
    states: dict[str, dict[str, Any]] = {}
    for row in missed:
        if row["type"] == "event":
            held = states.setdefault(row["uid"], row)
            states[row["uid"]] = {**row, "values": {**held["values"], **row["values"]}}
    for row in states.values():
        if row["event"] != "DELETED":
            yield {**row, "event": "MODIFIED", "how": "relist", "received": at + 1.05}
