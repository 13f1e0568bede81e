"""Timelines with exact stages, for the files and plots of the Run:ai scale-test tool."""

from __future__ import annotations

from math import nan

from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import (
    MOMENTS,
    TimelineTable,
    create_empty_column,
)

#: 2026-11-21T00:06:23 UTC
T = 1795219583.0


def table_of(*rows: dict[str, float], outcomes: tuple[str, ...] = ()) -> TimelineTable:
    """A timeline whose stages are exact."""
    names = ["created", "pods_created_first", "pods_created", "pods_scheduled", "persistentvolumeclaim_created"]
    names += ["persistentvolumeclaim_bound"]
    size = len(rows)
    table = TimelineTable({"start": T, "end": T + 100, "planned": size, "notes": [], "gaps": [], "stages": []})
    table.moments = {name: create_empty_column(size) for name in MOMENTS}
    table.earliest = {name: create_empty_column(size) for name in names}
    table.latest = {name: create_empty_column(size) for name in names}
    for row, given_row in enumerate(rows):
        table.index.append(row)
        table.name.append(f"run-{row}")
        table.template.append("team")
        table.outcome.append(outcomes[row] if outcomes else "succeeded")
        table.moments["sent"][row] = given_row.get("sent", nan)
        for name in names:
            table.earliest[name][row] = table.latest[name][row] = given_row.get(name, nan)
    return table


WHOLE = {
    "sent": T + 0.423963,
    "created": T + 0.6,
    "pods_created_first": T + 1.2,
    "pods_created": T + 1.9,
    "pods_scheduled": T + 3.5,
}


PARTS = {"runaijob_created": T + 0.9, "podgroup_created": T + 1.4}


def with_parts(*rows: dict[str, float]) -> TimelineTable:
    """A timeline of workloads of Run:ai."""
    table = table_of(*rows)
    for name, moment in PARTS.items():
        table.earliest[name], table.latest[name] = create_empty_column(len(rows)), create_empty_column(len(rows))
        for row in range(len(rows)):
            table.earliest[name][row] = table.latest[name][row] = moment
    return table
