# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the report shows of a point beside its figures: clients of the load, sources of its times, users in pods."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, load_generator_health
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_views import rows_by_client

#: Source -> what it is.
SOURCES = {
    "revision clock": "between two requests of the sampler that enclose the write in etcd",
    "creationTimestamp": "within the second that the API server states, its clock's offset being bounded",
    "time of receipt": "after the workload's creation and before the watch delivered it",
    "list": "after the last known state and before a list showed it",
}
#: Maximum number of users shown; the folder of the point has all.
MOST = 20
#: Column of the page -> stages of a user; the first one that was seen counts.
STAGES = {
    "created": ("created",),
    "ready": ("ready",),
    "released": ("released",),
    "begun": ("begun",),
    "ended": ("command_ended", "succeeded", "failed"),
}


def section_of_load_clients(table: TimelineTable) -> list[dict[str, str | int]]:
    """Return one row per client of a load by several clients: planned and sent workloads, lateness, clock."""
    clocks = {clock["client"]: clock for clock in table.header.get("clocks") or ()}
    return [
        {
            "client": client,
            "planned": len(rows),
            "sent": sum(1 for row in rows if not math.isnan(table.moments["sent"][row])),
            **_client_lateness_quantiles(table, rows),
            "clock": _format_clock_offset(clocks.get(client)),
        }
        for client, rows in rows_by_client(table).items()
    ]


def _client_lateness_quantiles(table: TimelineTable, rows: Sequence[int]) -> dict[str, str]:
    """Return quantiles of sent minus intended, both on the client's own clock."""
    intended, sent = table.moments["intended"], table.moments["sent"]
    late = [sent[row] - intended[row] for row in rows]
    summary = (
        load_generator_health.percentile_summary([lateness for lateness in late if not math.isnan(lateness)]) or {}
    )
    return {name: formats.format_duration(summary[name]) if summary else "–" for name in ("p50", "p99", "max")}


def _format_clock_offset(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return "unknown"
    if entry["reference"]:
        return "that of the timeline"
    if entry["offset"] is None:
        return "not comparable"
    low, high = entry["offset"]
    return f"known to {formats.format_duration(high - low)}"


def time_sources_section(table: TimelineTable) -> dict[str, Any] | None:
    """Return the sources of the times of each stage with the number of objects, and the widths; None for our loads."""
    if "sent_is" not in table.header:
        return None
    dated = table.header.get("dated_by") or {}
    rows = []
    for stage in table.stages:
        counts = dated.get(stage["name"])
        if counts and not stage["name"].endswith("_first"):
            sources = [f"{name} {number:,}" for name, number in sorted(counts.items(), key=lambda pair: -pair[1])]
            rows.append(
                {
                    "stage": formats.stage_display_name(stage["name"]),
                    "sources": ", ".join(sources),
                    **_time_uncertainty_quantiles(table, stage),
                }
            )
    used = {source for source_counts in dated.values() for source in source_counts}
    return {
        "stage": formats.stage_display_name(table.header["sent_is"]),
        "rows": rows,
        "sources": [(name, text) for name, text in SOURCES.items() if name in used],
    }


def _time_uncertainty_quantiles(table: TimelineTable, stage: dict[str, Any]) -> dict[str, str]:
    first, last = table.earliest[stage["name"]], table.latest[stage["name"]]
    widths = sorted(end - begin for begin, end in zip(first, last, strict=True) if not math.isnan(end))
    return {"median": _format_quantile(widths, 0.5), "p99": _format_quantile(widths, 0.99)}


def _format_quantile(ordered: Sequence[float], q: float) -> str:
    return formats.format_duration(ordered[min(len(ordered) - 1, int(q * len(ordered)))]) if ordered else ""


def section_of_simulated_users(folder: Path, table: TimelineTable | None) -> dict[str, Any] | None:
    """Return what the page shows of the users whose reports are in ``folder``/users; None if it has none.

    Users that did not succeed come first, then those that began last after their release.
    """
    summary = point_reader.read_simulated_user_summary(folder, [])
    if not summary or table is None:
        return None
    rows = [_simulated_user_row(folder, table, row) for row in range(len(table))]
    rows.sort(key=lambda row: (row["outcome"] == "succeeded", -row["reaction"], row["index"]))
    return {
        "rows": rows[:MOST],
        "left": max(0, len(rows) - MOST),
        "left_out": sum(row["left_out"] for row in rows),
        "required": summary["required"],
        "succeeded": summary["succeeded"],
        "count": summary["count"],
        "operations": _format_user_operations(summary.get("operations")),
    }


def _simulated_user_row(folder: Path, table: TimelineTable, row: int) -> dict[str, Any]:
    try:
        user: Mapping[str, Any] = files.read_json(folder / "users" / str(table.index[row]) / "user.json")
    except (DataError, OSError):
        user = {}
    spans = {name: _stage_time_bounds(table, row, stages) for name, stages in STAGES.items()}
    released, begun = spans["released"], spans["begun"]
    return {
        "index": table.index[row],
        "node": user.get("node") or "",
        "outcome": table.outcome[row],
        "exit_code": "" if user.get("exit_code") is None else user["exit_code"],
        "why": user.get("why") or "",
        "files": (user.get("files") or {}).get("count", 0),
        "left_out": (user.get("files") or {}).get("left_out", 0),
        "reaction": begun[1] - released[1] if begun and released else 0.0,
        "after_release": formats.format_duration(max(0.0, begun[1] - released[1])) if begun and released else "–",
        "moments": [_stage_time_since_start(span, table.header["start"]) for span in spans.values()],
    }


def _stage_time_bounds(table: TimelineTable, row: int, stages: tuple[str, ...]) -> tuple[float, float] | None:
    for name in stages:
        if name in table.latest and not isnan(table.latest[name][row]):
            return table.earliest[name][row], table.latest[name][row]
    return None


def _stage_time_since_start(span: tuple[float, float] | None, start: float) -> dict[str, str]:
    """Return the latest moment of a stage since the start, and as a title the interval in which it was."""
    if span is None:
        return {"text": "–", "title": ""}
    first, last = (formats.format_duration(end - start) for end in span)
    return {"text": last, "title": f"between {first} and {last}" if first != last else ""}


def _format_user_operations(operations: Mapping[str, Any] | None) -> str:
    """Return in one sentence what simulated users have done."""
    if not operations:
        return ""
    return (
        f"They created {formats.format_count(operations['count'], 'object')}, of which {operations['succeeded']}"
        " could be used "
        f"({formats.format_with_unit(operations['success_percent'], '%')})."
    )
