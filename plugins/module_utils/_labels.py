# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels that identify the objects of a run."""

from __future__ import annotations

RUN = "perfscale.seatrial/run"
POINT = "perfscale.seatrial/point"
INDEX = "perfscale.seatrial/index"
ROLE = "perfscale.seatrial/role"
SIMULATED = "perfscale.seatrial/simulated"
#: Run that added simulated GPUs to a node that exists without it.
FAKE_GPUS = "perfscale.seatrial/fake-gpus"
#: Pool of a simulated node.
POOL = "perfscale.seatrial/pool"
#: Point of a load that runs in a pod, on that pod and its objects. Measured workloads have POINT.
LOAD = "perfscale.seatrial/load"
#: Part of a run that created an object shared by several workloads.
PART = "perfscale.seatrial/part"


def of(run: str, point: str, index: int | str) -> dict[str, str]:
    """Return the labels of the workload ``index`` of a point."""
    return {RUN: run, POINT: point, INDEX: str(index)}


def selector(run: str, point: str) -> str:
    """Return the label selector of all workloads of a point and of objects with their labels."""
    return f"{RUN}={run},{POINT}={point},{INDEX}"
