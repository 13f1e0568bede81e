# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read an API server's audit log, which states to the microsecond when each write was received and answered.

Its times are of the server's clock. Our own creates relate that clock to ours: the server received each of them after
we had sent it and before we had its answer. Between them, the rates of both clocks may differ
(clock_offset.py). Where nothing fits all creates, for example because several API servers have different
clocks, the log is not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.json_text import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader

from .client_clocks import ClientClocks
from .clocks import ClockOffset

#: (resource, namespace, name)
Key = tuple[str, str, str]
_VERBS = frozenset(("create", "update", "patch", "delete"))


@dataclass
class AuditLog:
    """Writes of a run by object, as (received, answered) in seconds on the server's clock; shifted() converts them."""

    writes: dict[Key, list[tuple[float, float]]] = field(default_factory=dict)
    creates: dict[Key, float] = field(default_factory=dict)  # when each object's create was received

    def narrow(self, key: Key, earliest: float, latest: float) -> tuple[float, float] | None:
        """Return the part of an interval that writes to the object overlap; None if none does."""
        overlapping = [span for span in self.writes.get(key, ()) if span[0] <= latest and span[1] >= earliest]
        if not overlapping:
            return None
        return max(earliest, min(span[0] for span in overlapping)), min(latest, max(span[1] for span in overlapping))


def plural_resource_name(kind: str) -> str:
    """Return the plural resource name of a kind, by the rule that all measured kinds follow."""
    low = kind.lower()
    return f"{low[:-1]}ies" if low.endswith("y") else f"{low}s"


def read_audit_log(paths: Iterable[Path], run: str) -> AuditLog:
    """Read the writes to objects whose names contain the id of a run. Truncated and other lines are skipped."""
    log = AuditLog()
    for record in _read_matching_records(paths, run.encode()):
        ref = record.get("objectRef") or {}
        code = (record.get("responseStatus") or {}).get("code") or 0
        if record.get("verb") not in _VERBS or not 200 <= code < 300 or "dryRun=" in record.get("requestURI", ""):
            continue
        key = (ref.get("resource", ""), ref.get("namespace", ""), ref.get("name", ""))
        received = _epoch_seconds(record["requestReceivedTimestamp"])
        log.writes.setdefault(key, []).append((received, _epoch_seconds(record["stageTimestamp"])))
        if record["verb"] == "create" and not ref.get("subresource"):
            log.creates[key] = received
    return log


def _read_matching_records(paths: Iterable[Path], needle: bytes) -> Iterator[dict[str, Any]]:
    for path in paths:
        with open(path, "rb") as stream:
            for raw in stream:
                if needle in raw:
                    try:
                        record = parse_json(raw)
                    except ValueError:
                        continue
                    if record.get("stage") == "ResponseComplete":
                        yield record


def _epoch_seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def own_clock(log: AuditLog, sent: Iterable[tuple[Key, float, float]]) -> ClockOffset | None:
    """Return our clock as a function of the server's, from our creates: (key, sent, answered).

    None when nothing fits all of them within MAX_DRIFT.
    """
    known = [(log.creates[key], before, after) for key, before, after in sent if key in log.creates]
    offset = ClockOffset(
        [(received, before) for received, before, _after in known],
        [(received, after) for received, _before, after in known],
    )
    return offset if known and not offset.widened and not offset.contradictory else None


def convert_to_client_clock(log: AuditLog, ours: ClockOffset) -> AuditLog:
    """Return the log on our clock; each write's interval is widened by what is not known of the clocks."""
    writes = {key: [(ours.earliest(begin), ours.latest(end)) for begin, end in of] for key, of in log.writes.items()}
    return AuditLog(writes, log.creates)


class IntervalNarrower:
    """Narrows intervals to the writes in an audit log."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log

    def narrowed(self, event: dict[str, Any], earliest: float, latest: float, start: float) -> tuple[float, float, str]:
        """Return the part of an event's interval in which its object was written, and a contradiction or "".

        Only watch events are narrowed, because each of them is one write. With generateName the audit entry of the
        create lacks the name, so the first event of such an object keeps its interval.
        """
        key = (plural_resource_name(event["kind"]), event["namespace"], event["name"])
        known = key in self._log.writes and (event["event"] == "MODIFIED" or key in self._log.creates)
        if not known or event["how"] != "watch":
            return earliest, latest, ""
        interval = self._log.narrow(key, earliest, latest)
        if interval is None:
            span = f"between {earliest - start:.6f} s and {latest - start:.6f} s"
            return earliest, latest, f"the audit log has no write to {event['kind']} {event['name']} {span}"
        return *interval, ""


def create_interval_narrower(
    path: Path,
    run: str,
    inputs: point_reader.PointInputs,
    clocks: ClientClocks,
    rows: list[point_reader.WorkloadRow],
    notes: list[str],
) -> IntervalNarrower | None:
    """Read a log for the workloads in ``rows``; None, and a note, when it cannot be used."""
    if inputs.follows is not None:
        notes.append(f"the audit log {path.name} was not used: others submitted the load, without names of ours")
        return None
    try:
        log = read_audit_log([path], run)
    except OSError as error:
        notes.append(f"the audit log {path.name} cannot be read: {error.strerror}")
        return None
    kept = {
        template["name"]: (template["kind"], template.get("namespace") or "")
        for template in inputs.plan.get("templates", [])
    }
    sent = []
    for row in rows:
        kind, namespace = kept.get(row.template, ("", ""))
        submission = inputs.sent.get(row.index)
        create = clocks.own_create(submission) if submission is not None else None
        if create is not None:
            place = namespace.replace(run_labels.INDEX_PLACEHOLDER, str(row.index))
            sent.append(((plural_resource_name(kind), place, row.name), *create))
    ours = own_clock(log, sent)
    if ours is None:
        notes.append(f"the audit log {path.name} was not used: no clock offset fits all of our creates")
        return None
    return IntervalNarrower(convert_to_client_clock(log, ours))
