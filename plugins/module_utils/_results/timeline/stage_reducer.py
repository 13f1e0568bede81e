# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reduce the per-object times of a stage to one interval per workload."""

from __future__ import annotations

from math import isnan, nan

from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import Table

from .stage_order import ALL, FIRST, LAST, Stage


class StageReducer:
    """The two columns of a stage, and the rule by which the times of single objects are combined in them."""

    def __init__(self, stage: Stage, table: Table) -> None:
        self.stage = stage
        self.first, self.last = table.earliest[stage.name], table.latest[stage.name]
        self.count = [0] * len(table) if stage.which == ALL else None

    def reach(self, row: int, earliest: float, latest: float) -> None:
        """Record that an object of the workload in ``row`` reached the stage within [earliest, latest]."""
        first, last = self.first, self.last
        if self.count is not None:
            self.count[row] += 1
        if isnan(first[row]):
            first[row], last[row] = earliest, latest
        elif self.stage.which in (ALL, LAST):
            first[row], last[row] = max(first[row], earliest), max(last[row], latest)
        elif self.stage.which == FIRST:
            first[row], last[row] = min(first[row], earliest), min(last[row], latest)
        else:  # our own create was answered: a watch event can only narrow the interval
            first[row], last[row] = max(first[row], earliest), min(last[row], latest)

    def only_whole_gangs(self, members: list[int]) -> None:
        """Clear the stage of incomplete gangs: rows in which fewer than ``members`` objects reached it."""
        for row, count in enumerate(self.count or ()):
            if count < members[row]:
                self.first[row] = self.last[row] = nan
