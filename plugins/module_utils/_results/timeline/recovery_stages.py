# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages of a recovery from a failure: of the pods of a workload, in a queue of Kueue, and of the training in it.

Moments are seconds after the start of the load; those of a training are by the clock of the node on which it writes its
progress.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, isnan, nan
from typing import Any

from .pod_lifetimes import NEVER, SUCCEEDED, Span, midpoint_of_span

#: Seconds by which the clock of a node may differ from ours before what the training says of its times is left out.
_TOLERANCE = 1.0


@dataclass(frozen=True)
class TrainingProgress:
    """The progress of one training. steps: (moment, step) by their moments. checkpoints: their steps."""

    steps: tuple[tuple[float, int], ...]
    checkpoints: tuple[int, ...] = ()


@dataclass(frozen=True)
class Resumption:
    """How a training went on after a failure.

    resumed: it did a step again. useful: it did one that it had not done before. kept: when the work was done from
    which it went on. steps, seconds: what it does again. NaN where it did not come so far. succeeded: it succeeded
    without a further step.
    """

    resumed: float = nan
    useful: float = nan
    kept: float = nan
    steps: int = 0
    seconds: float = nan
    succeeded: bool = False


def training_progress_by_workload(
    rows: Iterable[Mapping[str, Any]], start: float, end: float, notes: list[str]
) -> dict[int, TrainingProgress]:
    """Return index -> progress from the rows of training.jsonl.

    What does not fit our clock, and trainings that do not log each step, are left out, with a note.
    start, end: of the observation, in seconds since 1970.
    """
    found: dict[int, TrainingProgress] = {}
    for row in rows:
        progress, index = row.get("progress"), row.get("index")
        if not progress or not progress["steps"] or index is None or index in found:
            continue
        steps = sorted((float(moment) - start, int(step)) for step, moment in progress["steps"])
        if steps[0][0] < -_TOLERANCE or steps[-1][0] > end - start + _TOLERANCE:
            notes.append(
                f"steps of workload {index} are left out: by the clock of its node, it did them"
                f" {steps[0][0]:.0f} to {steps[-1][0]:.0f} s after the start of the load, of {end - start:.0f} s"
            )
            continue
        if max(_steps_between_logged(steps), steps[0][1]) > 1:
            notes.append(
                f"steps of workload {index} are left out: it does not log each step, so it is unknown what it did again"
                " and when; its hyper-parameters need logging_steps: 1"
            )
            continue
        found[index] = TrainingProgress(tuple(steps), tuple(progress["checkpoints"]))
    return found


def how_training_resumed(
    progress: TrainingProgress, injected: float, begun: float, again: float, succeeded: bool = False
) -> Resumption:
    """Return how a training went on after a failure.

    begun: when its pods ran first. again: when the first pod ran that was made after the failure. succeeded: whether
    the training succeeded in the end.
    """
    before = [entry for entry in progress.steps if entry[0] < again]
    after = [entry for entry in progress.steps if entry[0] >= again]
    if not after:
        kept = max((moment for moment, _step in before), default=begun) if succeeded else nan
        return Resumption(kept=kept, succeeded=succeeded)
    last = max((step for _moment, step in before), default=0)
    resumed, first = after[0]
    useful = next((moment for moment, step in after if step > last), nan)
    from_step = min(_step_before(progress, first), last)
    kept = max((moment for moment, step in before if step <= from_step), default=begun)
    # Peers may do a step after the failure, before they notice it.
    stopped = max([injected, *(moment for moment, _step in before)])
    return Resumption(resumed, useful, kept, last - from_step, max(0.0, stopped - kept))


def _step_before(progress: TrainingProgress, first: int) -> int:
    """Return the step from which a training went on whose first step that it logged is ``first``."""
    every = _steps_between_logged(progress.steps)
    fitting = [step for step in progress.checkpoints if first - every <= step < first]
    return max(fitting, default=max(0, first - every))


def _steps_between_logged(steps: Sequence[tuple[float, int]]) -> int:
    """Return the number of steps from one that was logged to the next, 1 if it is unknown."""
    return min((later - step for (_a, step), (_b, later) in pairwise(steps) if later > step), default=1)


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


#: Stages of a recovery, in their order.
STAGES = ("detected", "tainted", "disrupted", "replaced", "scheduled", "whole", "resumed", "useful")
DETECTED, TAINTED, DISRUPTED, REPLACED, RESCHEDULED, WHOLE, RESUMED, USEFUL = STAGES
#: Stages of the node, which only a lost one reaches.
OF_LOST_NODE = (DETECTED, TAINTED)
#: Stages of a training that says which steps it does.
OF_TRAINING = (RESUMED, USEFUL)
NODE_LOST, NODE_DRAINED, GPU_LOST, POD_KILLED = "node_lost", "node_drained", "gpu_lost", "pod_killed"
NETWORK_CUT = "network_cut"
#: Why GPU-seconds are lost: replacements are awaited, other pods of the workload wait for them, work is done again.
WAITING, BLOCKED, REDONE = CAUSES = ("waiting", "blocked", "redone")


@dataclass
class FailingPod:
    """One pod of a workload, with everything that a recovery needs.

    weight: what its seconds count: its GPUs, or one if no pod of the load holds any.
    """

    index: int
    gpus: float = 0.0
    created: Span = NEVER
    scheduled: Span = NEVER
    running: Span = NEVER
    disrupted: Span = NEVER
    ended: Span = NEVER
    end: str = ""
    lost: Span = NEVER  # to a failure
    owner: str = ""  # uid
    disowned: Span = NEVER  # its owner was deleted
    weight: float = 0.0

    @property
    def stop(self) -> float:
        """When it stopped to work: lost to a failure, or ended; infinite if it still ran."""
        return min(midpoint_of_span(self.lost, inf), midpoint_of_span(self.ended, inf))

    @property
    def broken(self) -> bool:
        """Whether it stopped without success."""
        return self.stop < inf and (self.end != SUCCEEDED or not isnan(self.lost[0]))

    @property
    def in_vain(self) -> float:
        """When its work was lost; infinite if it was not.

        That of a pod that succeeded is lost with its owner: a Job that is made again has to do all of it again.
        """
        if self.broken:
            return self.stop
        return max(self.stop, midpoint_of_span(self.disowned, inf)) if self.end == SUCCEEDED else inf


@dataclass
class Recovery:
    """One failure and one workload that it hit. lost: GPU-seconds by cause, or pod-seconds if no pod holds GPUs."""

    number: int
    kind: str
    target: str
    index: int
    pods: int
    gpus: float
    injected: Span
    stages: dict[str, Span] = field(default_factory=dict)
    lost: dict[str, float] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0.0))
    over: bool = False  # the workload has ended, or was deleted, without being whole again
    succeeded: float = inf  # when it succeeded without being whole again
    resumption: Resumption | None = None  # of a training that says which steps it does
    node_back: Span = NEVER  # the lost node is Ready again
    reconnected: Span = NEVER  # the network is not cut any more

    @property
    def idle_until(self) -> float:
        """When the workload worked again: it was whole, and did a step if it says so; infinite if it never did.

        A training that succeeded without a further step had none to do.
        """
        whole = midpoint_of_span(self.stages[WHOLE], inf)
        if self.resumption is None or self.resumption.succeeded:
            return whole
        return max(whole, midpoint_of_span(self.stages[RESUMED], inf))
