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
#: With topology-aware scheduling, Kueue marks the node as unhealthy, and assigns another one in its place.
MARKED, REASSIGNED = OF_TOPOLOGY = ("marked", "reassigned")
#: Stage of kind Workload that becomes true when Kueue marks a node, and what a change back is called.
_UNHEALTHY, _HEALTHY = "node_unhealthy", "node_healthy"
#: Stage of a recovery -> stage of kind Workload that has to become true.
_CONDITIONS = {EVICTED: "evicted", REQUEUED: "requeued", READMITTED: "admitted"}


class QueueCollector:
    """Collects when conditions of Workloads became true. changes: index -> (span, stage of kind Workload)."""

    def __init__(self) -> None:
        self.changes: dict[int, list[tuple[Span, str]]] = defaultdict(list)
        self._true: dict[int, set[str]] = defaultdict(set)
        self._unhealthy: set[int] = set()

    def see(self, index: int, event: dict[str, Any], span: Span) -> None:
        """Take one event of workload ``index``."""
        if event["kind"] != "Workload":
            return
        now = {name for name in _CONDITIONS.values() if event["values"].get(name)}
        self.changes[index] += [(span, name) for name in sorted(now - self._true[index])]
        self._true[index] = now
        if _UNHEALTHY in event["values"] and bool(event["values"][_UNHEALTHY]) != (index in self._unhealthy):
            self._unhealthy ^= {index}
            self.changes[index].append((span, _UNHEALTHY if index in self._unhealthy else _HEALTHY))


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


def find_topology_stages(
    changes: list[tuple[Span, str]], injected: Span, until: float, node_back: Span = NEVER
) -> dict[str, Span]:
    """Return when Kueue marked a node of a workload as unhealthy after a failure, and assigned another one.

    An eviction takes the mark away, too, and so does a node that is Ready again: then no node was assigned in its
    place. node_back: when the lost node was Ready again. A mark that may have ended only then counts as one of these.
    """
    of_failure = [(span, name) for span, name in changes if injected[0] <= span[1] and span[0] <= until]
    names = [name for _span, name in of_failure]
    if _UNHEALTHY not in names:
        return dict.fromkeys(OF_TOPOLOGY, NEVER)
    place = names.index(_UNHEALTHY)
    later = of_failure[place + 1 :]
    ended, change = next(((span, name) for span, name in later if name in (_HEALTHY, EVICTED)), (NEVER, ""))
    assigned = change == _HEALTHY and not ended[1] >= node_back[0]  # node_back may be NaN
    return {MARKED: of_failure[place][0], REASSIGNED: ended if assigned else NEVER}
