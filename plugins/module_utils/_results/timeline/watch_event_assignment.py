# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Assign the events of a point to its workloads: which row an object belongs to, and which stages an event shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.point_reader import PointInputs, WorkloadRow
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_views import WorkloadNodes

from .revision_and_server_clocks import parse_resource_version
from .stage_interval_assignment import IntervalAssignment, SeenObject

POD = "Pod"
#: Called with the index of a workload, an event of it, and the bounds of the event's moment.
Witness = Callable[[int, dict[str, Any], tuple[float, float]], None]


class PodReplacements:
    """Pods that failed or were deleted before they succeeded and were recreated, for example after a preemption.

    They do not change the size of a gang. Once replaced, they count neither as members nor as having reached a stage,
    and the times that only they reached are not the gang's. ``known``: stage of a pod -> (bit, reducers).
    """

    def __init__(self, kinds: Mapping[str, Any], known: Mapping[str, tuple[int, Any]]) -> None:
        ends = {stage["name"]: stage.get("ends") for stage in (kinds.get(POD) or {}).get("stages") or []}
        self._good = sum(bit for name, (bit, _reducers) in known.items() if ends.get(name) == "succeeded")
        self._bad = sum(bit for name, (bit, _reducers) in known.items() if ends.get(name) == "failed")
        self._ends = [name for name in known if ends.get(name)]
        self._lost: dict[int, dict[int, SeenObject]] = {}  # row -> id of a pod's record -> the record

    def see(self, pod: SeenObject, event: str) -> None:
        """Record a pod after an event of it."""
        if (pod.stages & self._bad or event == "DELETED") and not pod.stages & self._good:
            self._lost.setdefault(pod.row, {})[id(pod)] = pod

    def shows_pod_end(self, values: Mapping[str, Any]) -> bool:
        """Return whether an event with these values says that its pod has succeeded or failed."""
        return any(values.get(name) for name in self._ends)

    def subtract_replaced_pods(
        self, members: list[int], ended: Callable[[int], bool]
    ) -> dict[int, tuple[int, list[int]]]:
        """Subtract the replaced pods from ``members``; return row -> (former count, stage bits of those replaced).

        ended: whether the workload of a row has ended. A workload that has not ended and lost all of its pods waits for
        new ones: its member count stays, but none of them has reached a stage. One that ended had no replacement.
        """
        losses = {}
        for row, lives in self._lost.items():
            if len(lives) < members[row] or not ended(row):
                losses[row] = (members[row], [life.stages for life in lives.values()])
                members[row] -= len(lives) if len(lives) < members[row] else 0
        return losses


