#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_sizing
short_description: Compute the number of nodes for a number of users
version_added: 0.1.0
description:
  - Divides the demand of users by the capacity of a node, limit by limit, and returns the deciding limit. Queries no
    cluster.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details: It changes nothing.
  idempotent:
    support: full
options:
  users:
    description: Number of simultaneous users.
    type: int
    required: true
  user:
    description: Demand of one user.
    type: dict
    required: true
    suboptions:
      cpu:
        description: Cores.
        type: float
        required: true
      memory:
        description: GiB.
        type: float
        required: true
      pods:
        description: Pods.
        type: int
        default: 1
      volumes:
        description: Attached volumes.
        type: int
        default: 0
  instance_type:
    description:
      - Machine type of the nodes, instead of O(node), such as V(m6i.4xlarge) of AWS or V(bx2-16x64) of IBM Cloud.
    type: str
    version_added: 0.3.0
  machine_types:
    description:
      - Machine types in addition to the known ones, such as C(machine_types) of
        M(perfscale.seatrial.quads_info). An entry has C(name) and suboptions of O(node).
    type: list
    elements: dict
    default: []
    version_added: 0.3.0
  node:
    description: Capacity of one node. It is required without O(instance_type).
    type: dict
    suboptions:
      cpu:
        description: Cores.
        type: float
        required: true
      memory:
        description: GiB.
        type: float
        required: true
      reserved_cpu:
        description: Cores that are reserved for the system and its daemons.
        type: float
        default: 2
      reserved_memory:
        description: GiB that are reserved for them.
        type: float
        default: 4
      pods:
        description: Largest number of pods that the kubelet admits.
        type: int
        default: 250
      reserved_pods:
        description: Number of these that daemons use.
        type: int
        default: 15
      volumes:
        description: Largest number of attached volumes, such as V(26) on most AWS machines; V(0) means no known limit.
        type: int
        default: 0
"""

EXAMPLES = r"""
- name: Compute the nodes for 100 users
  perfscale.seatrial.node_sizing:
    users: 100
    user: {cpu: 2, memory: 8, volumes: 1}
    node: {cpu: 16, memory: 64, volumes: 26}
  register: __sizing

- name: Compute the nodes for 100 users on machines of a type
  perfscale.seatrial.node_sizing:
    users: 100
    user: {cpu: 2, memory: 8}
    instance_type: m6i.4xlarge
"""

RETURN = r"""
nodes:
  description: Required number of nodes.
  returned: success
  type: int
  sample: 15
nodes_if_split:
  description: The number if users could be split over nodes.
  returned: success
  type: int
  sample: 15
users_per_node:
  description: Number of users that fit on a node; 0 if their demand is 0.
  returned: success
  type: int
  sample: 7
decides:
  description: The deciding limit, V(cpu), V(memory), V(pods) or V(volumes).
  returned: success
  type: str
  sample: cpu
by_limit:
  description: Number of nodes that each limit alone requires.
  returned: success
  type: dict
  sample: {cpu: 15, memory: 15, pods: 1, volumes: 4}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import node_sizing

REQUIRED = {"type": "float", "required": True}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "users": {"type": "int", "required": True},
            "user": {
                "type": "dict",
                "required": True,
                "options": {
                    "cpu": REQUIRED,
                    "memory": REQUIRED,
                    "pods": {"type": "int", "default": 1},
                    "volumes": {"type": "int", "default": 0},
                },
            },
            "instance_type": {"type": "str"},
            "machine_types": {"type": "list", "elements": "dict", "default": []},
            "node": {
                "type": "dict",
                "options": {
                    "cpu": REQUIRED,
                    "memory": REQUIRED,
                    "reserved_cpu": {"type": "float", "default": 2},
                    "reserved_memory": {"type": "float", "default": 4},
                    "pods": {"type": "int", "default": 250},
                    "reserved_pods": {"type": "int", "default": 15},
                    "volumes": {"type": "int", "default": 0},
                },
            },
        },
        required_one_of=[("node", "instance_type")],
        mutually_exclusive=[("node", "instance_type")],
        supports_check_mode=True,
    )
    given = module.params

    def work(_step: Step) -> dict[str, Any]:
        user = node_sizing.UserDemand(**given["user"])
        if given["node"]:
            node = node_sizing.NodeSize(**given["node"])
        else:
            node = node_sizing.size_of(given["instance_type"], given["machine_types"])
        return {"changed": False, **node_sizing.nodes_for(given["users"], user, node)}

    ansible_module.run(module, work)


if __name__ == "__main__":
    main()
