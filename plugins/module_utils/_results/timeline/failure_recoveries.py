# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Join the injected failures of a point with the events of its workloads: what each failure hit, and how it recovered.

A failure hits a workload if it takes pods of it along. The workload is whole again when as many of its pods run, or
have succeeded, as it has. All spans are [earliest, latest] in seconds after the start of the load, NaN where a stage
was not reached. Pods that a failure takes along count as lost from its injection on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf, isnan
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader

from . import timeline_builder
from .clocks import ONE, ClientClocks, parse_resource_version
from .pod_lifetimes import FAILED, NEVER, RUNNING, SCHEDULED, SUCCEEDED, Span, midpoint_of_span

FILE = "failures.jsonl"
#: Stages of a recovery, in their order.
STAGES = ("detected", "tainted", "disrupted", "replaced", "scheduled", "whole")
DETECTED, TAINTED, DISRUPTED, REPLACED, RESCHEDULED, WHOLE = STAGES
#: Why GPU-seconds are lost: replacements are awaited, other pods of the workload wait for them, work is done again.
WAITING, BLOCKED, REDONE = CAUSES = ("waiting", "blocked", "redone")
#: Failure that takes no pod along.
_WITHOUT_PODS = ("gpu_lost",)


@dataclass
class FailingPod:
    """One pod of a workload, with everything that a recovery needs."""

    index: int
    gpus: float = 0.0
    created: Span = NEVER
    scheduled: Span = NEVER
    running: Span = NEVER
    disrupted: Span = NEVER
    ended: Span = NEVER
    end: str = ""
    lost: Span = NEVER  # to a failure

    @property
    def stop(self) -> float:
        """When it stopped to work: lost to a failure, or ended; infinite if it still ran."""
        return min(midpoint_of_span(self.lost, inf), midpoint_of_span(self.ended, inf))

    @property
    def broken(self) -> bool:
        """Whether it stopped without success."""
        return self.stop < inf and (self.end != SUCCEEDED or not isnan(self.lost[0]))


@dataclass
class Recovery:
    """One failure and one workload that it hit. lost: GPU-seconds by cause."""

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


@dataclass
class PointFailures:
    """All failures of a point. injected: kind -> number. GPU-seconds of all pods of the load."""

    recoveries: list[Recovery] = field(default_factory=list)
    injected: dict[str, int] = field(default_factory=dict)
    skipped: int = 0
    held: float = 0.0
    useful: float = 0.0
    end: float = 0.0


class _PodCollector:
    """Collects the pods of a point, by uid, from its events."""

    def __init__(self) -> None:
        self.pods: dict[str, FailingPod] = {}
        self.over: dict[int, float] = {}  # index -> when the workload itself ended

    def see(self, index: int, event: dict[str, Any], span: Span) -> None:
        """Take one event of workload ``index``."""
        if event["kind"] != "Pod":
            return
        pod = self.pods.get(event["uid"])
        if pod is None:
            pod = self.pods[event["uid"]] = FailingPod(index, float(event.get("gpus") or 0), created=span)
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
) -> PointFailures:
    """Read the failures of the point in ``folder``.

    checkpoint_every: seconds between two checkpoints of a workload, 0 for none: a pod that is lost begins again there.
    """
    inputs = point_reader.read_point_inputs(folder)
    collector = _PodCollector()
    table = timeline_builder.build_timeline_from_inputs(inputs, run, point, audit_log=audit_log, witness=collector.see)
    start, end = float(table.header["start"]), float(table.header["end"])
    clocks = ClientClocks(inputs)
    rows, shift = [], 0.0
    for row in point_reader.read_json_lines(folder / FILE, []):
        if row["type"] == "session":
            shift = point_reader.clock_shift(row["anchor"], inputs.anchor) - start
        else:
            rows.append({key: value + shift if key in _MOMENTS else value for key, value in row.items()})
    pods = {uid: _shifted(pod, -start) for uid, pod in collector.pods.items()}
    sizes = dict(zip(table.index, table.pods, strict=True))
    ended = {
        index: outcome
        for index, outcome in zip(table.index, table.outcome, strict=True)
        if outcome in ("succeeded", "failed", "deleted")
    }
    own = clocks.own(ONE) if not clocks.several else None

    def dated(row: Mapping[str, Any]) -> Span:
        at, received = parse_resource_version(row["resource_version"]), float(row["received"])
        if own is None or at is None:
            return received, received
        return max(own.after(at) - start, -inf), min(own.before(at) - start, received)

    return join_failures(rows, pods, sizes, ended, end - start, checkpoint_every, dated)


_MOMENTS = ("intended", "sent", "answered", "received", "at")


