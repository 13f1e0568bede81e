# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the times of a load come from that others submitted, as text for the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import Table

#: Source -> what it is.
SOURCES = {
    "revision clock": "between two requests of the sampler that enclose the write in etcd",
    "creationTimestamp": "within the second that the API server states, its clock's offset being bounded",
    "time of receipt": "after the workload's creation and before the watch delivered it",
    "list": "after the last known state and before a list showed it",
}


def time_sources_section(table: Table) -> dict[str, Any] | None:
    """Return the sources of the times of each stage with the number of objects, and the widths; None for our loads."""
    if "sent_is" not in table.header:
        return None
    dated = table.header.get("dated_by") or {}
    rows = []
    for stage in table.stages:
        found = dated.get(stage["name"])
        if found and not stage["name"].endswith("_first"):
            sources = [f"{name} {number:,}" for name, number in sorted(found.items(), key=lambda one: -one[1])]
            rows.append({"stage": formats.stage(stage["name"]), "sources": ", ".join(sources), **_widths(table, stage)})
    used = {source for found in dated.values() for source in found}
    return {
        "stage": formats.stage(table.header["sent_is"]),
        "rows": rows,
        "sources": [(name, text) for name, text in SOURCES.items() if name in used],
    }


def _widths(table: Table, stage: dict[str, Any]) -> dict[str, str]:
    first, last = table.earliest[stage["name"]], table.latest[stage["name"]]
    found = sorted(end - begin for begin, end in zip(first, last, strict=True) if not math.isnan(end))
    return {"median": _at(found, 0.5), "p99": _at(found, 0.99)}


def _at(ordered: Sequence[float], q: float) -> str:
    return formats.seconds(ordered[min(len(ordered) - 1, int(q * len(ordered)))]) if ordered else ""
