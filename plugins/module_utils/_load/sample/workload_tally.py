# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The progress of the workloads of a load: seen, running, ended, and why others wait."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .pending_reasons import PendingReasons


@dataclass
class WorkloadTally:
    """The workloads by index."""

    seen: set[int] = field(default_factory=set)
    running: set[int] = field(default_factory=set)
    ended: dict[int, str] = field(default_factory=dict)  # succeeded, failed or deleted
    pending: PendingReasons = field(default_factory=PendingReasons)
    #: (Index, since when) of workloads that succeeded and were not yet reported, on the point's clock; None: not kept.
    completed: list[tuple[int, float]] | None = None
    #: Stage of the workloads to report, empty for none; (index, that stage or the outcome) not yet reported.
    reports: str = ""
    reached: list[tuple[int, str]] = field(default_factory=list)

    _outcomes: Counter[str] = field(default_factory=Counter)
    _over: int = 0  # number of workloads that ran and have ended
    _reported: set[int] = field(default_factory=set)

    def run(self, index: int) -> None:
        """Record that an object of a workload runs."""
        if index not in self.running:
            self.running.add(index)
            self._over += index in self.ended

    def reach(self, index: int) -> None:
        """Record that a workload has reached the stage to report."""
        if index not in self._reported:
            self._reported.add(index)
            self.reached.append((index, self.reports))

    def end(self, index: int, outcome: str, at: float) -> None:
        """Record that a workload has ended, seen at ``at`` on the point's clock; only the first end counts."""
        if index not in self.ended:
            if self.completed is not None and outcome == "succeeded":
                self.completed.append((index, round(at, 3)))
            if self.reports:
                self.reached.append((index, outcome))
            self.ended[index] = outcome
            self._outcomes[outcome] += 1
            self._over += index in self.running

    def counts(self) -> dict[str, int]:
        """Return the numbers seen, running (and not ended), succeeded, failed, deleted, in constant time."""
        found = {name: self._outcomes[name] for name in ("succeeded", "failed", "deleted")}
        return {"seen": len(self.seen), "running": len(self.running) - self._over, **found}

    def waiting(self, most: int) -> list[int]:
        """Return the first ``most`` workloads that were seen and have not ended."""
        return sorted(self.seen - self.ended.keys())[:most]

    def reasons(self) -> list[tuple[int, str]]:
        """Return why workloads wait that do not run: (number, reason)."""
        return self.pending.reasons(lambda index: index in self.running or index in self.ended)
