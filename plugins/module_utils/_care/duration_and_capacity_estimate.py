# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Duration and GPU hours of a plan, before anything is sent, and whether the cluster has capacity for it.

The nodes that the run creates count too.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.cluster_properties import GPU_RESOURCES
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import why_pod_waits_or_cannot_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import arrival_times
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.random_draws import draw_number_for_workload


@dataclass(frozen=True)
class PointLoad:
    """The load of a point: arrival offsets in seconds; pods, total GPUs and run time in seconds of one workload.

    requests: resource -> quantity of its largest pod. selector: the nodeSelector of its pods. resource: the GPU
    resource; empty for any known one. assumed: what the run time rests on, if it is not that of real nodes.
    in_flight: requests at once in a closed loop. iterations: pods that each pod of a workload has made, one after
    another. pool: further pods that wait. releases: offsets at which workloads are released; empty if they do not wait.
    """

    point: str
    workloads: int
    offsets: tuple[float, ...]
    pods: int
    gpus: float
    seconds: float
    requests: dict[str, Any] = field(default_factory=dict)
    selector: dict[str, str] = field(default_factory=dict)
    resource: str = ""
    assumed: str = ""
    in_flight: int = 1
    iterations: int = 0
    pool: int = 0
    releases: tuple[float, ...] = ()

    @property
    def all_pods(self) -> int:
        """Pods of the load from its beginning to its end."""
        return self.workloads * self.pods * (1 + self.iterations) + self.pool


@dataclass(frozen=True)
class LoadEstimate:
    """Seconds until the last workload has ended, GPU hours, peak number of GPUs and pods in use.

    assumed: what the times rest on, empty if on settings for such nodes.
    """

    point: str
    workloads: int
    seconds: float
    gpu_hours: float
    gpus_at_once: float
    pods_at_once: int
    assumed: str = ""

    def text(self) -> str:
        """Return the estimate as text."""
        return (
            f"{formats.format_count(self.workloads, 'workload')} in about {self.seconds:.0f} s, "
            f"{self.gpu_hours:.2f} GPU hours, at most {formats.format_with_unit(self.gpus_at_once, 'GPUs')} "
            f"and {formats.format_count(self.pods_at_once, 'pod')} at once{_assumption_text(self.assumed)}"
        )


def format_total_estimate(estimates: Sequence[LoadEstimate]) -> str:
    """Return the total of several points as text."""
    seconds, hours = sum(point.seconds for point in estimates), sum(point.gpu_hours for point in estimates)
    most = max(point.gpus_at_once for point in estimates)
    return (
        f"all {formats.format_count(len(estimates), 'point')}: about {seconds:.0f} s, {hours:.2f} GPU hours, "
        f"at most {formats.format_with_unit(most, 'GPUs')} at once{_assumption_text(estimates[0].assumed)}"
    )


def _assumption_text(what: str) -> str:
    return f", if they take {what}" if what else ""


#: Entries of a plan that are distributions of times.
_TIMES = ("lifetime", "think", "use")
#: Entries of a plan and the least value of each.
_LEAST = {"workloads": 0, "pods": 1, "gpus": 0, "seconds": 0}


