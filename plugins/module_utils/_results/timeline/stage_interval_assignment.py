# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Assign to each stage of each workload the interval [earliest, latest] in which it was reached."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan, nan
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._run.point_reader import ONE, PointInputs, WorkloadRow
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

from .audit_and_creation_times import ForeignLoad, IntervalNarrower, SeparateEtcd
from .common_clock_of_clients import ClientClocks
from .revision_and_server_clocks import parse_resource_version
from .stage_order_and_reduction import OWN, StageReducer, TimelineStage


@dataclass(slots=True, eq=False)
class SeenObject:
    """One object by kind, namespace and name. There are millions of them, hence the slots.

    row: of its workload in the table. stages: one bit for each stage that it has reached. version: its latest
    resourceVersion, 0 before one was seen. ended: of a pod, the resourceVersion that first showed its end, else 0.
    """

    row: int
    stages: int = 0
    version: int = 0
    ended: int = 0


class IntervalAssignment:
    """Fills the columns of the stages of ``table`` from the ledger and from events, by the revision clock.

    audit: narrows intervals by an audit log, where one was given.
    """

    def __init__(
        self,
        inputs: PointInputs,
        table: TimelineTable,
        stages: list[TimelineStage],
        clocks: ClientClocks,
        audit: IntervalNarrower | None = None,
    ) -> None:
        self.inputs = inputs
        self.table = table
        self.stages = stages
        self.reducers = [StageReducer(stage, table) for stage in stages]
        #: Kind -> name of a stage's definition -> (its bit, the reducers that it feeds).
        self.reducers_of: dict[str, dict[str, tuple[int, list[StageReducer]]]] = {}
        for reducer in self.reducers:
            of_kind = self.reducers_of.setdefault(reducer.stage.kind, {})
            of_kind.setdefault(reducer.stage.defined, (1 << len(of_kind), []))[1].append(reducer)
        #: (Kind, namespace, clock) -> resourceVersion of the last event that its watch delivered.
        self.last_watched: dict[tuple[str, str, str], int] = {}
        #: Row -> clock of its first request, when it was sent on it, and what to add for the clock of the timeline.
        self._sent: dict[int, tuple[str, float, float]] = {}
        #: Rows whose first request may not be recorded.
        self._found: set[int] = set()
        #: The stage that the answer to our own create shows.
        self.root = next((stage.name for stage in stages if stage.which == OWN), "")
        self.clocks = clocks
        self._separate = SeparateEtcd()
        self.foreign = ForeignLoad(inputs, clocks.own(clocks.reference)) if inputs.follows is not None else None
        self._audit = audit
        self._start = table.header["start"]

    def take_ledger(self, rows: list[WorkloadRow]) -> None:
        """Fill attempts, uids and moments of sending, and the stage that the answer to our own create shows."""
        root = self.root
        table, inputs, clocks = self.table, self.inputs, self.clocks
        for number, row in enumerate(rows):
            sent = inputs.sent.get(row.index)
            offset = row.offset
            if sent is None:
                if offset is not None and clocks.started is not None:
                    table.moments["intended"][number] = clocks.started + offset
                table.attempts.append(0)
                table.uid.append(row.uid)
                continue
            table.attempts.append(sent.attempts)
            table.uid.append(sent.uid)
            # A closed loop has no intended moments.
            planned = offset is not None or not inputs.planned
            shift = 0.0
            if sent.sent is not None:
                # The same for all three, so that the lateness is that of the client's own clock.
                shift = clocks.middle(sent.clock, sent.sent) - sent.sent
                if sent.found:
                    self._found.add(number)
                else:
                    self._sent[number] = (sent.clock, sent.sent, shift)
            for name, value in (
                ("intended", sent.intended if planned else None),
                ("sent", sent.sent),
                ("answered", sent.answered),
            ):
                if value is not None:
                    table.moments[name][number] = value + shift
            if root and sent.created:
                resource_version, began, answered = sent.created
                at = parse_resource_version(resource_version)
                clock = clocks.own(sent.answered_clock)
                after, before = (clock.after(at), clock.before(at)) if at is not None else (began, answered)
                bounds = max(after, began), min(before, answered)
                table.earliest[root][number], table.latest[root][number] = self._shown(
                    number, sent.answered_clock, *bounds
                )

    def _shown(self, row: int, clock: str, earliest: float, latest: float) -> tuple[float, float]:
        """Return an interval of a client's clock on the clock of the timeline.

        Its bounds there, and the interval since the row was sent, which is known better, lie within it.
        """
        if not self.clocks.several:
            return earliest, latest
        first, last = self.clocks.earliest(clock, earliest), self.clocks.latest(clock, latest)
        of, sent, shift = self._sent.get(row, (clock, earliest, 0.0))
        if row not in self._sent:
            return max(first, self.clocks.watched_first), last
        if of == clock:
            return min(first, earliest + shift), max(last, latest + shift)
        return max(first, self.clocks.earliest(of, sent)), last

    def take_stated_creation(self, row: int, event: dict[str, Any]) -> None:
        """Let an event of a workload's own object bound the API server's clock, where a separate etcd needs it."""
        if self.inputs.separate_kinds:
            sent = self.inputs.sent.get(self.table.index[row])
            create = self.clocks.own_create(sent) if sent is not None else None
            if create is not None:
                self._separate.created(event["values"].get("created"), *create)

    def bounds_of(
        self, received: float, event: dict[str, Any], at: int | None, held: int, row: int, clock: str = ONE
    ) -> tuple[float, float]:
        """Return [earliest, latest] of what this event shows for the first time, from all sources.

        received: on ``clock``. at: its resourceVersion. held: that of the object before it, 0 when it is the first one.
        """
        separate = event["kind"] in self.inputs.separate_kinds
        bounds = self._bounds(received, event, None if separate else at, held, row, clock)
        earliest, latest = self._shown(row, clock, *bounds)
        if self._audit is not None:
            earliest, latest, contradiction = self._audit.narrowed(event, earliest, latest, self._start)
            if contradiction:
                self.table.contradict(row, contradiction)
        return earliest, latest

    def _bounds(
        self, received: float, event: dict[str, Any], at: int | None, held: int, row: int, clock: str
    ) -> tuple[float, float]:
        """Return the bounds from sending, receiving and the revision clock, on the clock of the client.

        A watch shows each commit, so the event's own resourceVersion dates it. After a gap or a deletion, the change
        was committed at some moment after the last commit that was seen of this object (held) or by this watch.
        """
        watched = self.last_watched.get((event["kind"], event["namespace"], clock), 0)
        if self.foreign is not None:
            return self.foreign.bounds(received, event, at, held, watched, row)
        # Nothing of a workload can be before it was first sent.
        of, floor, _shift = self._sent.get(row, ("", nan, 0.0))
        if isnan(floor) or of != clock:
            floor = -inf if self.clocks.several else self._floor(received)
        if at is None:
            return floor, received
        own = self.clocks.own(clock)
        after, before = own.after(at), own.before(at)
        if event["how"] != "watch" or event["event"] == "DELETED":
            after = own.after(max(held, watched))
        return after if after > floor else floor, before if before < received else received

    def _floor(self, received: float) -> float:
        """Return a moment of the only clock before which nothing was sent."""
        seen = self.clocks.watched_from
        return min(seen if seen is not None else self._start, received)

    def reach(
        self,
        fresh: list[tuple[int, list[StageReducer]]],
        known: SeenObject,
        bounds: tuple[float, float],
        event: dict[str, Any],
    ) -> None:
        """Record the stages ``fresh`` that an object has reached; those of a separate etcd wait for settle()."""
        if self.foreign is not None:
            self._reach_foreign(self.foreign, fresh, known, bounds, event)
            return
        row = known.row
        separate = event["kind"] in self.inputs.separate_kinds
        for bit, reducers in fresh:
            known.stages |= bit
            for reducer in reducers:
                if separate:
                    # Only the API server's own timestamps: our creates do not bound the clocks of others.
                    stated = event["values"]["created"] if reducer.stage.defined == "created" else None
                    self._separate.keep(reducer.reach, row, *bounds, stated)
                else:
                    reducer.reach(row, *bounds)

    def _reach_foreign(
        self,
        foreign: ForeignLoad,
        fresh: list[tuple[int, list[StageReducer]]],
        known: SeenObject,
        bounds: tuple[float, float],
        event: dict[str, Any],
    ) -> None:
        """As reach(), for a load that others submitted: creations wait for settle()."""
        row = known.row
        source = foreign.source(event, parse_resource_version(event["resource_version"]), known.version)
        for bit, reducers in fresh:
            known.stages |= bit
            for reducer in reducers:
                stage = reducer.stage
                if foreign.shows_creation(stage.kind, stage.defined):
                    stated = event["values"][stage.defined]
                    foreign.keep(reducer, row, bounds, stated, source)
                else:
                    foreign.count_source(stage.name, source)
                    reducer.reach(row, *bounds)

    def date_found(self) -> None:
        """Let rows whose first request may not be recorded be sent when they were created, at the latest."""
        sent = self.table.moments["sent"]
        for row in self._found if self.root else ():
            created = self.table.latest[self.root][row]
            sent[row] = min(sent[row], created) if not isnan(created) else sent[row]

    def settle(self) -> None:
        """Assign the stages that waited, now that all creations have bounded the API server's clock."""
        self._separate.settle()
        if self.foreign is not None:
            self.foreign.settle()
