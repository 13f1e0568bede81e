#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fake_nodes
short_description: Create simulated GPU nodes on a rehearsal cluster
version_added: 0.1.0
description:
  - Creates the nodes of a pool in parallel and waits until pods can be scheduled on all of them. KWOK simulates
    them. There is no machine and no GPU behind them, and they are labelled C(perfscale.seatrial/simulated).
  - A pool grows and shrinks to O(count), and a node of another shape is replaced. Nodes without our labels and nodes of
    another run are never removed.
  - Refuses a cluster that is not a rehearsal cluster, unless O(real_cluster) allows it. There the nodes are tainted
    with C(perfscale.seatrial/simulated), and real nodes are never changed.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description: Whether the nodes should exist.
    type: str
    choices: [present, absent]
    default: present
  pool:
    description: Name of the pool, and prefix of its nodes' names. Pools are independent of each other.
    type: str
    default: fake-gpu
  count:
    description: Number of nodes of the pool.
    type: int
    default: 4
  gpus:
    description: GPUs of each node. V(0) creates nodes without GPUs.
    type: int
    default: 8
  product:
    description: Value of the label C(nvidia.com/gpu.product).
    type: str
    default: NVIDIA-A100-SXM4-80GB
  gpu_memory_mib:
    description: Memory of each GPU in MiB, value of the label C(nvidia.com/gpu.memory).
    type: int
    default: 81920
  cpu:
    description: Processors of each node.
    type: int
    default: 96
  memory_gib:
    description: Memory of each node in GiB.
    type: int
    default: 1024
  pods:
    description: Maximum number of pods of each node.
    type: int
    default: 250
  labels:
    description: Further labels of the nodes.
    type: dict
    default: {}
  add_to:
    description:
      - Label selector of existing nodes. O(gpus) GPUs are added to the status of each, whose kubelet keeps them; there
        is no device behind them. The label C(nvidia.com/gpu.product) begins with C(simulated-), and the label
        C(perfscale.seatrial/fake-gpus) names the run. Nodes with other GPUs are refused.
      - With O(state=absent) all GPUs that the run added are removed, whatever is given here.
    type: str
    default: ''
  operator_pools:
    description:
      - Existing nodes that get GPUs from the fake-gpu-operator of Run:ai, which is then installed in the namespace
        C(seatrial-fake-gpu). Refused on a cluster with real GPUs or with a GPU operator.
      - With O(state=absent) the installation of the run is removed, whatever is given here.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the pool.
        type: str
        required: true
      node_selector:
        description: Label selector of its nodes.
        type: str
        required: true
      gpus:
        description: GPUs of each node.
        type: int
        default: 8
      product:
        description: Product of the GPUs. The label C(nvidia.com/gpu.product) begins with C(simulated-).
        type: str
        default: NVIDIA-A100-SXM4-80GB
      memory_mib:
        description: Memory of each GPU in MiB.
        type: int
        default: 81920
  operator_version:
    description: Release of the fake-gpu-operator, the tag of its images.
    type: str
    default: 0.2.0
  operator_registry:
    description: Where its images C(status-updater) and C(device-plugin) are.
    type: str
    default: ghcr.io/run-ai/fake-gpu-operator
  devices:
    description:
      - Publish the GPUs of the nodes also as devices of dynamic resource allocation, one C(ResourceSlice) a node,
        of the driver C(gpu.perfscale.seatrial). They have the attributes C(type), C(productName), C(index), C(numaNode)
        and C(simulated), and the capacity C(memory). Requires Kubernetes 1.34 or newer.
    type: bool
    default: false
  partitions:
    description:
      - Partitions that each GPU can be divided into, published as further devices of O(devices), such as sevenths. The
        whole GPU and its partitions share counters, so that a claim gets only what the others have left
        (C(sharedCounters) and C(consumesCounters) of a C(ResourceSlice)). A GPU has as many partitions of a kind as it
        has room for. They have the attributes C(type) V(mig), C(profile), C(parentIndex), and the capacities C(memory)
        and C(slices). Requires Kubernetes 1.36 or newer.
    type: list
    elements: dict
    default: []
    suboptions:
      profile:
        description: Name of the kind of partition, by which claims select it.
        type: str
        required: true
      slices:
        description: How many of the O(partition_slices) of a GPU it takes.
        type: int
        required: true
      memory_mib:
        description: How much of the O(gpu_memory_mib) of a GPU it takes.
        type: int
        required: true
  partition_slices:
    description: Compute slices of each GPU, of which O(partitions) take some.
    type: int
    default: 7
  topology:
    description:
      - Levels of the topology of the nodes, widest first. Consecutive nodes share the value of a level's label, such as
        C(rack-0) for the first ones of a label that ends with C(rack).
    type: list
    elements: dict
    default: []
    suboptions:
      label:
        description: Label of the nodes.
        type: str
        required: true
      nodes:
        description: Number of nodes that share a value. It must divide that of the level before.
        type: int
        required: true
  run_id:
    description: Run to which the nodes belong; empty for none.
    type: str
    default: ''
  real_cluster:
    description: Allow tainted nodes on a cluster that is not a rehearsal cluster.
    type: bool
    default: false
  beside_workloads:
    description: Allow them also while pods there use or wait for real GPUs.
    type: bool
    default: false
  kwok_image:
    description: Image of KWOK to run in that cluster. If empty, a KWOK that manages annotated nodes must run there.
    type: str
    default: ''
  kwok_stages:
    description: Stages of that KWOK, objects of kind C(Stage), as a YAML list or as documents.
    type: str
    default: ''
  timeout:
    description: How long to wait for all nodes, in seconds.
    type: int
    default: 120