class EventReader:
    """Reads the events of one point into a table, once and in the order of the file.

    own_kinds: kinds of the workloads themselves, as opposed to their pods and other children. nodes: notes the nodes of
    pods, on a cluster with real and simulated ones.
    """

    def __init__(
        self,
        inputs: PointInputs,
        rows: list[WorkloadRow],
        own_kinds: set[str],
        intervals: IntervalAssignment,
        witness: Witness | None = None,
        nodes: WorkloadNodes | None = None,
    ) -> None:
        self.inputs = inputs
        self.intervals = intervals
        self.table = intervals.table
        self._own_kinds = own_kinds
        self._row_of_index = {row.index: number for number, row in enumerate(rows)}
        self._row_of_uid = {
            sent.uid: self._row_of_index[index]
            for index, sent in inputs.sent.items()
            if sent.uid and index in self._row_of_index
        }
        self._of_uid: dict[str, SeenObject] = {}  # one look-up for all but the first event of an object
        # (kind, namespace) -> name -> object: a pod recreated under its name counts once.
        self._of_name: dict[tuple[str, str], dict[str, SeenObject]] = {}
        # The same for a name that occurs in several rows.
        self._ambiguous: dict[tuple[int, tuple[str, str], str], SeenObject] = {}
        self._witness = witness
        self._nodes = nodes
        self.members: dict[str, list[int]] = {}  # kind -> number of objects by row
        self.seen_own: set[int] = set()  # rows
        self.deleted: set[int] = set()  # rows
        self.own_gpus: dict[int, float] = {}  # row -> GPUs that the workload's own object requests in total
        pods = {} if POD in own_kinds else intervals.reducers_of.get(POD, {})
        self.replacements = PodReplacements(inputs.kinds, pods)

    def read(self, last: float) -> float:
        """Take all events; return the time of the last one, or ``last`` if that is later."""
        for received, clock, event in point_reader.read_events(self.inputs):
            self._take(received, clock, event)
            last = max(last, self.intervals.clocks.middle(clock, received))
        return last

    def _take(self, received: float, clock: str, event: dict[str, Any]) -> None:
        kind, uid = event["kind"], event["uid"]
        known = self._of_uid.get(uid) or self._first_of(event)
        if known is None:
            return
        row = known.row
        own = kind in self._own_kinds and self.table.uid[row] == uid
        if self._nodes is not None and "node" in event:
            self._nodes.see(row, event["node"])
        at = parse_resource_version(event["resource_version"])
        intervals = self.intervals
        if self._witness is not None:
            bounds = intervals.bounds_of(received, event, at, known.version, row, clock)
            self._witness(self.table.index[row], event, bounds)
        reducers = intervals.reducers_of.get(kind)
        if reducers:
            seen = known.stages
            shown = [reducers[name] for name, value in event["values"].items() if value and name in reducers]
            fresh = [reducer for reducer in shown if not seen & reducer[0]]
            if fresh:
                bounds = intervals.bounds_of(received, event, at, known.version, row, clock)
                intervals.reach(fresh, known, bounds, event)
        if own:
            self._take_own(row, event)
        elif kind == POD:
            self.replacements.see(known, event["event"])
            if at is not None and not known.ended and self.replacements.shows_pod_end(event["values"]):
                known.ended = at
        if at is not None:
            if at > known.version:
                known.version = at
            if event["how"] == "watch":
                intervals.last_watched[kind, event["namespace"], clock] = at

    def _first_of(self, event: dict[str, Any]) -> SeenObject | None:
        """Return the object of the first event with a uid; None if it belongs to no workload."""
        kind, uid, name = event["kind"], event["uid"], event["name"]
        row = self._row_of_uid.get(uid)
        if row is None:
            row = self._row(event)
            if row is None:
                return None
        if self.table.uid[row] == uid:
            uid, name = self.table.uid[row], _reuse_equal_text(self.table.name[row], name)  # kept once
        place = (kind, event["namespace"])
        of_name = self._of_name.setdefault(place, {})
        known = of_name.get(name)
        if known is not None and known.row != row:
            known = self._ambiguous.get((row, place, name))
        if known is None:
            known = SeenObject(row)
            if of_name.setdefault(name, known) is not known:
                self._ambiguous[row, place, name] = known
            if kind not in self._own_kinds or self.table.uid[row] != uid:
                self._add_member(kind, row, event)
        known.ended = 0  # a pod that was made again under its name has not ended
        self._of_uid[uid] = known
        return known

    def _take_own(self, row: int, event: dict[str, Any]) -> None:
        self.seen_own.add(row)
        self.intervals.take_stated_creation(row, event)
        if event["event"] == "DELETED":
            self.deleted.add(row)
        if event.get("gpus"):
            self.own_gpus[row] = max(self.own_gpus.get(row, 0.0), float(event["gpus"]))

    def _row(self, event: dict[str, Any]) -> int | None:
        """Return the row that an object not seen before belongs to, by its owners or its index label, else None.

        An object that a controller makes for a pod that has ended belongs to none: nobody waits for it. A busy
        controller makes claims of devices again so, and deletes them. Kinds are watched separately, so that only
        resourceVersions say what came later; one that is delivered before the pod's end still counts.
        """
        uid, at = event["uid"], parse_resource_version(event["resource_version"])
        for owner in event["owners"]:
            seen = self._of_uid.get(owner)
            if seen is not None and at is not None and 0 < seen.ended < at:
                return None
            row = self._row_of_uid.get(owner) if seen is None else seen.row
            if row is not None:
                return row
        row = self._row_of_index.get(event["index"]) if event["index"] is not None else None
        if row is None:
            return None
        if event["kind"] in self._own_kinds and not event["owners"]:
            if self.table.uid[row] not in (None, uid):
                self.table.contradict(row, f"another {event['kind']} with this index was seen: uid {uid}")
                return None
            self.table.uid[row] = uid
        return row

    def _add_member(self, kind: str, row: int, event: dict[str, Any]) -> None:
        if kind not in self.members:
            self.members[kind] = [0] * len(self.table)
        self.members[kind][row] += 1
        if kind == POD:
            self.table.pods[row] += 1
            self.table.gpus[row] += float(event.get("gpus") or 0)


def _reuse_equal_text(held: str, text: str) -> str:
    """Return ``held`` if it is equal to ``text``, so that equal texts are stored once."""
    return held if held == text else text
