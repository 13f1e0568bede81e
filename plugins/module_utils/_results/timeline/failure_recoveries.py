# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Join the injected failures of a point with the events of its workloads: what each failure hit, and how it recovered.

A failure hits a workload if it ends pods of it. The workload is whole again when as many of its pods run, or have
succeeded, as it has. One that succeeded does not count any more when its Job was deleted. All spans are [earliest,
latest] in seconds after the start of the load, NaN where a stage was not reached. Pods that a failure ends count as
lost from its injection on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate, dropwhile, pairwise
from math import inf, isnan
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.point_reader import ONE

from . import timeline_builder
from .common_clock_of_clients import ClientClocks
from .failure_rows import (
    FILE,
    KUBELET_RESTARTED,
    OF_CONTROL_PLANE,
    WORKER_AWAY,
    Injection,
    group_failure_rows,
    read_failure_rows,
)
from .gpu_seconds_lost_to_failures import share_gpu_seconds
from .pod_lifetimes import FAILED, NEVER, RUNNING, SCHEDULED, SUCCEEDED, Span, midpoint_of_span
from .recovery_stages import (
    DETECTED,
    DISRUPTED,
    GPU_LOST,
    NETWORK_CUT,
    NODE_DRAINED,
    NODE_LOST,
    OF_TRAINING,
    POD_KILLED,
    REPLACED,
    RESCHEDULED,
    TAINTED,
    WHOLE,
    FailingPod,
    QueueCollector,
    Recovery,
    TrainingProgress,
    find_queue_stages,
    find_topology_stages,
    how_training_resumed,
    training_progress_by_workload,
)
from .revision_and_server_clocks import parse_resource_version


@dataclass
class PointFailures:
    """All failures of a point. injected: kind -> number. held, useful: GPU-seconds of all pods of the load.

    holds_gpus: whether any pod does; if none does, the seconds are those of pods.

    outages: those that hit the control plane. lives: pods of each workload. workers_away: when a worker cluster went
    away. wrongly_hit: workloads that no failure was aimed at, of which pods failed or were evicted after the first
    failure.
    """

    recoveries: list[Recovery] = field(default_factory=list)
    injected: dict[str, int] = field(default_factory=dict)
    skipped: int = 0
    held: float = 0.0
    useful: float = 0.0
    holds_gpus: bool = True
    end: float = 0.0
    notes: list[str] = field(default_factory=list)
    outages: list[Injection] = field(default_factory=list)
    lives: dict[int, list[FailingPod]] = field(default_factory=dict)
    workers_away: list[Span] = field(default_factory=list)
    wrongly_hit: int = 0


class _PodCollector:
    """Collects the pods of a point, by uid, from its events. deleted: when other objects were, by uid."""

    def __init__(self) -> None:
        self.pods: dict[str, FailingPod] = {}
        self.deleted: dict[str, Span] = {}

    def see(self, index: int, event: dict[str, Any], span: Span) -> None:
        """Take one event of workload ``index``."""
        if event["kind"] != "Pod":
            if event["event"] == "DELETED":
                self.deleted[event["uid"]] = span
            return
        pod = self.pods.get(event["uid"])
        if pod is None:
            pod = self.pods[event["uid"]] = FailingPod(index, float(event.get("gpus") or 0), created=span)
            pod.owner = next(iter(event.get("owners") or ()), "")
        values = event["values"]
        for name in (SCHEDULED, RUNNING, DISRUPTED):
            if values.get(name) and isnan(getattr(pod, name)[0]):
                setattr(pod, name, span)
        for end in (SUCCEEDED, FAILED):
            if values.get(end) and not pod.end:
                pod.end, pod.ended = end, span
        if event["event"] == "DELETED" and not pod.end:
            pod.end, pod.ended = "deleted", span


def has_failures(folder: Path) -> bool:
    """Return whether failures were injected into the load of a point."""
    return (folder / FILE).exists()


