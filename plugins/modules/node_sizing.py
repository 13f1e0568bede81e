#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_sizing
short_description: Compute how many nodes a number of users needs
version_added: 0.1.0
description:
  - Divides what users need by what a node has room for, limit by limit, and says which limit decides. Asks nobody.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  users:
    description: How many users there are at once.
    type: int
    required: true
  user:
    description: What one user needs.
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
        description: Volumes that are attached.
        type: int
        default: 0
  node:
    description: What one node has.
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
      reserved_cpu:
        description: Cores that the system and its daemons have for themselves.
        type: float
        default: 2
      reserved_memory:
        description: GiB that they have for themselves.
        type: float
        default: 4
      pods:
        description: How many pods the kubelet admits.
        type: int
        default: 250
      reserved_pods:
        description: How many of these are taken by daemons.
        type: int
        default: 15
      volumes:
        description: How many volumes can be attached, such as V(26) to most machines of AWS; V(0) is no known limit.
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
"""

RETURN = r"""
nodes:
  description: How many nodes are needed.
  returned: success
  type: int
  sample: 15
nodes_if_split:
  description: How many it would be if users could be split over nodes.
  returned: success
  type: int
  sample: 15
users_per_node:
  description: How many users fit on a node; 0 when they need nothing.
  returned: success
  type: int
  sample: 7
decides:
  description: The limit that decides, V(cpu), V(memory), V(pods) or V(volumes).
  returned: success
  type: str
  sample: cpu
by_limit:
  description: How many nodes each limit alone asks for.
  returned: success
  type: dict
  sample: {cpu: 15, memory: 15, pods: 1, volumes: 4}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils import _module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._scaling import node_sizing
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step

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
            "node": {
                "type": "dict",
                "required": True,
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
        supports_check_mode=True,
    )
    given = module.params

    def work(_step: Step) -> dict[str, Any]:
        user, node = node_sizing.UserDemand(**given["user"]), node_sizing.NodeSize(**given["node"])
        return {"changed": False, **node_sizing.nodes_for(given["users"], user, node)}

    _module_main.run(module, work)


if __name__ == "__main__":
    main()
