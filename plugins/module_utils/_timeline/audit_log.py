# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server's audit log, which tells when each write was received and answered, to the microsecond.

Its clock is the server's. How far that one is from ours follows from our own creates: the server received each of them
after we had sent it and before we had its answer. Of several API servers with clocks that differ by more than that
nothing can be said; then the log is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir import point_files

#: (resource, namespace, name)
Key = tuple[str, str, str]
#: Both clocks' times are written down in whole microseconds.
_SLACK = 2e-6
_VERBS = frozenset(("create", "update", "patch", "delete"))


@dataclass
class AuditLog:
    """Writes of a run by object. Times are seconds on the server's clock until shifted()."""

    writes: dict[Key, list[tuple[float, float]]] = field(default_factory=dict)
    creates: dict[Key, float] = field(default_factory=dict)  # when each object's create was received

    def narrow(self, key: Key, earliest: float, latest: float) -> tuple[float, float] | None:
        """Return the part of an interval in which a write to the object can have been made; None if there is none."""
        meet = [one for one in self.writes.get(key, ()) if one[0] <= latest and one[1] >= earliest]
        if not meet:
            return None
        return max(earliest, min(one[0] for one in meet)), min(latest, max(one[1] for one in meet))


def resource_of(kind: str) -> str:
    """Return the plural that a kind is kept under, as all kinds that we measure form it."""
    low = kind.lower()
    return f"{low[:-1]}ies" if low.endswith("y") else f"{low}s"


def read(paths: Iterable[Path], run: str) -> AuditLog:
    """Read what an audit log says of objects whose names hold the id of a run. Torn and foreign lines are left out."""
    log = AuditLog()
    for record in _records(paths, run.encode()):
        ref = record.get("objectRef") or {}
        code = (record.get("responseStatus") or {}).get("code") or 0
        if record.get("verb") not in _VERBS or not 200 <= code < 300 or "dryRun=" in record.get("requestURI", ""):
            continue
        key = (ref.get("resource", ""), ref.get("namespace", ""), ref.get("name", ""))
        received = _seconds(record["requestReceivedTimestamp"])
        log.writes.setdefault(key, []).append((received, _seconds(record["stageTimestamp"])))
        if record["verb"] == "create" and not ref.get("subresource"):
            log.creates[key] = received
    return log


def _records(paths: Iterable[Path], needle: bytes) -> Iterator[dict[str, Any]]:
    for path in paths:
        with open(path, "rb") as stream:
            for raw in stream:
                if needle in raw:
                    try:
                        record = json.loads(raw)
                    except ValueError:
                        continue
                    if record.get("stage") == "ResponseComplete":
                        yield record


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def offset(log: AuditLog, sent: Iterable[tuple[Key, float, float]]) -> tuple[float, float] | None:
    """Return bounds of (server's clock - ours) from our creates: (key, sent, answered). None: there is no such."""
    low, high = -inf, inf
    for key, before, after in sent:
        received = log.creates.get(key)
        if received is not None:
            low, high = max(low, received - after - _SLACK), min(high, received - before + _SLACK)
    return (low, high) if -inf < low <= high < inf else None


def shifted(log: AuditLog, bounds: tuple[float, float]) -> AuditLog:
    """Return the log on our clock, every window as wide as the bounds of the offset ask for."""
    low, high = bounds
    writes = {key: [(begin - high, end - low) for begin, end in found] for key, found in log.writes.items()}
    return AuditLog(writes, log.creates)


class IntervalNarrower:
    """Cuts intervals to the writes that a log has."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log

    def narrowed(self, event: dict[str, Any], earliest: float, latest: float, start: float) -> tuple[float, float, str]:
        """Return the part of an event's interval in which its object was written, and what contradicts that.

        Events of a watch only, each of which is a write. Of an object whose name the server made up, the log of its
        create does not hold the name, so what its first event shows stays as it is.
        """
        key = (resource_of(event["kind"]), event["namespace"], event["name"])
        known = key in self._log.writes and (event["event"] == "MODIFIED" or key in self._log.creates)
        if not known or event["how"] != "watch":
            return earliest, latest, ""
        found = self._log.narrow(key, earliest, latest)
        if found is None:
            span = f"between {earliest - start:.6f} s and {latest - start:.6f} s"
            return earliest, latest, f"the audit log has no write to {event['kind']} {event['name']} {span}"
        return *found, ""


def narrower(
    path: Path, run: str, inputs: point_files.PointInputs, rows: list[dict[str, Any]], notes: list[str]
) -> IntervalNarrower | None:
    """Read a log for the workloads in ``rows``; None, and a note, when it can't be used."""
    try:
        log = read([path], run)
    except OSError as error:
        notes.append(f"the audit log {path.name} can't be read: {error.strerror}")
        return None
    kept = {one["name"]: (one["kind"], one.get("namespace") or "") for one in inputs.plan.get("templates", [])}
    sent = []
    for row in rows:
        kind, namespace = kept.get(row["template"], ("", ""))
        found = inputs.sent.get(row["index"])
        if found is not None and found.created:
            sent.append(((resource_of(kind), namespace, row["name"]), found.created[1], found.created[2]))
    bounds = offset(log, sent)
    if bounds is None:
        notes.append(f"the audit log {path.name} was left out: no offset of its clock fits all of our creates")
        return None
    return IntervalNarrower(shifted(log, bounds))
