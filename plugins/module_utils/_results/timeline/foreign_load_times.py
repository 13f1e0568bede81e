# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bounds of times that our own writes do not date: a load that others submit, and kinds in a separate etcd.

Both use the seconds that the API server states in creationTimestamp. Our own requests bound its clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import inf
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._run.point_reader import PointInputs

from .clocks import RevisionClock, ServerClock, Statement
from .stage_order_and_reduction import StageReducer

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
