# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KPI functions of where pods were placed in the topology of the nodes: racks, blocks, hosts.

The plan states the topology as ``topology`` of the parameter ``scheduling`` of its first template: ``{levels: [block,
rack, host], nodes: {name: {domains: [value of each level], allocatable: {resource: quantity}}}}``. A domain is the
path of values from the widest level on, because racks of two blocks may have the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import parse_kube_quantity

from ..timeline.pod_lifetimes import SUCCEEDED
from .point_data import KpiValue, NoFigure, PointData, kpi_function
from .scheduler_functions import WorkloadGangs, gangs_of_point, seconds_until_load_ended, simulated_kpi_arguments

STATISTICS = ("mean", "max", "min")
PLACED = "pods_scheduled"
#: Free amounts that differ by less than this share of a domain are equal: sums of decimal fractions are not exact.
ROUNDING = 1e-9


class NodeTopology:
    """The levels of a topology, and for each of them the domain of every node and the capacity of every domain."""

    def __init__(self, stated: Mapping[str, Any], resource: str) -> None:
        self.levels = [str(level) for level in stated["levels"]]
        self.resource = resource
        self.nodes: dict[str, tuple[str, ...]] = {}
        self.size: dict[str, float] = {}
        for name, node in stated["nodes"].items():
            self.nodes[name] = tuple(str(value) for value in node["domains"])
            self.size[name] = parse_kube_quantity(node["allocatable"].get(resource) or "0")

    def domain(self, node: str, level: str) -> tuple[str, ...]:
        """Return the domain of a node at a level."""
        return self.nodes[node][: self.levels.index(level) + 1]

    def capacity(self, level: str) -> dict[tuple[str, ...], float]:
        """Return the capacity of each domain of a level."""
        sizes: dict[tuple[str, ...], float] = {}
        for node, size in self.size.items():
            domain = self.domain(node, level)
            sizes[domain] = sizes.get(domain, 0.0) + size
        return sizes

    def fewest_domains(self, level: str, request: float, pods: int) -> int | None:
        """Return how many domains that many pods need at least on an empty cluster; None if they don't fit."""
        rooms: dict[tuple[str, ...], int] = {}
        for node, size in self.size.items():
            domain = self.domain(node, level)
            rooms[domain] = rooms.get(domain, 0) + (int(size / request + ROUNDING) if request > 0 else pods)
        left = pods
        for number, room in enumerate(sorted(rooms.values(), reverse=True), 1):
            left -= room
            if left <= 0:
                return number
        return None


@dataclass(frozen=True)
class FreeSlots:
    """Free resources of a level over time, as steps: from ``moments[i]`` on, in order.

    largest: the largest free amount in one domain. fragmentation: what is missing from ``largest`` to the free amount
    of all domains, or to a whole domain if that is smaller, as a share of 0 to 1; NaN while nothing is free.
    """

    moments: list[float]
    largest: list[float]
    total: list[float]
    fragmentation: list[float]

    def mean(self, values: list[float], until: float) -> float | None:
        """Return the mean over the time from 0 until ``until`` in which there was a value."""
        seconds = area = 0.0
        for place, value in enumerate(values):
            begin = max(self.moments[place], 0.0)
            end = min(self.moments[place + 1] if place + 1 < len(values) else until, until)
            if value == value and end > begin:
                seconds += end - begin
                area += value * (end - begin)
        return area / seconds if seconds else None


def topology_of_point(data: PointData) -> NodeTopology | None:
    """Return the topology of the nodes of a point, computed once; None if the plan does not state one."""
    gangs = gangs_of_point(data)
    if gangs is None or not gangs.stated_topology:
        return None
    if gangs.topology is None:
        gangs.topology = NodeTopology(gangs.stated_topology, gangs.bottleneck() or "")
    topology: NodeTopology = gangs.topology
    return topology


def level_names_of_topology(data: PointData) -> list[str]:
    """Return the names of the levels of the topology, the widest first."""
    topology = topology_of_point(data)
    return topology.levels if topology else []


def _needed_topology(data: PointData, level: str) -> tuple[WorkloadGangs, NodeTopology]:
    gangs, topology = gangs_of_point(data), topology_of_point(data)
    if gangs is None or topology is None:
        raise NoFigure(KpiValue(None, 0, data.of, note="the plan does not state the topology of the nodes"))
    if level not in topology.levels:
        raise formats.unknown_value_error("level", level, topology.levels)
    return gangs, topology


def count_domains_of_gangs(data: PointData, level: str) -> list[int | None]:
    """Return in how many domains of a level the pods of each gang were that ran as a whole; None for other gangs."""
    gangs, topology = _needed_topology(data, level)
    spans: list[int | None] = []
    for row in range(data.of):
        nodes = [life.node for life in gangs.lives[row] if life.end in ("", SUCCEEDED) and life.node]
        known = [topology.domain(node, level) for node in nodes if node in topology.nodes]
        whole = isfinite(gangs.done[row]) and len(known) == len(nodes) >= gangs.size[row]
        spans.append(len(set(known)) if whole else None)
    return spans


def free_slots_over_time(data: PointData, level: str) -> FreeSlots:
    """Return what pods of the load left free in the domains of a level. Raises NoFigure without a topology."""
    gangs, topology = _needed_topology(data, level)
    known: FreeSlots | None = gangs.free_slots.get(level)
    if known is None:
        known = gangs.free_slots[level] = _free_slots(data, gangs, topology, level)
    return known


