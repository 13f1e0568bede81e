#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_scaling
short_description: Have more nodes for the time of a run
version_added: 0.1.0
description:
  - Scales a MachineSet (C(machine.openshift.io/v1beta1)), or makes one like a set of workers with another instance
    type, and waits until all of its nodes are Ready. Gives nodes to some namespaces alone.
  - What was there before is written into O(memo) before anything changes, and put back from it.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._step
  - perfscale.seatrial._step.progress
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  state:
    description: V(present) scales, V(absent) puts back what the memo says, V(dedicated) only dedicates namespaces.
    type: str
    choices: [present, absent, dedicated]
    default: present
  memo:
    description: File that holds what was before.
    type: path
    required: true
  run_id:
    description: The run, which an annotation of a new set names.
    type: str
    required: true
  replicas:
    description: How many machines the set is to have.
    type: int
    default: 0
  name:
    description: Name of the MachineSet. With O(instance_type) it is made when it is not there.
    type: str
    default: ''
  instance_type:
    description: Instance type of the machines. The first set that has it is scaled, else one is made.
    type: str
    default: ''
  base:
    description: MachineSet that a new one is derived from; the first of workers when empty.
    type: str
    default: ''
  taint:
    description: Taint of the nodes of a new set, C(<key>[=<value>]:<effect>). They get a label of this key and value.
    type: str
    default: ''
  spot:
    description: Whether machines of a new set are spot instances.
    type: bool
    default: false
  disk:
    description: Size of the disk of machines of a new set in GiB; as the base has it when V(0).
    type: int
    default: 0
  labels:
    description: Labels of the nodes of a new set.
    type: dict
    default: {}
  dedicated:
    description: Namespaces whose pods are to go to these nodes and bear the taint.
    type: list
    elements: str
    default: []
  selector:
    description: Labels of the nodes that O(dedicated) is about, C(<key>=<value>).
    type: str
    default: ''
  timeout:
    description: How long to wait for nodes, or for machines to be gone, in seconds.
    type: float
    default: 3600
"""

EXAMPLES = r"""
- name: Have four GPU nodes
  perfscale.seatrial.node_scaling:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_id: "{{ run_id }}"
    memo: "{{ run_dir }}/scaling.json"
    instance_type: g5.2xlarge
    replicas: 4
    taint: only-users=true:NoSchedule

- name: Put back what was there
  perfscale.seatrial.node_scaling:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_id: "{{ run_id }}"
    memo: "{{ run_dir }}/scaling.json"
    state: absent
"""

RETURN = r"""
name:
  description: The MachineSet.
  returned: when O(state=present)
  type: str
before:
  description: How many machines it had; null when it was made.
  returned: when O(state=present)
  type: int
nodes:
  description: Its nodes, all of them Ready.
  returned: when O(state=present)
  type: list
  elements: str
names:
  description: The MachineSets that were put back.
  returned: when O(state=absent)
  type: list
  elements: str
left:
  description: What was left as it is, because somebody else has changed it since.
  returned: when O(state=absent)
  type: list
  elements: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._scaling import (
    dedicated_namespaces,
    machine_sets,
    node_scaler,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **_common_options.CLUSTER,
            "state": {"type": "str", "choices": ["present", "absent", "dedicated"], "default": "present"},
            "memo": {"type": "path", "required": True},
            "run_id": {"type": "str", "required": True},
            "replicas": {"type": "int", "default": 0},
            **{name: {"type": "str", "default": ""} for name in ("name", "instance_type", "base", "taint", "selector")},
            "spot": {"type": "bool", "default": False},
            "disk": {"type": "int", "default": 0},
            "labels": {"type": "dict", "default": {}},
            "dedicated": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "float", "default": 3600},
            **_common_options.STEP,
            **_common_options.PROGRESS,
        },
        supports_check_mode=True,
    )
    given, check = module.params, module.check_mode

    def work(step: Step) -> dict[str, Any]:
        say = step.reporter(given["progress_file"], "nodes")
        path = Path(given["memo"]).absolute()
        with (
            Client.from_kubeconfig(given["kubeconfig"], given["context"], timeout=30) as client,
            step.timed("cluster", "nodes"),
        ):
            there = node_scaler.NodeScaler(client, path, given["run_id"], say)
            if given["state"] == "absent":
                restored = dedicated_namespaces.restore(client, path, check)
                result = there.put_back(given["timeout"], check)
                return {**result, "changed": result["changed"] or restored}
            result = {"changed": False}
            if given["state"] == "present":
                names = ("replicas", "name", "instance_type", "base", "taint", "spot", "disk", "labels")
                result = there.scale(
                    machine_sets.MachineSetSpec(**{one: given[one] for one in names}), given["timeout"], check
                )
            names = given["dedicated"]
            if names:
                asked = dedicated_namespaces.dedicate(client, path, names, given["selector"], given["taint"], check)
                result = {**result, "changed": result["changed"] or asked}
            return result

    _module_main.run(module, work)


if __name__ == "__main__":
    main()
