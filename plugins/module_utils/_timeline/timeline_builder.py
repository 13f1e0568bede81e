# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One row for every planned workload: plan, ledger and observations joined, each stage as [earliest, latest].

One pass over the events; everything is found through dictionaries, so ten times the objects take ten times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isnan
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir import point_files
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir.timeline_table import MOMENTS, Table, column
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline import audit_log, pod_replacements
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline.foreign_etcd import ForeignEtcd
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline.pod_replacements import PodReplacements
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline.revision_clock import (
    RevisionClock,
    marks,
    version,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline.stage_order import (
    ALL,
    OWN,
    Stage,
    from_definitions,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline.stage_reducer import StageReducer

#: Without definitions (no observations) a workload still has the stage that our own create tells.
CREATED = Stage("created", "", "created", OWN, "API server", False)


class TimelineBuilder:
    """Builds the table of one point. ``simulated_writers``: of the cluster, used when the sampler didn't say."""

    def __init__(
        self, inputs: point_files.PointInputs, run: str, point: str, simulated_writers: Iterable[str] = ()
    ) -> None:
        self.inputs = inputs
        self.notes = list(inputs.notes)
        self.rows = point_files.rows(inputs)
        self.row_of = {row["index"]: number for number, row in enumerate(self.rows)}
        self.own = {row["kind"] for row in self.rows if row["kind"]} or set(list(inputs.kinds)[:1])
        played = inputs.simulated_writers if inputs.simulated_writers is not None else simulated_writers
        self.stages = from_definitions(inputs.kinds, self.own, played) or [CREATED]
        self.root = next((stage.name for stage in self.stages if stage.which == OWN), "")
        self.table = self._empty(run, point)
        self.ruler = RevisionClock(marks(self.inputs.writes), marks(self.inputs.soundings))
        self.start = self.table.header["start"]
        # The lives that were seen: a pod by its name, so that one made again under it doesn't count twice.
        self.lives: dict[tuple[tuple[str, str], str], list[int]] = {}  # ((kind, namespace), name) -> [stages, version]
        self.row_of_uid: dict[str, int] = {
            sent.uid: self.row_of[index] for index, sent in inputs.sent.items() if sent.uid and index in self.row_of
        }
        self.deleted: set[int] = set()
        self.own_gpus: dict[int, float] = {}  # what the workload's own object asks for in all, where it says so
        self.seen_own: set[int] = set()
        self.last_watched: dict[tuple[str, str], int] = {}
        self.ways = [StageReducer(stage, self.table) for stage in self.stages]
        self.by_definition: dict[str, dict[str, tuple[int, list[StageReducer]]]] = {}
        for way in self.ways:
            of_kind = self.by_definition.setdefault(way.stage.kind, {})
            of_kind.setdefault(way.stage.defined, (1 << len(of_kind), []))[1].append(way)
        self.members: dict[str, list[int]] = {}
        pods = {} if pod_replacements.POD in self.own else self.by_definition.get(pod_replacements.POD, {})
        self.replaced = PodReplacements(inputs.kinds, pods)
        self.apart = ForeignEtcd()
        self.audit: audit_log.IntervalNarrower | None = None
        #: Shown every event of a workload: its index, the event, and the bounds of its moment.
        self.witness: Callable[[int, dict[str, Any], tuple[float, float]], None] | None = None

    def take_audit(self, path: Path) -> None:
        """Narrow intervals by an API server's audit log from now on; say in the notes when that can't be done."""
        self.audit = audit_log.narrower(path, self.table.header["run"], self.inputs, self.rows, self.notes)

    def _empty(self, run: str, point: str) -> Table:
        inputs = self.inputs
        size = len(self.rows)
        moments = [sent.sent for sent in inputs.sent.values() if sent.sent is not None]
        start = next(
            (one for one in (inputs.started, min(moments, default=None), inputs.watched_from) if one is not None), 0.0
        )
        header = {
            "schema": "timeline/1",
            "run": run,
            "point": point,
            "start": start,
            "end": inputs.ended if inputs.ended is not None else start,
            "planned": size,
            "stages": [stage.header() for stage in self.stages],
            "gaps": inputs.gaps,
            "notes": self.notes,
        }
        table = Table(header)
        table.index = [row["index"] for row in self.rows]
        table.name = [row["name"] for row in self.rows]
        table.kind = [row["kind"] for row in self.rows]
        table.template = [row["template"] for row in self.rows]
        table.pods, table.gpus = [0] * size, [0.0] * size
        for name in MOMENTS:
            table.moments[name] = column(size)
        table.earliest = {stage.name: column(size) for stage in self.stages}
        table.latest = {stage.name: column(size) for stage in self.stages}
        return table

    def build(self) -> Table:
        """Return the table."""
        self._take_ledger()
        last = self.table.header["end"]
        for received, event in point_files.events(self.inputs):
            self._take(received, event)
            last = max(last, received)
        if self.inputs.ended is None:
            self.table.header["end"] = last
        self._finish()
        return self.table

    def _take_ledger(self) -> None:
        for number, row in enumerate(self.rows):
            sent = self.inputs.sent.get(row["index"])
            offset = row["offset"]
            if sent is None:
                if offset is not None and self.inputs.started is not None:
                    self.table.moments["intended"][number] = self.inputs.started + offset
                self.table.attempts.append(0)
                self.table.uid.append(None)
                continue
            self.table.attempts.append(sent.attempts)
            self.table.uid.append(sent.uid)
            # In a closed loop nothing was intended for a certain moment.
            planned = offset is not None or not self.inputs.planned
            for name, value in (
                ("intended", sent.intended if planned else None),
                ("sent", sent.sent),
                ("answered", sent.answered),
            ):
                if value is not None:
                    self.table.moments[name][number] = value
            if self.root and sent.created:
                at = version(sent.created[0])
                after, before = (self.ruler.after(at), self.ruler.before(at)) if at is not None else sent.created[1:]
                self._set(self.root, number, max(after, sent.created[1]), min(before, sent.created[2]))

    def _set(self, stage: str, row: int, earliest: float, latest: float) -> None:
        self.table.earliest[stage][row] = earliest
        self.table.latest[stage][row] = latest

    def _take(self, received: float, event: dict[str, Any]) -> None:
        kind, uid = event["kind"], event["uid"]
        row = self.row_of_uid.get(uid)
        if row is None:
            row = self._row(event)
            if row is None:
                return
        own = kind in self.own and self.table.uid[row] == uid
        place = (kind, event["namespace"])
        life = self.lives.get((place, event["name"]))
        if life is None:
            life = self.lives[place, event["name"]] = [0, 0]
            if not own:
                self._join(kind, row, event)
        at = version(event["resource_version"])
        if self.witness is not None:
            self.witness(self.table.index[row], event, self._bounds_of(received, event, at, life[1], row))
        known = self.by_definition.get(kind)
        if known:
            seen = life[0]
            told = [known[name] for name, value in event["values"].items() if value and name in known]
            fresh = [one for one in told if not seen & one[0]]
            if fresh:
                self._reach(fresh, life, self._bounds_of(received, event, at, life[1], row), event, row)
        if own:
            self._own(row, event)
        elif kind == pod_replacements.POD:
            self.replaced.see(row, life, event["event"])
        if at is not None:
            if at > life[1]:
                life[1] = at
            if event["how"] == "watch":
                self.last_watched[place] = at

    def _bounds_of(
        self, received: float, event: dict[str, Any], at: int | None, held: int, row: int
    ) -> tuple[float, float]:
        """Return [earliest, latest] of what this event shows for the first time, by all that is known."""
        apart = event["kind"] in self.inputs.apart
        earliest, latest = self._bounds(received, event, None if apart else at, held, row)
        if self.audit is not None:
            earliest, latest, trouble = self.audit.narrowed(event, earliest, latest, self.start)
            if trouble:
                self._contradict(row, trouble)
        return earliest, latest

    def _reach(
        self,
        fresh: list[tuple[int, list[StageReducer]]],
        life: list[int],
        bounds: tuple[float, float],
        event: dict[str, Any],
        row: int,
    ) -> None:
        """Take note of the stages that an object has reached, now or when the clocks of another etcd are known."""
        apart = event["kind"] in self.inputs.apart
        for bit, ways in fresh:
            life[0] |= bit
            for way in ways:
                if apart:
                    # Only the API server's own times: the clocks of others are not bounded by our creates.
                    stated = event["values"]["created"] if way.stage.defined == "created" else None
                    self.apart.keep(way.reach, row, *bounds, stated)
                else:
                    way.reach(row, *bounds)

    def _own(self, row: int, event: dict[str, Any]) -> None:
        self.seen_own.add(row)
        if self.inputs.apart:
            sent = self.inputs.sent.get(self.table.index[row])
            if sent is not None and sent.created:
                self.apart.created(event["values"].get("created"), sent.created[1], sent.created[2])
        if event["event"] == "DELETED":
            self.deleted.add(row)
        if event.get("gpus"):
            self.own_gpus[row] = max(self.own_gpus.get(row, 0.0), float(event["gpus"]))

    def _row(self, event: dict[str, Any]) -> int | None:
        """Find the workload that an object not seen before belongs to: by its owners or its index label."""
        uid = event["uid"]
        for owner in event["owners"]:
            row = self.row_of_uid.get(owner)
            if row is not None:
                self.row_of_uid[uid] = row
                return row
        row = self.row_of.get(event["index"]) if event["index"] is not None else None
        if row is None:
            return None
        if event["kind"] in self.own and not event["owners"]:
            if self.table.uid[row] not in (None, uid):
                self._contradict(row, f"another {event['kind']} with this index was seen: uid {uid}")
                return None
            self.table.uid[row] = uid
        self.row_of_uid[uid] = row
        return row

    def _join(self, kind: str, row: int, event: dict[str, Any]) -> None:
        """A new member of a workload's gang."""
        if kind not in self.members:
            self.members[kind] = [0] * len(self.rows)
        self.members[kind][row] += 1
        if kind == "Pod":
            self.table.pods[row] += 1
            self.table.gpus[row] += float(event.get("gpus") or 0)

    def _bounds(
        self, received: float, event: dict[str, Any], at: int | None, held: int, row: int
    ) -> tuple[float, float]:
        """Return [earliest, latest] of what this event shows for the first time.

        A watch shows each commit, so the event's own resourceVersion dates it. After a gap, or when the object is gone,
        the change was made by some commit after the last one that was seen: of this object (held), or by this watch.
        """
        floor = self.table.moments["sent"][row]  # nothing of a workload can be before it was first sent
        if isnan(floor):
            floor = self.inputs.watched_from if self.inputs.watched_from is not None else self.start
        if at is None:
            return floor, received
        after, before = self.ruler.after(at), self.ruler.before(at)
        if event["how"] != "watch" or event["event"] == "DELETED":
            after = self.ruler.after(max(held, self.last_watched.get((event["kind"], event["namespace"]), 0)))
        return after if after > floor else floor, before if before < received else received

    def _contradict(self, row: int, text: str) -> None:
        told = self.table.contradictions.setdefault(row, [])
        if text not in told:
            told.append(text)

    def _finish(self) -> None:
        earliest, latest = self.table.earliest, self.table.latest
        self.columns = [
            (
                one.name,
                earliest[one.name],
                latest[one.name],
                [(need, earliest[need]) for need in one.needs if need in earliest],
            )
            for one in self.stages
        ]
        self.apart.settle()
        self._leave_out_replaced()
        for way in self.ways:
            if way.stage.which == ALL:
                way.only_whole_gangs(self.members.get(way.stage.kind, [0] * len(self.rows)))
        for row in range(len(self.rows)):
            outcome = self._outcome(row)
            self.table.outcome.append(outcome)
            self.table.censored.append(outcome in ("unfinished", "deleted", "lost"))
            self.table.gpus[row] = self.own_gpus.get(row) or self.table.gpus[row]
            self._compare(row)

    def _leave_out_replaced(self) -> None:
        """A pod that was preempted and made again is one pod."""
        if pod_replacements.POD not in self.members:
            return
        for row, (there, lost) in self.replaced.settle(self.members[pod_replacements.POD], self._ended).items():
            left = self.members[pod_replacements.POD][row]
            self.table.pods[row], self.table.gpus[row] = left, self.table.gpus[row] * left / there
            for bit, ways in self.by_definition.get(pod_replacements.POD, {}).values():
                gone = sum(1 for bits in lost if bits & bit)
                for way in ways:
                    if way.count is not None:
                        way.count[row] -= gone

    def _ended(self, row: int) -> bool:
        ends = [stage.name for stage in self.stages if stage.ends]
        return row in self.deleted or any(not isnan(self.table.latest[name][row]) for name in ends)

    def _outcome(self, row: int) -> str:
        ends = [
            (self.table.latest[stage.name][row], stage.ends)
            for stage in self.stages
            if stage.ends and self.table.latest[stage.name][row] == self.table.latest[stage.name][row]
        ]
        if ends:
            return str(min(ends)[1])
        if row in self.deleted:
            return "deleted"
        sent = self.inputs.sent.get(self.table.index[row])
        if row in self.seen_own or (sent and sent.outcome in ("created", "already_mine")):
            return "unfinished"
        if sent is None:
            return "unsent"
        return "refused" if sent.outcome == "refused" else "lost"

    def _compare(self, row: int) -> None:
        """Keep in words what can't be: bounds the wrong way round, a stage before one that it waits for."""
        for name, first, last, needs in self.columns:
            earliest, latest = first[row], last[row]
            if isnan(latest):
                continue
            if earliest > latest:
                bounds = f"after {earliest - self.start:.6f} s and before {latest - self.start:.6f} s"
                self._contradict(row, f"{name}: {bounds}")
            for need, before in needs:
                if latest < before[row]:
                    self._contradict(row, f"{name} ended {before[row] - latest:.6f} s before {need} began")


def build(
    folder: Path, run: str, point: str, simulated_writers: Iterable[str] = (), audit_log: Path | None = None
) -> Table:
    """Return the timeline of the point in ``folder``; what was missing or damaged stands in its header's notes.

    audit_log: of the API server, to narrow the intervals.
    """
    builder = TimelineBuilder(point_files.read(folder), run, point, simulated_writers)
    if audit_log is not None:
        builder.take_audit(audit_log)
    return builder.build()
