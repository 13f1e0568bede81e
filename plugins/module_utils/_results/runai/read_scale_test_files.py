# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read submitted.json and sampled.json of the Run:ai scale-test tool into a timeline.

Each timestamp is a whole second, so its stage is the interval of that second. The tool's sentinels equal another
timestamp and are ignored. Workloads that were submitted but not sampled count as unfinished in every denominator.
"""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.json_text import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import (
    MOMENTS,
    TimelineTable,
    create_empty_column,
)

from . import scale_test_names_and_times

#: Stages of such a timeline in order: name, timestamp key, writer, needs.
STAGES = (
    ("created", scale_test_names_and_times.CREATED, "api-server", ()),
    ("job_created", "jobCreatedTimestamp", "controller", ("created",)),
    ("backend_created", scale_test_names_and_times.BACKEND, "controller", ("created",)),
    ("persistentvolumeclaim_created", "firstPVCBindRequestTimestamp", "controller", ("created",)),
    ("persistentvolumeclaim_bound", "firstPVCBindTimestamp", "controller", ("persistentvolumeclaim_created",)),
    ("pods_created_first", "firstPodCreatedTimestamp", "controller", ("job_created",)),
    ("pods_created", "lastPodCreatedTimestamp", "controller", ("pods_created_first",)),
    ("podgroup_created", "podGroupCreatedTimestamp", "controller", ("created",)),
    ("pods_scheduled", scale_test_names_and_times.DECISION, "scheduler", ("pods_created", "podgroup_created")),
    ("evicted_first", "firstEvictionTimestamp", "scheduler", ("pods_scheduled",)),
)
END = "pods_scheduled"
KIND = "Run:ai workload"


def build_timeline(folder: Path, run: str, point: str) -> TimelineTable:
    """Return the timeline of these files. Raises DataError naming the file and the error."""
    sent, seen = (
        _read_json_rows(folder / scale_test_names_and_times.SUBMITTED),
        _read_json_rows(folder / scale_test_names_and_times.SAMPLED),
    )
    notes = [
        "read from files of the Run:ai scale-test tool: times are whole seconds of the platform's clock, and a "
        "workload ends when its first pod is scheduled"
    ]
    by_name, twice = _index_rows_by_name(seen)
    if twice:
        notes.append(
            f"{scale_test_names_and_times.SAMPLED}: {formats.format_count(twice, 'row')} with a duplicate name left out"
        )
    table = TimelineTable({})
    size = len(sent)
    table.moments = {name: create_empty_column(size) for name in MOMENTS}
    table.earliest = {stage[0]: create_empty_column(size) for stage in STAGES}
    table.latest = {stage[0]: create_empty_column(size) for stage in STAGES}
    wrong = 0
    for row, entry in enumerate(sent):
        key = (entry.get("jobName", ""), entry.get("projectName", ""))
        at = scale_test_names_and_times.parse_timestamp_bounds(entry.get(scale_test_names_and_times.SUBMIT, ""))
        if at is None:
            wrong += 1
        else:
            table.moments["sent"][row] = at[0]
        _append_workload_row(table, row, key, by_name.pop(key, None))
    if wrong:
        notes.append(
            f"{scale_test_names_and_times.SUBMITTED}: {formats.format_count(wrong, 'row')} without a valid"
            f" {scale_test_names_and_times.SUBMIT}"
        )
    if by_name:
        notes.append(
            f"{scale_test_names_and_times.SAMPLED}: {formats.format_count(len(by_name), 'row')} not submitted by"
            " this run left out"
        )
    stages = _reached_stage_headers(table)
    table.earliest = {stage["name"]: table.earliest[stage["name"]] for stage in stages}
    table.latest = {stage["name"]: table.latest[stage["name"]] for stage in stages}
    moments = [value for value in table.moments["sent"] if not isnan(value)]
    ends = [value for values in table.latest.values() for value in values if not isnan(value)]
    start = min(moments, default=0.0)
    table.header = {
        "schema": "timeline/1",
        "run": run,
        "point": point,
        "start": start,
        "end": max(ends, default=max(moments, default=start)),
        "planned": size,
        "stages": stages,
        "gaps": [],
        "notes": notes,
    }
    return table


def _reached_stage_headers(table: TimelineTable) -> list[dict[str, Any]]:
    """Return the header of each stage that any workload reached."""
    names = {name for name, latest in table.latest.items() if not all(map(isnan, latest))}
    return [
        {
            "name": name,
            "kind": KIND,
            "writer": writer,
            "simulated": False,
            "ends": "succeeded" if name == END else None,
            "needs": [need for need in needs if need in names],
        }
        for name, _timestamp, writer, needs in STAGES
        if name in names
    ]


def _append_workload_row(table: TimelineTable, row: int, key: tuple[str, str], entry: dict[str, Any] | None) -> None:
    table.index.append(row)
    table.name.append(key[0])
    table.kind.append(KIND)
    table.template.append(key[1])
    table.uid.append(None)
    table.attempts.append(1)
    table.pods.append(0)
    table.gpus.append(0.0)
    table.nodes.append(None)
    for name, stamp, _writer, _needs in STAGES if entry else ():
        value = str((entry or {}).get(stamp, ""))
        span = scale_test_names_and_times.parse_timestamp_bounds(value)
        if span is None or _is_sentinel(stamp, span, entry or {}):
            continue
        table.earliest[name][row], table.latest[name][row] = span
    done = not isnan(table.latest[END][row])
    table.outcome.append("succeeded" if done else "unfinished")
    table.censored.append(not done)
    sent, created = table.moments["sent"][row], table.latest["created"][row]
    if not isnan(created) and created < sent:
        table.contradictions[row] = [f"created {sent - created:.3f} s before it was sent: the two clocks differ"]


def _is_sentinel(stamp: str, span: tuple[float, float], entry: dict[str, Any]) -> bool:
    """Return whether a timestamp is the tool's sentinel for a missing one: the value of another timestamp."""
    other = scale_test_names_and_times.SENTINELS.get(stamp)
    return other is not None and scale_test_names_and_times.parse_timestamp_bounds(str(entry.get(other, ""))) == span


def _index_rows_by_name(rows: list[dict[str, Any]]) -> tuple[dict[tuple[str, str], dict[str, Any]], int]:
    row_by_name: dict[tuple[str, str], dict[str, Any]] = {}
    twice = 0
    for row in rows:
        key = (str(row.get("jobName", "")), str(row.get("projectName", "")))
        twice += key in row_by_name
        row_by_name.setdefault(key, row)
    return row_by_name, twice


def _read_json_rows(path: Path) -> list[dict[str, Any]]:
    try:
        rows = parse_json(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise DataError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{path}: a list of objects is expected")
    return rows
