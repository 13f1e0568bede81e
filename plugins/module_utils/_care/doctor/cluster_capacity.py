# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a cluster has capacity for the workloads of a plan, including the nodes that the run creates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.describe_cluster import GPU_RESOURCES
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import pods

from .load_duration_estimate import PointLoad

Node = Mapping[str, Any]


def created_nodes(entries: Iterable[Mapping[str, Any]], selector: Mapping[str, str]) -> list[Node]:
    """Return the nodes that the run creates (entries ``nodes`` of a meta/doctor.yml) as Node objects.

    They carry the labels that the pods select, as the run labels its nodes.
    """
    return [
        {"metadata": {"labels": dict(selector)}, "status": {"allocatable": dict(one["allocatable"])}}
        for one in entries
        if one.get("allocatable")
        for _each in range(int(one.get("count") or 0))
    ]


def gpus(plan: PointLoad, nodes: Sequence[Node]) -> float:
    """Return the number of GPUs of the plan's resource on the nodes."""
    names = [plan.resource] if plan.resource else list(GPU_RESOURCES)
    return sum(pods.allocatable(node, name) for node in nodes for name in names)


def lacking(plan: PointLoad, nodes: Sequence[Node]) -> str:
    """Return why a workload of the plan can never run on these nodes, an empty string if it can."""
    found = pods.why_unschedulable(plan.requests, plan.selector, nodes)
    if found:
        return found.replace("it asks", "a pod asks", 1)
    there = gpus(plan, nodes)
    return f"one workload wants {plan.gpus:g} GPUs, there are {there:g}" if plan.gpus > there else ""
