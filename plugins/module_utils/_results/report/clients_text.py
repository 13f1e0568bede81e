# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each client of a load sent and how late, and how well its clock is known, as text for the report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, quantiles
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.client_rows import rows_by_client
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import Table


def clients_section(table: Table) -> list[dict[str, str | int]]:
    """Return one row per client of a load by several clients: planned and sent workloads, lateness, clock."""
    clocks = {one["client"]: one for one in table.header.get("clocks") or ()}
    return [
        {
            "client": client,
            "planned": len(rows),
            "sent": sum(1 for row in rows if not math.isnan(table.moments["sent"][row])),
            **_lateness(table, rows),
            "clock": _clock(clocks.get(client)),
        }
        for client, rows in rows_by_client(table).items()
    ]


def _lateness(table: Table, rows: Sequence[int]) -> dict[str, str]:
    """Return quantiles of sent minus intended, both on the client's own clock."""
    intended, sent = table.moments["intended"], table.moments["sent"]
    late = [sent[row] - intended[row] for row in rows]
    found = quantiles.summary([one for one in late if not math.isnan(one)]) or {}
    return {name: formats.seconds(found[name]) if found else "–" for name in ("p50", "p99", "max")}


def _clock(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return "unknown"
    if entry["reference"]:
        return "that of the timeline"
    if entry["offset"] is None:
        return "not comparable"
    low, high = entry["offset"]
    return f"known to {formats.seconds(high - low)}"
