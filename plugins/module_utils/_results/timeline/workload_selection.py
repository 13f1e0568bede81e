# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Select the workloads of a replot: the first, the last, only those that succeeded.

The selection applies to the timeline, so that every table, plot, KPI and verdict derived from it covers the same rows
and names the selection. Order: ``head`` of all planned workloads by submission, then ``tail`` of these, then
``skip_errors``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import Table


@dataclass(frozen=True)
class WorkloadSelection:
    """head, tail: numbers of workloads, 0 for all. Raises InputError for negative ones."""

    head: int = 0
    tail: int = 0
    skip_errors: bool = False

    def __post_init__(self) -> None:
        for name in ("head", "tail"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} is {getattr(self, name)}; it must be 0 (all) or a number of workloads")

    @property
    def everything(self) -> bool:
        """Whether all workloads are selected."""
        return not (self.head or self.tail or self.skip_errors)


def select(table: Table, selection: WorkloadSelection) -> Table:
    """Return the table with the selected rows; its header describes the selection."""
    if selection.everything:
        return table
    size = len(table)
    rows = list(range(size))
    rows = rows[: selection.head] if selection.head else rows
    rows = rows[-selection.tail :] if selection.tail else rows
    left_out: Counter[str] = Counter()
    if selection.skip_errors:
        left_out.update(table.outcome[row] for row in rows if table.outcome[row] != "succeeded")
        rows = [row for row in rows if table.outcome[row] == "succeeded"]
    header = {**table.header, "planned": len(rows)}
    header["selection"] = {
        "head": selection.head or None,
        "tail": selection.tail or None,
        "skip_errors": selection.skip_errors,
        "of": size,
        "left_out": dict(left_out),
        "text": describe(selection, size, len(rows), sum(left_out.values())),
    }
    return table.taken(rows, header)


def describe(selection: WorkloadSelection, size: int, kept: int, errors: int) -> str:
    """Return the selection as text: "first 100 of 1,000 workloads, 3 with errors left out"."""
    parts = []
    if selection.head:
        parts.append(f"first {min(selection.head, size):,}")
    if selection.tail:
        parts.append(f"last {min(selection.tail, selection.head or size, size):,}{' of these' if parts else ''}")
    part = ", ".join(parts) or "all"
    text = f"{part} of {formats.count(size, 'workload')}"
    return f"{text}, {errors:,} with errors left out: {kept:,} shown" if selection.skip_errors else text