seealso:
  - module: perfscale.seatrial.rehearsal_cluster
"""

EXAMPLES = r"""
- name: Create 1,000 nodes with 8 GPUs each
  perfscale.seatrial.fake_nodes:
    kubeconfig: "{{ rehearsal_acquired.kubeconfig }}"
    count: 1000
"""

RETURN = r"""
created:
  description: Number of created nodes.
  returned: success
  type: int
removed:
  description: Number of removed nodes, including replaced ones.
  returned: success
  type: int
nodes:
  description: Number of nodes of the pool.
  returned: success
  type: int
gpus:
  description: Number of GPUs of the pool.
  returned: success
  type: int
gpus_added_to:
  description: Names of existing nodes to which GPUs were added.
  returned: success
  type: list
  elements: str
seconds:
  description: Seconds until all nodes were ready.
  returned: when O(state=present), not in check mode
  type: float
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu.fake_gpu_operator import (
    FakeGpuOperatorSpec,
    NodePool,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu.kwok_on_real_cluster import (
    FakeNodePermission,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu.simulated_gpu_slices import (
    GpuPartition,
    GpuPartitioning,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu.simulated_node_pool import (
    TopologyLevel,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            **ansible_module.CLUSTER,
            "pool": {"type": "str", "default": "fake-gpu"},
            "count": {"type": "int", "default": 4},
            "gpus": {"type": "int", "default": 8},
            "product": {"type": "str", "default": "NVIDIA-A100-SXM4-80GB"},
            "gpu_memory_mib": {"type": "int", "default": 81920},
            "cpu": {"type": "int", "default": 96},
            "memory_gib": {"type": "int", "default": 1024},
            "pods": {"type": "int", "default": 250},
            "labels": {"type": "dict", "default": {}},
            "add_to": {"type": "str", "default": ""},
            "operator_pools": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "node_selector": {"type": "str", "required": True},
                    "gpus": {"type": "int", "default": 8},
                    "product": {"type": "str", "default": "NVIDIA-A100-SXM4-80GB"},
                    "memory_mib": {"type": "int", "default": 81920},
                },
            },
            "operator_version": {"type": "str", "default": "0.2.0"},
            "operator_registry": {"type": "str", "default": "ghcr.io/run-ai/fake-gpu-operator"},
            "devices": {"type": "bool", "default": False},
            "partitions": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "profile": {"type": "str", "required": True},
                    "slices": {"type": "int", "required": True},
                    "memory_mib": {"type": "int", "required": True},
                },
            },
            "partition_slices": {"type": "int", "default": 7},
            "topology": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {"label": {"type": "str", "required": True}, "nodes": {"type": "int", "required": True}},
            },
            "run_id": {"type": "str", "default": ""},
            "real_cluster": {"type": "bool", "default": False},
            "beside_workloads": {"type": "bool", "default": False},
            "kwok_image": {"type": "str", "default": ""},
            "kwok_stages": {"type": "str", "default": ""},
            "timeout": {"type": "int", "default": 120},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        supports_check_mode=True,
    )
    params = module.params
    shape = simulated_node_pool.NodeShape(
        **{name: params[name] for name in simulated_node_pool.NodeShape.__dataclass_fields__}
    )
    labels = {name: str(value) for name, value in params["labels"].items()}
    permission = FakeNodePermission(
        params["real_cluster"], params["beside_workloads"], params["kwok_image"], params["kwok_stages"]
    )
    operator = FakeGpuOperatorSpec(
        tuple(NodePool(**pool) for pool in params["operator_pools"]),
        params["operator_version"],
        params["operator_registry"],
    )
    spec = simulated_node_pool.NodePoolSpec(
        params["count"],
        shape,
        params["pool"],
        params["run_id"],
        labels,
        permission,
        params["add_to"],
        operator,
        params["devices"],
        tuple(TopologyLevel(**level) for level in params["topology"]),
        GpuPartitioning(
            params["partition_slices"], tuple(GpuPartition(**partition) for partition in params["partitions"])
        ),
    )
    establish = fake_nodes.create_fake_nodes if params["state"] == "present" else fake_nodes.remove_fake_nodes

    def work(step: StepDirectory) -> dict[str, Any]:
        say = step.reporter(params["progress_file"], "nodes")
        with Client.from_kubeconfig(params["kubeconfig"], params["context"]) as client, step.timed("cluster", "nodes"):
            return establish(client, spec, params["timeout"], say, module.check_mode)

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
