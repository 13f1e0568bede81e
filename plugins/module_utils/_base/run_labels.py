# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels that identify the objects of a run."""

from __future__ import annotations

#: Beginning of every label of this collection.
PREFIX = "perfscale.seatrial/"
RUN = "perfscale.seatrial/run"
POINT = "perfscale.seatrial/point"
INDEX = "perfscale.seatrial/index"
ROLE = "perfscale.seatrial/role"
SIMULATED = "perfscale.seatrial/simulated"
#: Beginning of the product of a GPU without a device.
SIMULATED_PRODUCT = "simulated-"
#: Run that added simulated GPUs to a node that exists without it.
FAKE_GPUS = "perfscale.seatrial/fake-gpus"
#: Pool of a node of a fake-gpu-operator, whose GPUs may have the names of real products.
FAKE_GPU_OPERATOR = "run.ai/simulated-gpu-node-pool"
#: Pool of a simulated node.
POOL = "perfscale.seatrial/pool"
#: Point of a load that runs in a pod, on that pod and its objects. Measured workloads have POINT.
LOAD = "perfscale.seatrial/load"
#: Number of the client that sent a workload, of a load by several clients; also on the objects of that client.
CLIENT = "perfscale.seatrial/client"
#: Annotation: number of GPUs that a pod claims; its resources do not have them.
GPUS = "perfscale.seatrial/gpus"
#: Annotation of a node, or of a pod on a lost node: the failure that was injected into it.
FAILURE = "perfscale.seatrial/failure"
#: Annotation of a pod on a lost node whose containers its simulator has stopped.
HELD = "perfscale.seatrial/held"
#: What stands for the number of a workload in names and namespaces of a plan's header.
INDEX_PLACEHOLDER = "{index}"
#: Part of a run that created an object shared by several workloads.
PART = "perfscale.seatrial/part"


def workload_labels(run: str, point: str, index: int | str) -> dict[str, str]:
    """Return the labels of the workload ``index`` of a point."""
    return {RUN: run, POINT: point, INDEX: str(index)}


def labels_of_shared_objects(run: str, point: str) -> dict[str, str]:
    """Return the labels of objects that the workloads of a point share."""
    return {RUN: run, POINT: point, PART: "prepare"}


def client_label(client: int | None) -> dict[str, str]:
    """Return the label of a client of several, none for the only one."""
    return {} if client is None else {CLIENT: str(client)}


def workload_label_selector(run: str, point: str, client: int | None = None) -> str:
    """Return the label selector of all workloads of a point, or of one client, and of objects with their labels."""
    mine = "" if client is None else f",{CLIENT}={client}"
    return f"{RUN}={run},{POINT}={point},{INDEX}{mine}"
