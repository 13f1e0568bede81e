# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The labels by which what a run created is known, and found again."""

from __future__ import annotations

RUN = "perfscale.seatrial/run"
POINT = "perfscale.seatrial/point"
INDEX = "perfscale.seatrial/index"
ROLE = "perfscale.seatrial/role"
SIMULATED = "perfscale.seatrial/simulated"
#: Pool of simulated nodes that a node belongs to.
POOL = "perfscale.seatrial/pool"
#: Point of a load that runs in a pod: of its pod and what belongs to it. What is measured has POINT.
LOAD = "perfscale.seatrial/load"
#: Which part of a run made an object that serves more than one workload.
PART = "perfscale.seatrial/part"


def of(run: str, point: str, index: int | str) -> dict[str, str]:
    """Return the labels of the workload ``index`` of a point."""
    return {RUN: run, POINT: point, INDEX: str(index)}


def selector(run: str, point: str) -> str:
    """Return the label selector of all workloads of a point and what carries their labels."""
    return f"{RUN}={run},{POINT}={point},{INDEX}"
