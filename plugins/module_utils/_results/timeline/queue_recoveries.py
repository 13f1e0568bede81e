# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a queue of Kueue did with a workload after a failure, from the conditions of its Workload."""

from __future__ import annotations

from collections import defaultdict
from math import isnan
from typing import Any

from .pod_lifetimes import NEVER, Span

#: Kueue evicts the workload, makes it wait in its queue again, and admits it again.
EVICTED, REQUEUED, READMITTED = OF_QUEUE = ("evicted", "requeued", "readmitted")
#: Stage of a recovery -> stage of kind Workload that has to become true.
_CONDITIONS = {EVICTED: "evicted", REQUEUED: "requeued", READMITTED: "admitted"}


class QueueCollector:
    """Collects when conditions of Workloads became true. changes: index -> (span, stage of kind Workload)."""

    def __init__(self) -> None:
        self.changes: dict[int, list[tuple[Span, str]]] = defaultdict(list)
        self._true: dict[int, set[str]] = defaultdict(set)

    def see(self, index: int, event: dict[str, Any], span: Span) -> None:
        """Take one event of workload ``index``."""
        if event["kind"] != "Workload":
            return
        now = {name for name in _CONDITIONS.values() if event["values"].get(name)}
        self.changes[index] += [(span, name) for name in sorted(now - self._true[index])]
        self._true[index] = now


def find_queue_stages(changes: list[tuple[Span, str]], injected: Span, until: float) -> dict[str, Span]:
    """Return the stages of a workload in a queue after a failure; NEVER for those that it did not reach.

    until: when it was whole again. A later eviction is not of this failure.
    """
    stages: dict[str, Span] = {}
    since = injected[0]
    for stage, condition in _CONDITIONS.items():
        spans = (span for span, name in changes if name == condition and since <= span[1] and span[0] <= until)
        stages[stage] = next(spans, NEVER)
        if isnan(stages[EVICTED][0]):
            return dict.fromkeys(OF_QUEUE, NEVER)
        if stage == EVICTED:
            since = stages[EVICTED][0]
    return stages
