# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One row for each planned workload: plan, ledger and observations joined, each stage as [earliest, latest].

One pass over the events, with dictionary look-ups only: the time grows linearly with the number of objects.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from math import isnan
from operator import itemgetter
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.point_reader import (
    PointInputs,
    SentWorkload,
    WorkloadRow,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import (
    MOMENTS,
    TimelineTable,
    create_empty_column,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_views import (
    NODE,
    REAL,
    WorkloadNodes,
    node_kind_of_timeline,
)

from . import audit_and_creation_times as audit_logs
from .audit_and_creation_times import ForeignLoad
from .common_clock_of_clients import ClientClocks
from .stage_interval_assignment import IntervalAssignment
from .stage_order_and_reduction import ALL, OWN, TimelineStage, stages_from_definitions
from .watch_event_assignment import POD, EventReader, Witness

#: (Latest moments, outcome) of each stage that ends a workload.
Endings = Sequence[tuple[Sequence[float], str]]
#: Without definitions (no observations) a workload still has the stage that the answer to our create shows.
CREATED = TimelineStage("created", "", "created", OWN, "API server", False)
#: The stage of a workload that waited for its release, from our request to its answer.
RELEASED = "released"
#: The stage of a workload that was deleted at the end of its lifetime, from our request to its answer.
STOPPED = "stopped"
#: Maximum number of workloads that a note names.
_NAMED = 10
#: Most workloads times stages of a timeline, each with two numbers; most lines of clients that were lost.
MOST_CELLS, MOST_LOST = 200_000_000, 1000


def add_gangs_outcomes_and_contradictions(reader: EventReader, intervals: IntervalAssignment) -> None:
    """Complete the table: gangs, outcome and contradictions of each row."""
    table = intervals.table
    endings = [(table.latest[stage.name], stage.ends) for stage in intervals.stages if stage.ends]
    intervals.settle()
    _discard_replaced(reader, intervals, endings)
    none = [0] * len(table)
    for reducer in intervals.reducers:
        if reducer.stage.which == ALL:
            reducer.clear_incomplete_gangs(reader.members.get(reducer.stage.kind, none))
    for row in range(len(table)):
        sent = intervals.inputs.sent.get(table.index[row])
        result = workload_outcome(row, endings, row in reader.deleted, row in reader.seen_own, sent)
        if result == "unsent" and _belongs_to_lost_client(intervals, table.index[row]):
            result = "lost"
        table.outcome.append(result)
        table.censored.append(result in ("unfinished", "deleted", "lost"))
        table.gpus[row] = reader.own_gpus.get(row) or table.gpus[row]
    note_contradicted_order(table, intervals.stages)


def _discard_replaced(reader: EventReader, intervals: IntervalAssignment, endings: Endings) -> None:
    """Count a pod that was preempted and recreated as one pod."""
    table, members = intervals.table, reader.members.get(POD)
    if members is None:
        return

    def ended(row: int) -> bool:
        return row in reader.deleted or any(not isnan(latest[row]) for latest, _outcome in endings)

    for row, (before, lost) in reader.replacements.subtract_replaced_pods(members, ended).items():
        table.pods[row], table.gpus[row] = members[row], table.gpus[row] * members[row] / before
        for bit, reducers in intervals.reducers_of.get(POD, {}).values():
            replaced = sum(1 for bits in lost if bits & bit)
            for reducer in reducers:
                if reducer.count is not None:
                    reducer.count[row] -= replaced


def workload_outcome(row: int, endings: Endings, deleted: bool, seen: bool, sent: SentWorkload | None) -> str:
    """Return the outcome of a workload: that of its first ending, else deleted, unfinished, unsent, refused or lost."""
    reached = [(latest[row], name) for latest, name in endings if not isnan(latest[row])]
    if reached:
        return min(reached)[1]
    if deleted:
        return "deleted"
    if seen or (sent and sent.outcome in ("created", "already_mine")):
        return "unfinished"
    if sent is None:
        return "unsent"
    return "refused" if sent.outcome == "refused" else "lost"


def _belongs_to_lost_client(intervals: IntervalAssignment, index: int) -> bool:
    """Return whether the client that had to send a workload was lost."""
    return any(index % client["clients"] == client["client"] for client in intervals.inputs.lost)


def note_contradicted_order(table: TimelineTable, stages: list[TimelineStage]) -> None:
    """Note in the table what cannot be: reversed bounds, and stages that ended before one that they wait for began."""
    earliest, latest, start = table.earliest, table.latest, table.header["start"]
    columns = []
    for stage in stages:
        needs = [(need, earliest[need]) for need in stage.needs if need in earliest]
        columns.append((stage.name, earliest[stage.name], latest[stage.name], needs))
    for row in range(len(table)):
        for name, first_column, last_column, needs in columns:
            first, last = first_column[row], last_column[row]
            if isnan(last):
                continue
            if first > last:
                bounds = f"after {first - start:.6f} s and before {last - start:.6f} s"
                table.contradict(row, f"{name}: {bounds}")
            for need, before in needs:
                if last < before[row]:
                    table.contradict(row, f"{name} ended {before[row] - last:.6f} s before {need} began")


def build_timeline_of_workloads(
    folder: Path,
    run: str,
    point: str,
    simulated_writers: Iterable[str] = (),
    audit_log: Path | None = None,
    real_nodes: Collection[str] = (),
) -> TimelineTable:
    """Return the timeline of the point in ``folder``. The notes in its header list missing and damaged records.

    simulated_writers: those of the cluster, used when the observations do not name them.
    audit_log: of the API server, to narrow the intervals. real_nodes: of a cluster that also has simulated ones.
    """
    return build_timeline_from_inputs(
        point_reader.read_point_inputs(folder), run, point, simulated_writers, audit_log, real_nodes=real_nodes
    )


def build_timeline_from_inputs(
    inputs: PointInputs,
    run: str,
    point: str,
    simulated_writers: Iterable[str] = (),
    audit_log: Path | None = None,
    witness: Witness | None = None,
    real_nodes: Collection[str] = (),
) -> TimelineTable:
    """Return the timeline of a point whose files were read already, as build_timeline_of_workloads() does.

    witness: called with every event of a workload: its index, the event, and the bounds of its moment.
    """
    rows = point_reader.planned_workloads_with_kind(inputs)
    own_kinds = {row.kind for row in rows if row.kind} or set(list(inputs.kinds)[:1])
    simulated = set(inputs.simulated_writers if inputs.simulated_writers is not None else simulated_writers)
    stages = _applicable_stages(inputs, own_kinds, simulated)
    clocks = ClientClocks(inputs)
    table = _empty_table(inputs, clocks, rows, stages, run, point)
    audit = (
        audit_logs.create_interval_narrower(audit_log, run, inputs, clocks, rows, table.header["notes"])
        if audit_log
        else None
    )
    intervals = IntervalAssignment(inputs, table, stages, clocks, audit)
    intervals.take_ledger(rows)
    nodes = WorkloadNodes(len(rows), real_nodes) if real_nodes and NODE in simulated else None
    reader = EventReader(inputs, rows, own_kinds, intervals, witness, nodes)
    noted = len(inputs.notes)
    last = reader.read(table.header["end"])
    table.header["notes"] += inputs.notes[noted:]  # damaged events
    if clocks.ended is None:
        table.header["end"] = last
    _take_releases(table, inputs, clocks)
    _take_stops(table, inputs, clocks)
    add_gangs_outcomes_and_contradictions(reader, intervals)
    intervals.date_found()
    if intervals.foreign is not None:
        _describe_foreign(table, intervals.foreign)
    if nodes is not None:
        table.nodes = nodes.kinds_by_workload()
        table.header["simulated_writers"] = sorted(simulated)
        if inputs.kinds and node_kind_of_timeline(table) == REAL:
            stages = _applicable_stages(inputs, own_kinds, set(simulated) - {NODE})
            table.header["stages"] = [stage.header() for stage in stages]
    return table


def _applicable_stages(inputs: PointInputs, own_kinds: set[str], simulated: set[str]) -> list[TimelineStage]:
    """Return the defined stages, and that of the end of a lifetime if the ledger shows one."""
    stages = stages_from_definitions(_definitions_with_release(inputs, own_kinds), own_kinds, simulated) or [CREATED]
    if inputs.stops and all(stage.name != STOPPED for stage in stages):
        complete = tuple(stage.name for stage in stages if stage.ends == "succeeded")
        stages.append(TimelineStage(STOPPED, min(own_kinds, default=""), STOPPED, OWN, "client", False, None, complete))
    return stages


def _take_stops(table: TimelineTable, inputs: PointInputs, clocks: ClientClocks) -> None:
    """Fill the stage of the end of a lifetime. The stages before it are filled."""
    complete = next(
        (stage["needs"] for stage in table.stages if stage["name"] == STOPPED and stage["writer"] == "client"), None
    )
    if complete is None:
        return
    for row, index in enumerate(table.index):
        if index in inputs.stops:
            began, answered, clock = inputs.stops[index]
            first, last = clocks.request(clock, began, answered)
            table.earliest[STOPPED][row] = _request_lower_bound(table, row, complete) if first is None else first
            table.latest[STOPPED][row] = last


def _request_lower_bound(table: TimelineTable, row: int, stages: Collection[str]) -> float:
    """Return the lower bound of a request of which the first may not be recorded: one of ``stages`` was seen before.

    If none of them is dated, any stage is taken, else the start.
    """
    known = [moment for name in stages if not isnan(moment := table.earliest[name][row])]
    known = known or [moment for column in table.earliest.values() if not isnan(moment := column[row])]
    return min(known, default=table.header["start"])


def _notes_on_lost_clients(inputs: PointInputs, rows: list[WorkloadRow]) -> list[str]:
    """Return a note for each client whose files are missing, with the workloads whose fate is unknown."""
    notes = []
    if len(inputs.lost) > MOST_LOST:
        raise DataError(f"ledger.jsonl has {len(inputs.lost):,} lost clients, and {MOST_LOST:,} are the most of a load")
    for client in inputs.lost:
        of = [row.index for row in rows if row.index % client["clients"] == client["client"]]
        unknown = [index for index in of if index not in inputs.sent]
        named = ", ".join(str(index) for index in unknown[:_NAMED]) + (", …" if len(unknown) > _NAMED else "")
        notes.append(
            f"client {client['client']} of {client['clients']} was lost ({client['reason']}): nothing is known of "
            f"{formats.format_count(len(unknown), 'workload')} ({named})"
        )
    return notes


def _definitions_with_release(inputs: PointInputs, own_kinds: set[str]) -> dict[str, Any]:
    """Return the definitions of stages, and in those of the workloads that of their release, if there was one.

    It stands before the first stage that waits for it.
    """
    kinds = dict(inputs.kinds)
    for kind in own_kinds & kinds.keys() if inputs.releases else ():
        stages = list(kinds[kind].get("stages") or [])
        after = [number for number, stage in enumerate(stages) if RELEASED in (stage.get("depends_on") or ())]
        if after:
            needs = [stage["name"] for stage in stages[: after[0]]][-1:]
            stages.insert(after[0], {"name": RELEASED, "writer": "client", "depends_on": needs})
            kinds[kind] = {**kinds[kind], "stages": stages}
    return kinds


def _take_releases(table: TimelineTable, inputs: PointInputs, clocks: ClientClocks) -> None:
    """Fill the stage of the release: the write that first covered the index. The stages before it are filled."""
    if RELEASED not in table.earliest:
        return
    growing: list[tuple[int, float | None, float, str]] = []  # no other release can be the first of a workload
    for release in inputs.releases:
        if not growing or release[0] > growing[-1][0]:
            growing.append(release)
    for row, index in enumerate(table.index):
        place = bisect_right(growing, index, key=itemgetter(0))
        if place < len(growing):
            _until, began, answered, clock = growing[place]
            first, last = clocks.request(clock, began, answered)
            # Not all have to be ready, but all were created.
            table.earliest[RELEASED][row] = _request_lower_bound(table, row, ()) if first is None else first
            table.latest[RELEASED][row] = last


def _describe_foreign(table: TimelineTable, foreign: ForeignLoad) -> None:
    """Complete the header of a load that others submitted: it starts with the first creation."""
    sent_is = next(
        (stage["name"] for stage in table.stages if foreign.shows_creation(stage["kind"], stage["name"])), ""
    )
    table.header["sent_is"] = sent_is
    table.header["notes"] += foreign.notes
    table.header["dated_by"] = {stage: dict(counts) for stage, counts in foreign.dated_by.items()}
    created = [moment for moment in table.earliest.get(sent_is, ()) if not isnan(moment)]
    table.header["start"] = min(created, default=table.header["start"])


def _empty_table(
    inputs: PointInputs,
    clocks: ClientClocks,
    rows: list[WorkloadRow],
    stages: list[TimelineStage],
    run: str,
    point: str,
) -> TimelineTable:
    size = len(rows)
    if size * len(stages) > MOST_CELLS:
        raise DataError(f"{size:,} workloads with {len(stages)} stages each are more than a timeline can have")
    times = clocks.header()
    header: dict[str, Any] = {
        "schema": "timeline/1",
        "run": run,
        "point": point,
        "start": times.pop("start"),
        "end": times.pop("end"),
        "planned": size,
        "stages": [stage.header() for stage in stages],
        "gaps": times.pop("gaps"),
        "notes": [*inputs.notes, *clocks.notes, *_notes_on_lost_clients(inputs, rows)],
        **times,
    }
    table = TimelineTable(header)
    for name in ("index", "name", "kind", "template"):
        setattr(table, name, [getattr(row, name) for row in rows])
    table.pods, table.gpus, table.nodes = [0] * size, [0.0] * size, [None] * size
    table.moments = {name: create_empty_column(size) for name in MOMENTS}
    table.earliest = {stage.name: create_empty_column(size) for stage in stages}
    table.latest = {stage.name: create_empty_column(size) for stage in stages}
    return table