def read_point_failures(
    folder: Path,
    run: str,
    point: str,
    checkpoint_every: float = 0.0,
    audit_log: Path | None = None,
    training: Iterable[Mapping[str, Any]] = (),
) -> PointFailures:
    """Read the failures of the point in ``folder``.

    checkpoint_every: seconds between two checkpoints of a workload, 0 for none: a pod that is lost begins again there.
    training: rows of training.jsonl; those with the progress of a training say where it really began again.
    """
    inputs = point_reader.read_point_inputs(folder)
    collector = _PodCollector()
    queue = QueueCollector()

    def see(index: int, event: dict[str, Any], span: Span) -> None:
        collector.see(index, event, span)
        queue.see(index, event, span)

    table = timeline_builder.build_timeline_from_inputs(inputs, run, point, audit_log=audit_log, witness=see)
    start, end = float(table.header["start"]), float(table.header["end"])
    clocks = ClientClocks(inputs)
    notes: list[str] = []
    rows = read_failure_rows(folder, inputs.anchor, start, notes)
    for pod in collector.pods.values():
        pod.disowned = collector.deleted.get(pod.owner, NEVER)
    pods = {uid: _shifted(pod, -start) for uid, pod in collector.pods.items()}
    sizes = dict(zip(table.index, table.pods, strict=True))
    # One of a kind without an end has succeeded once it was ready: it ends when we delete it.
    ended = {
        index: outcome
        for index, outcome in zip(table.index, table.outcome, strict=True)
        if outcome in ("failed", "deleted") or (outcome == "succeeded" and (not inputs.stops or index in inputs.stops))
    }
    own = clocks.own(ONE) if not clocks.several else None

    def dated(row: Mapping[str, Any]) -> Span:
        at, received = parse_resource_version(row["resource_version"]), float(row["received"])
        if own is None or at is None:  # found by listing the nodes again: it may have changed long before
            return -inf, received
        return own.after(at) - start, min(own.before(at) - start, received)

    progress = training_progress_by_workload(training, start, end, notes)
    failures = join_failures(rows, pods, sizes, ended, end - start, checkpoint_every, dated, progress)
    for recovery in failures.recoveries:
        if changes := queue.changes.get(recovery.index):
            moved = [((first - start, last - start), name) for (first, last), name in changes]
            until = midpoint_of_span(recovery.stages[WHOLE], inf)
            recovery.stages |= find_queue_stages(moved, recovery.injected, until)
            recovery.stages |= find_topology_stages(moved, recovery.injected, until, recovery.node_back)
    failures.notes = [*notes, *failures.notes]
    return failures


def _shifted(pod: FailingPod, by: float) -> FailingPod:
    for name in ("created", "scheduled", "running", "disrupted", "ended", "disowned"):
        first, last = getattr(pod, name)
        setattr(pod, name, (first + by, last + by))
    return pod


