# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The outcome of each workload, and the contradictions of its row, once all events were read."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from ansible_collections.perfscale.seatrial.plugins.module_utils._run.point_reader import SentWorkload
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import Table

from .event_assignment import EventReader
from .interval_assignment import IntervalAssignment
from .pod_replacements import POD
from .stage_order import ALL, Stage

#: (Latest moments, outcome) of each stage that ends a workload.
Endings = Sequence[tuple[Sequence[float], str]]


def finish(reader: EventReader, intervals: IntervalAssignment) -> None:
    """Complete the table: gangs, outcome and contradictions of each row."""
    table = intervals.table
    endings = [(table.latest[stage.name], stage.ends) for stage in intervals.stages if stage.ends]
    intervals.settle()
    _discard_replaced(reader, intervals, endings)
    none = [0] * len(table)
    for reducer in intervals.reducers:
        if reducer.stage.which == ALL:
            reducer.only_whole_gangs(reader.members.get(reducer.stage.kind, none))
    for row in range(len(table)):
        sent = intervals.inputs.sent.get(table.index[row])
        found = outcome(row, endings, row in reader.deleted, row in reader.seen_own, sent)
        if found == "unsent" and _in_lost_part(intervals, table.index[row]):
            found = "lost"
        table.outcome.append(found)
        table.censored.append(found in ("unfinished", "deleted", "lost"))
        table.gpus[row] = reader.own_gpus.get(row) or table.gpus[row]
    contradict_order(table, intervals.stages)


def _discard_replaced(reader: EventReader, intervals: IntervalAssignment, endings: Endings) -> None:
    """Count a pod that was preempted and recreated as one pod."""
    table, members = intervals.table, reader.members.get(POD)
    if members is None:
        return

    def ended(row: int) -> bool:
        return row in reader.deleted or any(not isnan(latest[row]) for latest, _outcome in endings)

    for row, (before, lost) in reader.replacements.settle(members, ended).items():
        table.pods[row], table.gpus[row] = members[row], table.gpus[row] * members[row] / before
        for bit, reducers in intervals.reducers_of.get(POD, {}).values():
            replaced = sum(1 for bits in lost if bits & bit)
            for reducer in reducers:
                if reducer.count is not None:
                    reducer.count[row] -= replaced


def outcome(row: int, endings: Endings, deleted: bool, seen: bool, sent: SentWorkload | None) -> str:
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


def _in_lost_part(intervals: IntervalAssignment, index: int) -> bool:
    """Return whether the client that had to send a workload was lost."""
    return any(index % one["clients"] == one["client"] for one in intervals.inputs.lost)


def contradict_order(table: Table, stages: list[Stage]) -> None:
    """Note in the table what cannot be: reversed bounds, and stages that ended before one that they wait for began."""
    earliest, latest, start = table.earliest, table.latest, table.header["start"]
    columns = []
    for one in stages:
        needs = [(need, earliest[need]) for need in one.needs if need in earliest]
        columns.append((one.name, earliest[one.name], latest[one.name], needs))
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
