# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of the Run:ai scale-test tool: their names and time formats, and reading them into a timeline.

The tool uses two time formats: times from an API server end with ``Z``, times parsed by its Python client are
``isoformat()`` with ``+00:00``. Both are UTC, and all except the submission are whole seconds.

Each timestamp that is read is a whole second, so its stage is the interval of that second. The tool's sentinels equal
another timestamp and are ignored. Workloads that were submitted but not sampled count as unfinished in every
denominator.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from math import floor, isnan
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import (
    MOMENTS,
    TimelineTable,
    create_empty_column,
)

SUBMITTED, SAMPLED, TIMES, NAMES = "submitted.json", "sampled.json", "times.csv", "names.csv"
#: Key of sampled.json -> (our stages, the first existing one is used; whether an API server states it).
STAMPS: dict[str, tuple[tuple[str, ...], bool]] = {
    "workloadCreatedTimestamp": (("created",), True),
    "jobCreatedTimestamp": (("runaijob_created", "pytorchjob_created", "job_created"), True),
    "firstPodCreatedTimestamp": (("pods_created_first",), False),
    "lastPodCreatedTimestamp": (("pods_created",), False),
    "podGroupCreatedTimestamp": (("podgroup_created",), True),
    "podSchedulingDecisionTimestamp": (("pods_scheduled",), False),
    "firstEvictionTimestamp": (("workload_evicted_first", "evicted_first"), False),
    "firstPVCBindRequestTimestamp": (("persistentvolumeclaim_created",), False),
    "firstPVCBindTimestamp": (("persistentvolumeclaim_bound",), False),
    "backendJobCreatedTimestamp": (("backend_created",), True),
}
DECISION, CREATED, BACKEND = "podSchedulingDecisionTimestamp", "workloadCreatedTimestamp", "backendJobCreatedTimestamp"
#: The tool's sentinels for missing timestamps: the value of another timestamp.
SENTINELS = {
    "firstEvictionTimestamp": DECISION,
    "firstPVCBindRequestTimestamp": DECISION,
    "firstPVCBindTimestamp": DECISION,
    BACKEND: CREATED,
}
#: For objects that a platform other than Run:ai does not have, and that the tool requires: the same.
FALLBACKS = {"jobCreatedTimestamp": CREATED, "podGroupCreatedTimestamp": "lastPodCreatedTimestamp"}
SAMPLED_KEYS = ("jobName", "jobNamespace", "projectName", *STAMPS)
#: The 26 columns of times.csv: names, times, and differences in seconds.
MOMENT_COLUMNS = (
    "Job Name",
    "Job Namespace",
    "Project Name",
    "Workload Created",
    "Job Created",
    "First Pod Created",
    "Last Pod Created",
    "Pod Group Created",
    "Pod Scheduling Decision",
    "First Eviction",
    "First PVC Bind Request",
    "First PVC Bind",
    "Backend Job Created",
    "Workload Submitted",
)
SUBMIT, SUBMISSION = "submitTimestamp", "Workload Submission"
#: Event -> (its timestamp, the event since which the tool counts it).
EVENTS: dict[str, tuple[str, str]] = {
    "Workload Creation": (CREATED, SUBMISSION),
    "Job Creation": ("jobCreatedTimestamp", "Workload Creation"),
    "First Pod Creation": ("firstPodCreatedTimestamp", "Job Creation"),
    "Last Pod Creation": ("lastPodCreatedTimestamp", "Job Creation"),
    "Pod Group Creation": ("podGroupCreatedTimestamp", "First Pod Creation"),
    "Pod Scheduling Decision": (DECISION, "Pod Group Creation"),
    "First Eviction": ("firstEvictionTimestamp", "Pod Group Creation"),
    "First PVC Bind Request": ("firstPVCBindRequestTimestamp", "Pod Group Creation"),
    "First PVC Bind": ("firstPVCBindTimestamp", "First PVC Bind Request"),
    "Backend Job Creation": (BACKEND, "Pod Group Creation"),
    "Total Pod Scheduling Decision": (DECISION, SUBMISSION),
    "Total Backend Job Creation": (BACKEND, SUBMISSION),
}

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?$")


def timestamp_field_of_event(event: str) -> str:
    """Return the timestamp of an event, or of the submission."""
    return SUBMIT if event == SUBMISSION else EVENTS[event][0]


def job_name(index: int) -> str:
    """Return a unique name in the tool's format: ``j-`` and the index in six hexadecimal digits."""
    return f"j-{index % 16**6:06x}"


def _datetime_from_epoch(at: float) -> datetime:
    """Return a datetime from seconds since the epoch, rounded once to microseconds."""
    return _EPOCH + timedelta(microseconds=round(at * 1e6))