def join_failures(
    rows: Iterable[Mapping[str, Any]],
    pods: Mapping[str, FailingPod],
    sizes: Mapping[int, int],
    ended: Mapping[int, str],
    end: float,
    checkpoint_every: float,
    dated: Any,
    progress: Mapping[int, TrainingProgress] = MappingProxyType({}),
) -> PointFailures:
    """Return the recoveries from the rows of failures.jsonl and the pods of the load, by uid.

    sizes: pods of each workload. ended: outcome of those that ended. dated: returns the span of a row ``node``.
    progress: what workloads say of their steps.
    """
    result = PointFailures(end=end)
    ledger = group_failure_rows(rows, dated)
    result.skipped, result.notes = ledger.skipped, ledger.notes
    result.outages = [failure for failure in ledger.injections if failure.kind in OF_CONTROL_PLANE]
    result.workers_away = [failure.injected for failure in ledger.injections if failure.kind == WORKER_AWAY]
    of_workload = result.lives
    result.holds_gpus = any(pod.gpus for pod in pods.values())
    for pod in pods.values():
        pod.weight = pod.gpus if result.holds_gpus else 1.0
        of_workload.setdefault(pod.index, []).append(pod)
    for failure in ledger.injections:
        result.injected[failure.kind] = result.injected.get(failure.kind, 0) + 1
        hit = _lost_pods(failure, pods)
        for pod in hit:
            pod.lost = failure.injected if isnan(pod.lost[0]) else pod.lost
        later = (other.injected[0] for other in ledger.injections if other.target == failure.target)
        until = min((sent for sent in later if sent > failure.injected[0]), default=inf)
        concerned = _separated_pods(failure, pods) or hit
        for index in sorted({pod.index for pod in concerned}):
            mine = [pod for pod in concerned if pod.index == index]
            gpus = sum(pod.gpus for pod in mine)
            recovery = Recovery(failure.number, failure.kind, failure.target, index, len(mine), gpus, failure.injected)
            _take_node_stages(recovery, ledger.nodes, until)
            if failure.kind == NETWORK_CUT:
                recovery.reconnected = failure.undone
            result.recoveries.append(recovery)
    of_index: dict[int, list[Recovery]] = defaultdict(list)
    for recovery in sorted(result.recoveries, key=lambda recovery: recovery.injected):
        of_index[recovery.index].append(recovery)
    for index, lives in of_workload.items():
        if recoveries := of_index.get(index, []):
            # A redeployed workload has more pods in all, also succeeded ones, than it has at a time.
            size = min(sizes.get(index, 1), _most_at_a_time(lives))
            size = max(size, _size_before(midpoint_of_span(recoveries[0].injected), lives))
            for recovery in recoveries:
                _follow(recovery, lives, size, ended.get(index, ""))
                if index in progress:
                    _follow_training(recovery, lives, progress[index], ended.get(index) == SUCCEEDED)
            _count_redone_work_once(recoveries)
        held, useful = share_gpu_seconds(recoveries, lives, end, checkpoint_every)
        result.held += held
        result.useful += useful
    first = min((failure.injected[0] for failure in ledger.injections), default=inf)
    others = (lives for index, lives in of_workload.items() if index not in of_index)
    result.wrongly_hit = sum(any(_lost_something_after(first, pod) for pod in lives) for lives in others)
    return result


def _lost_something_after(moment: float, pod: FailingPod) -> bool:
    """Return whether a pod failed or was evicted later; one that is deleted may just not be needed any more."""
    spans = (pod.disrupted, pod.ended if pod.end == FAILED else NEVER)
    return any(midpoint_of_span(span, -inf) >= moment for span in spans)


def _lost_pods(failure: Injection, pods: Mapping[str, FailingPod]) -> list[FailingPod]:
    """Return the pods that a failure ended: a lost node may come back, and a budget may refuse an eviction."""
    kept = failure.left if failure.kind == NODE_DRAINED else ()
    named = [row for row in failure.pods if f"{row.get('namespace')}/{row.get('name')}" not in kept]
    lost = [pods[row["uid"]] for row in named if row["uid"] in pods and pods[row["uid"]].end != SUCCEEDED]
    if failure.kind in (NODE_DRAINED, GPU_LOST):
        lost = [pod for pod in lost if pod.end or not isnan(pod.disrupted[0])]
    if failure.kind == NETWORK_CUT:
        lost = [pod for pod in lost if pod.end == FAILED]
    if failure.kind == KUBELET_RESTARTED:  # its containers run on, unless the node is taken for lost
        lost = [pod for pod in lost if not isnan(pod.disrupted[0])]
    return lost


def _separated_pods(failure: Injection, pods: Mapping[str, FailingPod]) -> list[FailingPod]:
    """Return the pods between which the network was cut; none for another kind."""
    rows = failure.pods if failure.kind == NETWORK_CUT else ()
    return [pods[row["uid"]] for row in rows if row["uid"] in pods]


def _most_at_a_time(lives: list[FailingPod]) -> int:
    """Return the most pods that a workload had at a time, running or not."""
    steps = [(midpoint_of_span(pod.created, -inf), 1) for pod in lives] + [(pod.stop, -1) for pod in lives]
    return max(accumulate(step for _moment, step in sorted(steps)), default=0)


def _size_before(moment: float, lives: list[FailingPod]) -> int:
    """Return how many pods of a workload ran, or had succeeded, just before a moment."""
    return sum(midpoint_of_span(pod.running, inf) < moment <= pod.in_vain for pod in lives)