def first_invalid_entry(plan: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the first entry of a plan whose value no load can have, with the reason; None for a possible plan."""
    for name in _TIMES:
        try:
            draw_number_for_workload(0, plan.get(name) or {"mean": 0})
        except InputError as error:
            return name, f"{name}: {error}"
    try:
        _check_release(plan)
    except InputError as error:
        return "release", f"release: {error}"
    for name, least in _LEAST.items():
        if plan.get(name) is not None and float(plan[name]) < least:
            return name, f"{name} is {plan[name]}, it must be {least} or more"
    for resource, value in dict(plan.get("requests") or {}).items():
        if not formats.is_kube_quantity(value):
            return "requests", f"the request of {resource} is '{value}', it must be a quantity such as 500m, 2 or 4Gi"
    return None


def _check_release(plan: Mapping[str, Any]) -> None:
    """Raise InputError if the workloads of a plan cannot be released as it says."""
    release = dict(plan.get("release") or {})
    if release and not release.get("src"):  # a trace is read later
        arrival_times.arrivals_from_options(release, int(plan.get("workloads") or 0), int(plan.get("seed") or 1))


def load_of_planned_point(point: str, plan: dict[str, Any]) -> PointLoad:
    """Return the load that the plan of a meta/doctor.yml describes. Raises InputError for invalid arrivals."""
    schedule = arrival_times.arrivals_from_options(
        dict(plan.get("arrival") or {}), int(plan["workloads"]), int(plan.get("seed") or 1)
    )
    return PointLoad(
        point,
        schedule.count,
        _earliest_offsets(schedule),
        int(plan.get("pods") or 1),
        float(plan.get("gpus") or 0),
        float(plan.get("seconds") or 0),
        dict(plan.get("requests") or {}),
        {str(key): str(value) for key, value in (plan.get("node_selector") or {}).items()},
        str(plan.get("gpu_resource") or ""),
        str(plan.get("assumed") or ""),
        int(plan.get("in_flight") or 1),
        int(plan.get("iterations") or 0),
        int(plan.get("pool") or 0),
        _release_offsets(plan, schedule.count),
    )


def _earliest_offsets(schedule: arrival_times.ArrivalTimes) -> tuple[float, ...]:
    """Return the offsets of arrivals. A closed loop has none; with a delay between batches it has earliest ones."""
    batch, delay = schedule.header.get("batch") or 1, schedule.header.get("delay") or 0.0
    return tuple(
        index // batch * delay if offset is None else float(offset) for index, offset in enumerate(schedule.offsets)
    )


def _release_offsets(plan: Mapping[str, Any], count: int) -> tuple[float, ...]:
    """Return when the workloads of a plan are released: without batches all at once."""
    release = dict(plan.get("release") or {})
    if not release or (release.get("src") and not release.get("content")):
        return ()
    schedule = arrival_times.arrivals_from_options(release, count, int(plan.get("seed") or 1))
    return (
        _earliest_offsets(schedule) if schedule.header.get("batch") or None not in schedule.offsets else (0.0,) * count
    )


def estimate_by_scheduling(plan: PointLoad, gpus: float, real: bool = False) -> LoadEstimate | None:
    """Schedule the plan on ``gpus`` GPUs: first come, first served, all or nothing, no time lost between two workloads.

    real: whether any of the nodes is not simulated, so that the assumption of the plan is no fact.
    Each workload runs for its nominal seconds, so a spread of durations or a busy scheduler changes the duration.
    None when one workload alone does not fit.
    """
    if plan.gpus > gpus:
        return None
    free, used, running, most, most_running = gpus, 0.0, 0, 0.0, 0
    ends: list[float] = []
    now = last = 0.0
    for offset in plan.offsets:
        now = max(now, offset)
        while ends and (ends[0] <= now or plan.gpus > free):
            now = max(now, heapq.heappop(ends))
            free += plan.gpus
            running -= 1
        free -= plan.gpus
        running += 1
        used += plan.gpus * plan.seconds
        most, most_running = max(most, gpus - free), max(most_running, running)
        heapq.heappush(ends, now + plan.seconds)
        last = max(last, now + plan.seconds)
    assumed = plan.assumed if real else ""
    return LoadEstimate(plan.point, plan.workloads, last, used / 3600, most, most_running * plan.pods, assumed)


def peak_creations_per_second(load: PointLoad) -> int:
    """Return the largest number of workloads that are created, or released to create pods, within one second.

    A closed loop has no times: as many as are in flight at once.
    """
    created = _most_due_in_a_second(load.offsets) if any(load.offsets) else min(load.workloads, load.in_flight)
    return max(created, _most_due_in_a_second(load.releases) if load.iterations else 0)


def _most_due_in_a_second(moments: Sequence[float]) -> int:
    offsets, most, first = sorted(moments), 0, 0
    for number, offset in enumerate(offsets):
        while offsets[first] <= offset - 1:
            first += 1
        most = max(most, number - first + 1)
    return most


Node = Mapping[str, Any]


def node_objects_to_create(entries: Iterable[Mapping[str, Any]], selector: Mapping[str, str]) -> list[Node]:
    """Return the nodes that the run creates (entries ``nodes`` of a meta/doctor.yml) as Node objects.

    They carry the labels that the pods select, as the run labels its nodes.
    """
    return [
        {"metadata": {"labels": dict(selector)}, "status": {"allocatable": dict(entry["allocatable"])}}
        for entry in entries
        if entry.get("allocatable")
        for _each in range(int(entry.get("count") or 0))
    ]


def count_node_gpus(plan: PointLoad, nodes: Sequence[Node]) -> float:
    """Return the number of GPUs of the plan's resource on the nodes."""
    names = [plan.resource] if plan.resource else list(GPU_RESOURCES)
    return sum(why_pod_waits_or_cannot_run.node_allocatable_amount(node, name) for node in nodes for name in names)


def why_capacity_is_missing(plan: PointLoad, nodes: Sequence[Node]) -> str:
    """Return why a workload of the plan can never run on these nodes, an empty string if it can."""
    reason = why_pod_waits_or_cannot_run.why_pod_is_unschedulable(plan.requests, plan.selector, nodes)
    if reason:
        return reason.replace("it asks", "a pod asks", 1)
    there = count_node_gpus(plan, nodes)
    return f"one workload wants {plan.gpus:g} GPUs, there are {there:g}" if plan.gpus > there else ""