def _free_slots(data: PointData, gangs: WorkloadGangs, topology: NodeTopology, level: str) -> FreeSlots:
    capacity = topology.capacity(level)
    place_of = {domain: place for place, domain in enumerate(capacity)}
    free = data.np.array(list(capacity.values()))
    whole = float(free.max(initial=0.0))
    changes: dict[float, list[tuple[int, float]]] = {0.0: []}
    for row in range(data.of):
        request = gangs.request[row].get(topology.resource, 0.0)
        for life in gangs.lives[row]:
            held = gangs.held(row, life)
            if held is not None and life.node in topology.nodes:
                place = place_of[topology.domain(life.node, level)]
                changes.setdefault(held[0], []).append((place, -request))
                changes.setdefault(held[1], []).append((place, request))
    slots = FreeSlots([], [], [], [])
    for moment in sorted(changes):
        for place, amount in changes[moment]:
            free[place] += amount
        largest, total = float(free.max(initial=0.0)), float(free.sum())
        best = min(total, whole)
        slots.moments.append(moment)
        slots.largest.append(largest)
        slots.total.append(total)
        slots.fragmentation.append(max(1 - largest / best, 0.0) if best > whole * ROUNDING else nan)
    return slots


def _statistic(name: str, values: list[Any]) -> float:
    if name not in STATISTICS:
        raise formats.unknown_value_error("statistic", name, STATISTICS)
    return float({"mean": sum(values) / len(values), "max": max(values), "min": min(values)}[name])


def _placement_arguments(data: PointData) -> dict[str, Any]:
    return data.provenance(PLACED) if data.knows(PLACED) else {}


def _note_of_gangs(gangs: WorkloadGangs, spans: list[int | None]) -> str:
    """Return how many gangs ran as a whole, but not on nodes of the topology alone."""
    apart = sum(span is None and isfinite(done) for span, done in zip(spans, gangs.done, strict=True))
    return (
        f"{formats.format_count(apart, 'gang')} also had pods on nodes without the labels of the topology"
        if apart
        else ""
    )


@kpi_function
def domains_spanned(data: PointData, level: str, statistic: str = "mean") -> KpiValue:
    """Mean, ``max`` or ``min`` of the number of domains of a level in which the pods of a gang were.

    Over the gangs that ran as a whole, by the nodes of the pods that were not lost.
    """
    gangs, _topology = _needed_topology(data, level)
    spans = count_domains_of_gangs(data, level)
    note = _note_of_gangs(gangs, spans)
    known = [span for span in spans if span is not None]
    if not known:
        return KpiValue(None, 0, data.of, note=note or "no gang ran as a whole", **_placement_arguments(data))
    value = _statistic(statistic, known)
    values = data.np.array([nan if span is None else float(span) for span in spans])
    interval = data.bootstrap(data.of, value, lambda drawing: drawing.means(values)) if statistic == "mean" else {}
    labels = {"level": level, "statistic": statistic}
    return KpiValue(value, len(known), data.of, note=note, labels=labels, **interval, **_placement_arguments(data))


@kpi_function
def compact_gangs(data: PointData, level: str) -> KpiValue:
    """Share of gangs, in percent, that were in as few domains of a level as they need on an empty cluster."""
    gangs, topology = _needed_topology(data, level)
    spans = count_domains_of_gangs(data, level)
    note = _note_of_gangs(gangs, spans)
    compact = []
    fewest_of: dict[tuple[float, int], int | None] = {}
    for row, span in enumerate(spans):
        kind = gangs.request[row].get(topology.resource, 0.0), gangs.size[row]
        if kind not in fewest_of:
            fewest_of[kind] = topology.fewest_domains(level, *kind)
        fewest = fewest_of[kind]
        compact.append(nan if span is None or fewest is None else float(span <= fewest))
    values = data.np.array(compact)
    known = int((~data.np.isnan(values)).sum())
    if not known:
        if any(span is not None for span in spans):
            note = f"the nodes have no room for such a gang: too little {topology.resource}"
        return KpiValue(None, 0, data.of, note=note or "no gang ran as a whole", **_placement_arguments(data))
    value = 100 * float(data.np.nanmean(values))
    interval = data.bootstrap(data.of, value, lambda drawing: 100 * drawing.means(values))
    labels = {"level": level}
    return KpiValue(value, known, data.of, note=note, labels=labels, **interval, **_placement_arguments(data))


@kpi_function
def largest_free_slot(data: PointData, level: str, statistic: str = "mean") -> KpiValue:
    """Mean over time, or ``min``, of the largest amount of the scarcest resource that was free in one domain."""
    gangs, topology = _needed_topology(data, level)
    slots = free_slots_over_time(data, level)
    until = seconds_until_load_ended(data)
    if statistic == "mean":
        value = slots.mean(slots.largest, until)
    else:
        value = _statistic(statistic, slots.largest)
    labels = {"level": level, "statistic": statistic, "resource": topology.resource}
    n = sum(1 for lives in gangs.lives if lives)
    return KpiValue(value, n, data.of, labels=labels, **simulated_kpi_arguments(data))


@kpi_function
def fragmentation(data: PointData, level: str) -> KpiValue:
    """Fragmentation of the free resources at a level, mean over the time of the load in which any were free, percent.

    0 if the largest free slot in one domain is as large as all free resources together, or a whole domain.
    """
    gangs, topology = _needed_topology(data, level)
    slots = free_slots_over_time(data, level)
    mean = slots.mean(slots.fragmentation, seconds_until_load_ended(data))
    labels = {"level": level, "resource": topology.resource}
    note = "nothing was free" if mean is None else ""
    value = None if mean is None else 100 * mean
    n = sum(1 for lives in gangs.lives if lives)
    return KpiValue(value, n, data.of, labels=labels, note=note, **simulated_kpi_arguments(data))