def _take_node_stages(recovery: Recovery, nodes: list[tuple[Mapping[str, Any], Span]], until: float) -> None:
    """Fill the stages of a lost node, and when it was back.

    until: when the node was made to fail again, from which on rows are others'.
    """
    since = recovery.injected[0]
    later = [
        (row, (max(span[0], since), span[1]))
        for row, span in nodes
        if row["name"] == recovery.target and since <= span[1] <= until and recovery.kind == NODE_LOST
    ]
    signs = {
        DETECTED: (span for row, span in later if row["ready"] != "True"),
        TAINTED: (span for row, span in later if any(taint.endswith(":NoExecute") for taint in row["taints"])),
    }
    for stage, spans in signs.items():
        recovery.stages[stage] = next(spans, NEVER)
    missed = dropwhile(lambda change: change[0]["ready"] == "True", later)
    recovery.node_back = next((span for row, span in missed if row["ready"] == "True"), NEVER)


def _follow(recovery: Recovery, lives: list[FailingPod], size: int, outcome: str) -> None:
    """Fill the stages of a workload after a failure."""
    since = midpoint_of_span(recovery.injected)
    hit = [pod for pod in lives if pod.lost == recovery.injected]
    if recovery.kind == NETWORK_CUT and not hit:
        recovery.stages |= dict.fromkeys((DISRUPTED, REPLACED, RESCHEDULED), NEVER)
        recovery.stages[WHOLE] = recovery.reconnected
        return
    gone = [pod.disrupted if not isnan(pod.disrupted[0]) else pod.ended for pod in hit]
    first, last = min((span for span in gone if not isnan(span[0])), default=NEVER)
    recovery.stages[DISRUPTED] = (max(first, min(recovery.injected[0], last)), last)  # not before the failure
    steps = [(midpoint_of_span(pod.running), 1, pod) for pod in lives if not isnan(pod.running[0])]
    steps += [(pod.in_vain, -1, pod) for pod in lives if not isnan(pod.running[0]) and pod.in_vain < inf]
    count, completed = 0, None
    for moment, step, pod in sorted(steps, key=lambda step: step[:2]):
        count += step
        if moment > since and step > 0 and count >= size:
            completed = pod
            break
    whole = completed.running if completed is not None else NEVER
    until = midpoint_of_span(whole, inf)
    # A controller may replace a pod before the request that deletes it is answered.
    later = recovery.injected[0] if recovery.kind == POD_KILLED else since
    created = [pod for pod in lives if midpoint_of_span(pod.created) > later]
    new = [pod for pod in created if midpoint_of_span(pod.running, inf) <= until]
    if completed is None:
        new = [pod for pod in created if not pod.broken]
    enough = len(new) >= len(hit)
    recovery.stages[REPLACED] = max((pod.created for pod in new), default=NEVER) if enough else NEVER
    scheduled = [pod.scheduled for pod in new]
    known = enough and not any(isnan(span[0]) for span in scheduled)
    recovery.stages[RESCHEDULED] = max(scheduled, default=NEVER) if known else NEVER
    recovery.stages[WHOLE] = whole
    recovery.over = completed is None and bool(outcome)
    if recovery.over and outcome == SUCCEEDED:
        recovery.succeeded = max((pod.stop for pod in lives if pod.stop < inf), default=inf)


def _follow_training(recovery: Recovery, lives: list[FailingPod], progress: TrainingProgress, succeeded: bool) -> None:
    """Fill the stages of a training that says which steps it does."""
    since = recovery.injected[0]
    runs = sorted((midpoint_of_span(pod.running, inf), midpoint_of_span(pod.created)) for pod in lives)
    again = min((running for running, created in runs if created > since), default=inf)
    if recovery.kind == NETWORK_CUT:
        again = min(again, midpoint_of_span(recovery.reconnected, inf))
    recovery.resumption = how_training_resumed(
        progress, midpoint_of_span(recovery.injected), runs[0][0], again, succeeded
    )
    for stage in OF_TRAINING:
        moment = getattr(recovery.resumption, stage)
        recovery.stages[stage] = (moment, moment)


def _count_redone_work_once(recoveries: list[Recovery]) -> None:
    """Leave what a training does again to the first of the failures that hit it before it resumed."""
    for earlier, later in pairwise(recoveries):
        if earlier.resumption is None or later.resumption is None:
            continue
        if not earlier.resumption.resumed < midpoint_of_span(later.injected):
            later.resumption = replace(later.resumption, steps=0, seconds=0.0)
