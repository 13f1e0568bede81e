# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bounds of times that an API server states: in its audit log, to the microsecond, and in creationTimestamp.

The times of the audit log are of the server's clock. Our own creates relate that clock to ours: the server received
each of them after we had sent it and before we had its answer. Between them, the rates of both clocks may differ
(revision_and_server_clocks.py). Where nothing fits all creates, for example because several API servers have different
clocks, the log is not used.

The seconds of creationTimestamp bound the creations of a load that others submit, and of kinds in a separate etcd. Our
own requests bound the server's clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.point_reader import PointInputs

from .common_clock_of_clients import ClientClocks
from .revision_and_server_clocks import ClockOffset, RevisionClock, ServerClock, Statement
from .stage_order_and_reduction import StageReducer

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


def map_server_clock_to_ours(log: AuditLog, sent: Iterable[tuple[Key, float, float]]) -> ClockOffset | None:
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
    ours = map_server_clock_to_ours(log, sent)
    if ours is None:
        notes.append(f"the audit log {path.name} was not used: no clock offset fits all of our creates")
        return None
    return IntervalNarrower(convert_to_client_clock(log, ours))


#: Sources of the times of objects, as header ``dated_by`` of a timeline has them.
REVISIONS, STATED, RECEIVED, LISTED = "revision clock", "creationTimestamp", "time of receipt", "list"
_CREATION = "metadata.creationTimestamp"

Bounds = tuple[float, float]
Reach = Callable[[int, float, float], None]


class ForeignLoad:
    """The floor of each row, and the creations, which wait for settle(): later ones may narrow the server's clock.

    We know no moment of sending. What a watch reports as added was created by the commit of that event, which the
    revision clock dates. Everything else was created in the second that its creationTimestamp states. Nothing of a
    workload precedes its creation.

    notes: about the server's clock.
    """

    def __init__(self, inputs: PointInputs, clock: RevisionClock) -> None:
        self.dated_by: dict[str, Counter[str]] = {}
        self._clock = clock
        self.notes: list[str] = []
        self._stated = list(inputs.server_times)
        self._server = ServerClock(self._stated)  # until settle() by the answers to our requests alone
        follows = inputs.follows or {}
        self._selects = bool(follows.get("labels") or follows.get("fields"))
        self._separate = inputs.separate_kinds
        self._started = float((inputs.anchor or {}).get("wall", 0.0))  # before the first list
        #: Kind -> name of the stage that shows the creation of its objects.
        self._creation = {
            kind: stage["name"]
            for kind, body in inputs.kinds.items()
            for stage in body.get("stages") or []
            if stage.get("field") == _CREATION
        }
        self._floor: dict[int, float] = {}  # by row
        self._kept: list[tuple[StageReducer, int, Bounds, str, str]] = []

    def shows_creation(self, kind: str, stage: str) -> bool:
        """Return whether a stage of a definition is the creation of its object."""
        return self._creation.get(kind) == stage

    def bounds(
        self, received: float, event: dict[str, Any], at: int | None, held: int, watched: int, row: int
    ) -> Bounds:
        """Return [earliest, latest] of what an event shows for the first time.

        at: its resourceVersion; held: that of the object before, 0 for a new one; watched: that of the last event which
        this watch delivered.
        """
        floor = self._floor.get(row)
        if floor is None:
            stated = event["values"].get(self._creation.get(event["kind"], ""))
            span = self._server.span(stated) if isinstance(stated, str) else None
            floor = self._floor[row] = min(span[0] if span else self._started, received)
        if at is None:
            return floor, received
        if not _is_one_commit(event, held):
            # An object that is new to us may have changed before, unless a watch without selector was interrupted.
            known = held or (event["how"] == "relist" and not self._selects)
            after = self._clock.after(max(held, watched) if known else 0)
        else:
            after = self._clock.after(at)
        return max(after, floor), min(self._clock.before(at), received)

    def source(self, event: dict[str, Any], at: int | None, held: int) -> str:
        """Return what dates the stages that an event shows."""
        if not _is_one_commit(event, held):
            return LISTED
        if at is None or event["kind"] in self._separate:
            return RECEIVED
        return REVISIONS if self._clock.after(at) > -inf and self._clock.before(at) < inf else RECEIVED

    def count_source(self, stage: str, source: str) -> None:
        """Count an object whose time of a stage has this source."""
        self.dated_by.setdefault(stage, Counter())[source] += 1

    def keep(self, reducer: StageReducer, row: int, bounds: Bounds, stated: str, source: str) -> None:
        """Keep a creation for settle(). The server stated its second before the commit, how long before is unknown."""
        self._stated.append((stated, -inf, bounds[1]))
        self._kept.append((reducer, row, bounds, stated, source))

    def settle(self) -> None:
        """Pass the creations to their stages."""
        self._server = ServerClock(self._stated)
        if self._server.contradictory:
            self.notes.append("the API server's clock has jumped: the seconds that it states are not used")
        for reducer, row, (earliest, latest), stated, source in self._kept:
            span = self._server.span(stated)
            late = self._selects and source == REVISIONS and span is not None and span[1] < earliest
            if span is not None and (late or source != REVISIONS):
                if late or source == LISTED:  # not seen as added, or only when it came to match the selector
                    latest = min(latest, span[1])
                earliest, source = span[0] if late else max(earliest, span[0]), STATED
            self.count_source(reducer.stage.name, source)
            reducer.reach(row, earliest, latest)


def _is_one_commit(event: dict[str, Any], held: int) -> bool:
    """Return whether an event shows just what its own commit changed."""
    return event["how"] == "watch" and event["event"] != "DELETED" and bool(held or event["event"] == "ADDED")


class SeparateEtcd:
    """Keeps the stages of kinds in a separate etcd, whose resourceVersions cannot be compared with our writes.

    Two things remain: the moment at which an event was received and, of creations, the second that the API server
    states. The stages wait until all creates were seen, since each may narrow the server's clock.
    """

    def __init__(self) -> None:
        self._pending: list[tuple[Reach, int, float, float, Any]] = []
        self._stated: list[Statement] = []

    def created(self, stated: Any, sent: float, answered: float) -> None:
        """Narrow the server's clock by an own create and the creationTimestamp that it stated for it."""
        if isinstance(stated, str):
            self._stated.append((stated, sent, answered))

    def keep(self, reach: Reach, row: int, earliest: float, latest: float, stated: Any) -> None:
        """Keep a stage for settle(). ``stated``: its creationTimestamp, None for times of other writers."""
        self._pending.append((reach, row, earliest, latest, stated))

    def settle(self) -> None:
        """Pass all stages to their reducers, each interval narrowed to the second that was stated."""
        server = ServerClock(self._stated)
        for reach, row, earliest, latest, stated in self._pending:
            span = server.span(stated) if isinstance(stated, str) else None
            if span is not None:
                earliest, latest = max(earliest, span[0]), min(latest, span[1])
            reach(row, earliest, latest)
