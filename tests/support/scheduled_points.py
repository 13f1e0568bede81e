# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Points of project scheduler for tests of figures: workloads, their pods and nodes, without any file."""

from __future__ import annotations

from math import nan

from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_data import PointData, PointExtras
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.pod_lifetimes import (
    PodLifetime,
    PodLifetimes,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import (
    MOMENTS,
    TimelineTable,
    create_empty_column,
)

GPU = "nvidia.com/gpu"
START = 100.0


def at(moment: float | None) -> tuple[float, float]:
    return (nan, nan) if moment is None else (moment, moment)


def pod(
    index: int,
    scheduled: float,
    running: float | None,
    ended: float | None,
    end: str = "succeeded",
    node: str = "",
) -> PodLifetime:
    return PodLifetime(index, at(scheduled), at(running), at(ended), end if ended is not None else "", node)


def world(
    rows: list[dict], pods: list[PodLifetime], horizon: float = 100.0, told: dict | None = None, **more
) -> PointData:
    """A point. rows: sent, ended (None: unfinished) and template; each template requests one GPU per pod."""
    stages = [{"name": "succeeded", "kind": "Job", "writer": "controller", "simulated": False, "ends": "succeeded"}]
    header = {
        "start": START,
        "end": START + horizon,
        "planned": len(rows),
        "stages": stages,
        "gaps": [],
        "schema": "timeline/1",
    }
    table = TimelineTable(header, index=list(range(len(rows))))
    table.template = [one.get("template", "a") for one in rows]
    table.outcome = ["succeeded" if one["ended"] is not None else "unfinished" for one in rows]
    table.moments = {name: create_empty_column(len(rows)) for name in MOMENTS}
    table.earliest, table.latest = (
        {"succeeded": create_empty_column(len(rows))},
        {"succeeded": create_empty_column(len(rows))},
    )
    for row, one in enumerate(rows):
        table.moments["sent"][row] = START + one["sent"]
        if one["ended"] is not None:
            table.earliest["succeeded"][row] = table.latest["succeeded"][row] = START + one["ended"]
    sizes = more.get("sizes", {})
    templates = [
        {
            "name": name,
            "parameters": {
                "scheduling": {
                    "queue": name,
                    "priority": f"p-{name}",
                    "pods": sizes.get(name, 1),
                    "requests": {GPU: "1", "cpu": "500m"},
                    "capacity": more.get("capacity", {GPU: str(more.get("gpus", 4)), "cpu": "100", "memory": "1Gi"}),
                    "weights": more.get("weights", {}),
                    "quotas": more.get("quotas", {}),
                    **({"topology": more["topology"]} if more.get("topology") and not number else {}),
                }
            },
        }
        for number, name in enumerate(sorted(set(table.template), reverse=True))  # as in a plan: only the first has it
    ]
    lives = PodLifetimes(pods, {"preempted": [], "evicted": [], **(told or {})}, {"templates": templates})
    return PointData(table, PointExtras(lives=lambda: lives))