def format_iso_time(at: float) -> str:
    """Return ``2026-11-21T00:06:23.423963+00:00``; without microseconds if they are 0."""
    return _datetime_from_epoch(at).isoformat()


def format_whole_second(at: float, of_server: bool) -> str:
    """Return the whole second of ``at`` in the format of an API server or of isoformat()."""
    text = _datetime_from_epoch(floor(at)).isoformat()
    return text.replace("+00:00", "Z") if of_server else text


def format_csv_time(at: float) -> str:
    """Return ``2026-11-21 00:06:23``, the format of times.csv."""
    return _datetime_from_epoch(floor(at)).strftime("%Y-%m-%d %H:%M:%S")


def parse_timestamp_bounds(text: str) -> tuple[float, float] | None:
    """Return [earliest, latest] of a timestamp in seconds since the epoch: its whole second, or its exact time.

    None for text that is not a time. Both formats, with any offset (default UTC) and up to nine decimals.
    """
    match = _STAMP.match(str(text))
    if match is None:
        return None
    day, clock, digits, zone = match.groups()
    try:
        offset = "+00:00" if zone in (None, "Z") else zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
        seconds = (datetime.fromisoformat(f"{day}T{clock}{offset}") - _EPOCH).total_seconds()
    except ValueError:
        return None
    if digits:
        return seconds + float(digits), seconds + float(digits)
    return seconds, seconds + 1.0


#: Stages of such a timeline in order: name, timestamp key, writer, needs.
STAGES = (
    ("created", CREATED, "api-server", ()),
    ("job_created", "jobCreatedTimestamp", "controller", ("created",)),
    ("backend_created", BACKEND, "controller", ("created",)),
    ("persistentvolumeclaim_created", "firstPVCBindRequestTimestamp", "controller", ("created",)),
    ("persistentvolumeclaim_bound", "firstPVCBindTimestamp", "controller", ("persistentvolumeclaim_created",)),
    ("pods_created_first", "firstPodCreatedTimestamp", "controller", ("job_created",)),
    ("pods_created", "lastPodCreatedTimestamp", "controller", ("pods_created_first",)),
    ("podgroup_created", "podGroupCreatedTimestamp", "controller", ("created",)),
    ("pods_scheduled", DECISION, "scheduler", ("pods_created", "podgroup_created")),
    ("evicted_first", "firstEvictionTimestamp", "scheduler", ("pods_scheduled",)),
)
END = "pods_scheduled"
KIND = "Run:ai workload"


def build_timeline_of_scale_test(folder: Path, run: str, point: str) -> TimelineTable:
    """Return the timeline of these files. Raises DataError naming the file and the error."""
    sent, seen = (
        _read_json_rows(folder / SUBMITTED),
        _read_json_rows(folder / SAMPLED),
    )
    notes = [
        "read from files of the Run:ai scale-test tool: times are whole seconds of the platform's clock, and a "
        "workload ends when its first pod is scheduled"
    ]
    by_name, twice = _index_rows_by_name(seen)
    if twice:
        notes.append(f"{SAMPLED}: {formats.format_count(twice, 'row')} with a duplicate name left out")
    table = TimelineTable({})
    size = len(sent)
    table.moments = {name: create_empty_column(size) for name in MOMENTS}
    table.earliest = {stage[0]: create_empty_column(size) for stage in STAGES}
    table.latest = {stage[0]: create_empty_column(size) for stage in STAGES}
    wrong = 0
    for row, entry in enumerate(sent):
        key = (entry.get("jobName", ""), entry.get("projectName", ""))
        at = parse_timestamp_bounds(entry.get(SUBMIT, ""))
        if at is None:
            wrong += 1
        else:
            table.moments["sent"][row] = at[0]
        _append_workload_row(table, row, key, by_name.pop(key, None))
    if wrong:
        notes.append(f"{SUBMITTED}: {formats.format_count(wrong, 'row')} without a valid {SUBMIT}")
    if by_name:
        notes.append(f"{SAMPLED}: {formats.format_count(len(by_name), 'row')} not submitted by this run left out")
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
        span = parse_timestamp_bounds(value)
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
    other = SENTINELS.get(stamp)
    return other is not None and parse_timestamp_bounds(str(entry.get(other, ""))) == span


def _index_rows_by_name(rows: list[dict[str, Any]]) -> tuple[dict[tuple[str, str], dict[str, Any]], int]:
    row_by_name: dict[tuple[str, str], dict[str, Any]] = {}
    twice = 0
    for row in rows:
        key = (str(row.get("jobName", "")), str(row.get("projectName", "")))
        twice += key in row_by_name
        row_by_name.setdefault(key, row)
    return row_by_name, twice


def _read_json_rows(path: Path) -> list[dict[str, Any]]:
    rows = files.read_json(path)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{path}: a list of objects is expected")
    return rows
