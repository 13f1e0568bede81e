# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the lifetime of every pod of a workload, preempted ones included, and preemptions and evictions by its queue.

A timeline has one row per workload and each stage once. The waste of a scheduler shows only in the rest: pods that
failed or were deleted and recreated, and quota that was granted and revoked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader, timeline_views

from . import timeline_builder

#: Stages of a pod, as role workload defines them.
SCHEDULED, RUNNING, SUCCEEDED, FAILED = "scheduled", "running", "succeeded", "failed"
#: Stages that a Kueue Workload can reach repeatedly: the last two again after the loss of a worker cluster.
REPEATED = ("preempted", "evicted", "dispatched", "pods_ready")

Span = tuple[float, float]
NEVER: Span = (nan, nan)


@dataclass
class PodLifetime:
    """One pod. Spans are [earliest, latest] in seconds after the start of the load, NaN where it was never reached.

    end: "succeeded", "failed", "deleted", or empty for a pod that still existed when the observation ended. node: to
    which it was bound, empty for none.
    """

    index: int
    scheduled: Span = NEVER
    running: Span = NEVER
    ended: Span = NEVER
    end: str = ""
    node: str = ""


@dataclass
class PodLifetimes:
    """All lifetimes of one point. conditions: name -> (workload index, when), in order. plan: header of the plan."""

    pods: list[PodLifetime] = field(default_factory=list)
    conditions: dict[str, list[tuple[int, Span]]] = field(default_factory=lambda: {name: [] for name in REPEATED})
    plan: dict[str, Any] = field(default_factory=dict)


class _PodEventCollector:
    """Collects the events of a point with the bounds of their moments."""

    def __init__(self) -> None:
        self.lives: dict[str, PodLifetime] = {}
        self.conditions: list[tuple[str, int, Span]] = []

    def see(self, index: int, event: dict[str, Any], span: Span) -> None:
        """Take one event of workload ``index``."""
        if event["kind"] == "Pod":
            self._pod(index, event, span)
        elif event["kind"] == "Workload":
            self.conditions += [(name, index, span) for name in REPEATED if event["values"].get(name)]

    def _pod(self, index: int, event: dict[str, Any], span: Span) -> None:
        life = self.lives.setdefault(event["uid"], PodLifetime(index))
        values = event["values"]
        life.node = event.get("node") or life.node
        if values.get(SCHEDULED):
            life.scheduled = span
        if values.get(RUNNING):
            life.running = span
        for end in (SUCCEEDED, FAILED):
            if values.get(end) and not life.end:
                life.end, life.ended = end, span
        if event["event"] == "DELETED" and not life.end:
            life.end, life.ended = "deleted", span


def read_pod_lifetimes(folder: Path, run: str, point: str, chosen: Iterable[int] | None = None) -> PodLifetimes:
    """Read the pod lifetimes of the point in ``folder``, limited to the workload indices ``chosen`` if given."""
    inputs = point_reader.read_point_inputs(folder)
    witness = _PodEventCollector()
    start = float(timeline_builder.build_timeline_from_inputs(inputs, run, point, witness=witness.see).header["start"])
    wanted = set(chosen) if chosen is not None else None

    def shown(span: Span) -> Span:
        return span[0] - start, span[1] - start

    pods = [life for life in witness.lives.values() if wanted is None or life.index in wanted]
    lifetimes = PodLifetimes(
        [
            PodLifetime(life.index, shown(scheduled), shown(running), shown(ended), life.end, life.node)
            for life, (scheduled, running, ended) in _narrow_phases_by_order(pods)
        ],
        plan=inputs.plan,
    )
    for name, index, span in witness.conditions:
        if wanted is None or index in wanted:
            lifetimes.conditions[name].append((index, shown(span)))
    return lifetimes


def _narrow_phases_by_order(pods: list[PodLifetime]) -> Iterator[tuple[PodLifetime, list[Span]]]:
    """Yield each pod with the intervals of scheduled, running and ended, narrowed by that order."""
    import numpy

    names = ("scheduled", "running", "ended")
    columns = {name: numpy.array([getattr(life, name) for life in pods]).reshape(-1, 2) for name in names}
    measured = {name: (column[:, 0], column[:, 1]) for name, column in columns.items()}
    steps = [("scheduled", ()), ("running", ("scheduled",)), ("ended", ("scheduled", "running"))]
    narrowed = timeline_views.narrow_by_order(measured, steps, numpy.full(len(pods), nan))
    rows = [numpy.column_stack(narrowed[name]).tolist() for name in names]
    for life, *spans in zip(pods, *rows, strict=True):
        yield life, [tuple(span) for span in spans]


def midpoint_of_span(span: Span, missing: float = nan) -> float:
    """Return the midpoint of a span, ``missing`` for one that was never reached."""
    value = (span[0] + span[1]) / 2
    return missing if isnan(value) else value


def first_moment_all_run(lives: list[PodLifetime], size: int) -> float:
    """Return the first moment at which ``size`` of these pods ran at once, by midpoints; infinite if never."""
    steps = [(midpoint_of_span(life.running), 1) for life in lives if not isnan(life.running[1])]
    steps += [(midpoint_of_span(life.ended), -1) for life in lives if not isnan(life.running[1]) and life.end]
    count = 0
    for moment, step in sorted(steps, key=lambda pair: (pair[0], pair[1])):
        count += step
        if count >= size:
            return moment
    return inf
