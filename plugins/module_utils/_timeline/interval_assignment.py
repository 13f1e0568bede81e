# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Assign to each stage of each workload the interval [earliest, latest] in which it was reached."""

from __future__ import annotations

from math import isnan
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir.point_reader import PointInputs
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir.timeline_table import Table
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline.audit_log import IntervalNarrower
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline.foreign_load import ForeignLoad
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline.revision_clock import (
    RevisionClock,
    numbered,
    version,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline.separate_etcd import SeparateEtcd
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline.stage_order import OWN, Stage
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline.stage_reducer import StageReducer


class IntervalAssignment:
    """Fills the columns of the stages of ``table`` from the ledger and from events, by the revision clock.

    audit: narrows intervals by an audit log, where one was given.
    """

    def __init__(
        self, inputs: PointInputs, table: Table, stages: list[Stage], audit: IntervalNarrower | None = None
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
        #: (Kind, namespace) -> resourceVersion of the last event that its watch delivered.
        self.last_watched: dict[tuple[str, str], int] = {}
        self._clock = RevisionClock(numbered(inputs.writes), numbered(inputs.revision_probes))
        self._separate = SeparateEtcd()
        self.foreign = ForeignLoad(inputs, self._clock) if inputs.follows is not None else None
        self._audit = audit
        self._start = table.header["start"]

    def take_ledger(self, rows: list[dict[str, Any]]) -> None:
        """Fill attempts, uids and moments of sending, and the stage that the answer to our own create shows."""
        root = next((stage.name for stage in self.stages if stage.which == OWN), "")
        table, inputs = self.table, self.inputs
        for number, row in enumerate(rows):
            sent = inputs.sent.get(row["index"])
            offset = row["offset"]
            if sent is None:
                if offset is not None and inputs.started is not None:
                    table.moments["intended"][number] = inputs.started + offset
                table.attempts.append(0)
                table.uid.append(row.get("uid"))
                continue
            table.attempts.append(sent.attempts)
            table.uid.append(sent.uid)
            # A closed loop has no intended moments.
            planned = offset is not None or not inputs.planned
            for name, value in (
                ("intended", sent.intended if planned else None),
                ("sent", sent.sent),
                ("answered", sent.answered),
            ):
                if value is not None:
                    table.moments[name][number] = value
            if root and sent.created:
                resource_version, began, answered = sent.created
                at = version(resource_version)
                after, before = (self._clock.after(at), self._clock.before(at)) if at is not None else (began, answered)
                table.earliest[root][number] = max(after, began)
                table.latest[root][number] = min(before, answered)

    def take_stated_creation(self, row: int, event: dict[str, Any]) -> None:
        """Let an event of a workload's own object bound the API server's clock, where a separate etcd needs it."""
        if self.inputs.separate_kinds:
            sent = self.inputs.sent.get(self.table.index[row])
            if sent is not None and sent.created:
                self._separate.created(event["values"].get("created"), sent.created[1], sent.created[2])

    def bounds_of(
        self, received: float, event: dict[str, Any], at: int | None, held: int, row: int
    ) -> tuple[float, float]:
        """Return [earliest, latest] of what this event shows for the first time, from all sources.

        at: its resourceVersion. held: the object's resourceVersion before it, 0 when it is the first one.
        """
        separate = event["kind"] in self.inputs.separate_kinds
        earliest, latest = self._bounds(received, event, None if separate else at, held, row)
        if self._audit is not None:
            earliest, latest, contradiction = self._audit.narrowed(event, earliest, latest, self._start)
            if contradiction:
                self.table.contradict(row, contradiction)
        return earliest, latest

    def _bounds(
        self, received: float, event: dict[str, Any], at: int | None, held: int, row: int
    ) -> tuple[float, float]:
        """Return the bounds from sending, receiving and the revision clock.

        A watch shows each commit, so the event's own resourceVersion dates it. After a gap or a deletion, the change
        was committed at some moment after the last commit that was seen of this object (held) or by this watch.
        """
        if self.foreign is not None:
            watched = self.last_watched.get((event["kind"], event["namespace"]), 0)
            return self.foreign.bounds(received, event, at, held, watched, row)
        floor = self.table.moments["sent"][row]  # nothing of a workload can be before it was first sent
        if isnan(floor):
            floor = self.inputs.watched_from if self.inputs.watched_from is not None else self._start
        if at is None:
            return floor, received
        after, before = self._clock.after(at), self._clock.before(at)
        if event["how"] != "watch" or event["event"] == "DELETED":
            after = self._clock.after(max(held, self.last_watched.get((event["kind"], event["namespace"]), 0)))
        return after if after > floor else floor, before if before < received else received

    def reach(
        self,
        fresh: list[tuple[int, list[StageReducer]]],
        known: list[int],
        bounds: tuple[float, float],
        event: dict[str, Any],
        row: int,
    ) -> None:
        """Record the stages that an object has reached; those of a separate etcd wait for settle().

        known: [bits of the stages that the object has reached, its resourceVersion]; the bits of ``fresh`` are added.
        """
        if self.foreign is not None:
            self._reach_foreign(self.foreign, fresh, known, bounds, event, row)
            return
        separate = event["kind"] in self.inputs.separate_kinds
        for bit, reducers in fresh:
            known[0] |= bit
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
        known: list[int],
        bounds: tuple[float, float],
        event: dict[str, Any],
        row: int,
    ) -> None:
        """As reach(), for a load that others submitted: creations wait for settle()."""
        source = foreign.source(event, version(event["resource_version"]), known[1])
        for bit, reducers in fresh:
            known[0] |= bit
            for reducer in reducers:
                stage = reducer.stage
                if foreign.shows_creation(stage.kind, stage.defined):
                    stated = event["values"][stage.defined]
                    foreign.keep(reducer, row, bounds, stated, source)
                else:
                    foreign.count(stage.name, source)
                    reducer.reach(row, *bounds)

    def settle(self) -> None:
        """Assign the stages that waited, now that all creations have bounded the API server's clock."""
        self._separate.settle()
        if self.foreign is not None:
            self.foreign.settle()
