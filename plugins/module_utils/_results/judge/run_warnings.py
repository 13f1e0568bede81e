# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reasons to doubt the figures of a run, from the files of its points, one sentence each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import open_regular_file
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

#: Thresholds of a busy machine: share of CPU time stolen by the hypervisor, and load average per processor.
STOLEN, LOAD = 0.05, 2.0
#: More than any figure of a machine.
MOST = 1e9
#: The last line of a file of a load lies within this many bytes of its end.
_TAIL = 16_384


def collect_run_warnings(run: Run) -> list[str]:
    """Return the warnings of a run: interrupted points, busy machines, unchecked trainings, missing files of users."""
    groups = (
        interrupted_points_warning(run),
        busy_machine_warning(run.points),
        unchecked_trainings_warnings(run.points),
        missing_user_files_warnings(run.points),
    )
    return [sentence for sentences in groups for sentence in sentences]


def interrupted_points_warning(run: Run) -> list[str]:
    """Return a sentence on the points whose times include an interruption."""
    names = [point.number for point in run.points if point.resumed and not run.repeats and not run.bisection]
    if not names:
        return []
    again = f"-e redo={','.join(names)} measures {'it' if len(names) == 1 else 'them'} again"
    return [f"Interrupted while measured, so times include the interruption: {formats.format_list(names)}. {again}."]


def busy_machine_warning(points: Iterable[Point]) -> list[str]:
    """Return a sentence on the test points during which the machine that sent the load was busy."""
    busy = [
        (point.number, reason)
        for point in points
        for name in ("ledger.jsonl", "requests.jsonl")
        if (reason := _why_busy(read_machine_load_record(point.folder / name)))
    ]
    if not busy:
        return []
    first = "; ".join(f"test point {number}: {reason}" for number, reason in busy[:3])
    more = f"; and {formats.format_count(len(busy) - 3, 'more test point')}" if len(busy) > 3 else ""
    return [f"The machine that sent the load was busy, so times may be longer than on an idle one ({first}{more})."]


def read_machine_load_record(path: Path) -> dict[str, Any]:
    """Return the record on the machine at the end of a file of a load; empty if there is none."""
    try:
        with open_regular_file(path) as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _TAIL))
            lines = stream.read().splitlines()
        last = parse_json(lines[-1])
    except (OSError, DataError, IndexError, ValueError):
        return {}
    machine = last.get("machine") if isinstance(last, dict) and last.get("type") == "end" else None
    return machine if isinstance(machine, dict) else {}


def _why_busy(machine: Mapping[str, Any]) -> str:
    reasons = []
    stolen, cpus, load = (_number_or_zero(machine.get(name)) for name in ("stolen", "cpus", "load"))
    if stolen >= STOLEN:
        reasons.append(f"the hypervisor took {stolen * 100:.0f} % of its processor time")
    if cpus > 0 and load >= LOAD * cpus:
        reasons.append(f"load average {formats.format_number(load)} on {formats.format_count(int(cpus), 'processor')}")
    return ", ".join(reasons)


def _number_or_zero(value: object) -> float:
    """Return a number of a file that a stranger may have written, 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= MOST:
        return 0.0
    return float(value)


def damaged_files_warnings(tables: Mapping[str, TimelineTable | None]) -> list[str]:
    """Return a sentence on each point of whose files the timeline lacks a part, or uses it with a reservation."""
    return [
        f"test point {number}: {'; '.join(map(str, table.header['notes']))}"
        for number, table in tables.items()
        if table is not None and table.header.get("notes")
    ]


def unchecked_trainings_warnings(points: Iterable[Point]) -> list[str]:
    """Return a sentence for each reason why nobody knows whether the processes of a training worked together."""
    by_reason: dict[str, list[str]] = {}
    for point in points:
        rows = point_reader.read_json_lines(point.folder / "training.jsonl", [], finite=False)
        for reason in sorted({str(row["unchecked"]) for row in rows if row.get("unchecked")}):
            by_reason.setdefault(reason, []).append(f"test point {point.number}")
    return [
        "Whether the processes of a training worked together, or each on all data, was not checked at "
        f"{formats.format_list(names, 3)}: {reason}."
        for reason, names in by_reason.items()
    ]


def missing_user_files_warnings(points: Iterable[Point]) -> list[str]:
    """Return a sentence for each test point at which files of users in pods are missing."""
    sentences = []
    for point in points:
        why = _why_missing(point_reader.read_pod_users(point.folder, []).get("files") or {})
        if why:
            sentences.append(f"Files of users are missing at test point {point.number}: {'; '.join(why)}.")
    return sentences


def _why_missing(files: Mapping[str, Any]) -> list[str]:
    why = []
    if files.get("left_out"):
        users = formats.format_count(files["left_out_users"], "user")
        why.append(
            f"{formats.format_count(files['left_out'], 'file')} of {users} exceeded the limit ({files['limit']})"
        )
    if files.get("failed_users"):
        users = formats.format_count(files["failed_users"], "user")
        why.append(f"{users} could not send files ({files['first_error']})")
    return why