def _shifted(pod: FailingPod, by: float) -> FailingPod:
    for name in ("created", "scheduled", "running", "disrupted", "ended"):
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
) -> PointFailures:
    """Return the recoveries from the rows of failures.jsonl and the pods of the load, by uid.

    sizes: pods of each workload. ended: outcome of those that ended. dated: returns the span of a row ``node``.
    """
    result = PointFailures(end=end)
    plans: dict[tuple[int, str], Mapping[str, Any]] = {}
    nodes: list[tuple[Mapping[str, Any], Span]] = []
    injections: list[tuple[Mapping[str, Any], Span]] = []
    for row in rows:
        if row["type"] == "inject":
            plans[row["number"], row["target"]] = row
        elif row["type"] == "injected":
            injections.append((plans[row["number"], row["target"]], (row["sent"], row["answered"])))
        elif row["type"] == "node":
            nodes.append((row, dated(row)))
        elif row["type"] == "skipped":
            result.skipped += 1
    of_workload: dict[int, list[FailingPod]] = {}
    for pod in pods.values():
        of_workload.setdefault(pod.index, []).append(pod)
    for plan, injected in injections:
        result.injected[plan["kind"]] = result.injected.get(plan["kind"], 0) + 1
        uids = [] if plan["kind"] in _WITHOUT_PODS else [row["uid"] for row in plan["pods"]]
        hit = [pods[uid] for uid in uids if uid in pods and _worked_at(pods[uid], injected)]
        for pod in hit:
            pod.lost = injected if isnan(pod.lost[0]) else pod.lost
        for index in sorted({pod.index for pod in hit}):
            mine = [pod for pod in hit if pod.index == index]
            recovery = Recovery(
                plan["number"], plan["kind"], plan["target"], index, len(mine), sum(pod.gpus for pod in mine), injected
            )
            _take_node_stages(recovery, nodes)
            result.recoveries.append(recovery)
    for recovery in result.recoveries:
        _follow(recovery, of_workload[recovery.index], sizes.get(recovery.index, 1), ended.get(recovery.index, ""))
    for index, lives in of_workload.items():
        of_it = [recovery for recovery in result.recoveries if recovery.index == index]
        _account(of_it, lives, end, checkpoint_every)
        result.held += sum(pod.gpus * _seconds(pod.scheduled, pod.stop, end) for pod in lives)
        result.held += sum(recovery.lost[WAITING] for recovery in of_it)
        result.useful += sum(pod.gpus * _seconds(pod.running, pod.stop, end) for pod in lives)
        result.useful -= sum(recovery.lost[BLOCKED] + recovery.lost[REDONE] for recovery in of_it)
    return result


def _worked_at(pod: FailingPod, moment: Span) -> bool:
    """Return whether a pod had not succeeded when a failure came."""
    return pod.end != SUCCEEDED or midpoint_of_span(pod.ended) > moment[0]


def _seconds(begin: Span, stop: float, end: float) -> float:
    """Return the seconds from a span's midpoint to a moment, at most until the end of the observation."""
    first = midpoint_of_span(begin, inf)
    return max(0.0, min(stop, end) - first) if first < inf else 0.0


def _take_node_stages(recovery: Recovery, nodes: list[tuple[Mapping[str, Any], Span]]) -> None:
    later = [(row, span) for row, span in nodes if row["name"] == recovery.target and span[1] >= recovery.injected[0]]
    signs = {
        DETECTED: (span for row, span in later if row["ready"] != "True"),
        TAINTED: (span for row, span in later if any(taint.endswith(":NoExecute") for taint in row["taints"])),
    }
    for stage, spans in signs.items():
        recovery.stages[stage] = next(spans, NEVER)


def _follow(recovery: Recovery, lives: list[FailingPod], size: int, outcome: str) -> None:
    """Fill the stages of a workload after a failure."""
    since = midpoint_of_span(recovery.injected)
    hit = [pod for pod in lives if pod.lost == recovery.injected]
    gone = [pod.disrupted if not isnan(pod.disrupted[0]) else pod.ended for pod in hit]
    recovery.stages[DISRUPTED] = min((span for span in gone if not isnan(span[0])), default=NEVER)
    steps = [(midpoint_of_span(pod.running), 1, pod) for pod in lives if not isnan(pod.running[0])]
    steps += [(pod.stop, -1, pod) for pod in lives if not isnan(pod.running[0]) and pod.broken]
    count, completed = 0, None
    for moment, step, pod in sorted(steps, key=lambda one: one[:2]):
        count += step
        if moment > since and step > 0 and count >= size:
            completed = pod
            break
    whole = completed.running if completed is not None else NEVER
    until = midpoint_of_span(whole, inf)
    new = [
        pod for pod in lives if midpoint_of_span(pod.created) > since and midpoint_of_span(pod.running, inf) <= until
    ]
    if completed is None:
        new = [pod for pod in lives if midpoint_of_span(pod.created) > since and not pod.broken]
    enough = len(new) >= len(hit)
    recovery.stages[REPLACED] = max((pod.created for pod in new), default=NEVER) if enough else NEVER
    scheduled = [pod.scheduled for pod in new]
    known = enough and not any(isnan(span[0]) for span in scheduled)
    recovery.stages[RESCHEDULED] = max(scheduled, default=NEVER) if known else NEVER
    recovery.stages[WHOLE] = whole
    recovery.over = completed is None and bool(outcome)


def _account(recoveries: list[Recovery], lives: list[FailingPod], end: float, checkpoint_every: float) -> None:
    """Share the lost GPU-seconds of one workload among its recoveries; a second is lost only once."""
    counted: set[int] = set()
    free = 0.0  # until when an earlier recovery has counted
    for recovery in sorted(recoveries, key=lambda one: one.injected):
        since, until = midpoint_of_span(recovery.injected), min(midpoint_of_span(recovery.stages[WHOLE], inf), end)
        if recovery.over:
            until = min(until, max((pod.stop for pod in lives if pod.stop < inf), default=until))
        window = (max(since, free), max(until, since))
        free = max(free, window[1])
        length = max(0.0, window[1] - window[0])
        recovery.lost[WAITING] = recovery.gpus * length
        for pod in lives:
            begin, stop = midpoint_of_span(pod.running, inf), min(pod.stop, end)
            if begin < inf:
                overlap = max(0.0, min(stop, window[1]) - max(begin, window[0]))
                recovery.lost[BLOCKED] += pod.gpus * overlap
                if pod.broken and id(pod) not in counted and since <= pod.stop <= until:
                    counted.add(id(pod))
                    # Of its work, what was blocked is counted as that.
                    worked = max(0.0, min(stop, window[0]) - begin)
                    lost = worked % checkpoint_every if checkpoint_every else worked
                    recovery.lost[REDONE] += pod.gpus * lost
