#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_scaling
short_description: Add nodes for the duration of a run
version_added: 0.1.0
description:
  - Scales a MachineSet (C(machine.openshift.io/v1beta1)), or creates one like a set of workers with another instance
    type, and waits until all of its nodes are Ready. Dedicates nodes to namespaces.
  - The previous state is written to O(snapshot) before any change, and restored from it.
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
    support: full
  idempotent:
    support: full
options:
  state:
    description: V(present) scales, V(absent) restores the snapshot, V(dedicated) only dedicates nodes to namespaces.
    type: str
    choices: [present, absent, dedicated]
    default: present
  snapshot:
    description: File for the previous state.
    type: path
    required: true
  run_id:
    description: The run, which is recorded in an annotation of a new set.
    type: str
    required: true
  replicas:
    description: Number of machines that the set should have.
    type: int
    default: 0
  name:
    description: Name of the MachineSet. If it does not exist and O(instance_type) is set, it is created.
    type: str
    default: ''
  instance_type:
    description: Instance type of the machines. The first set with this type is scaled; without one, a set is created.
    type: str
    default: ''
  base:
    description: MachineSet that a new one is derived from; empty means the first set of workers.
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
    description: Disk size of the machines of a new set, in GiB; V(0) keeps the size of the base.
    type: int
    default: 0
  labels:
    description: Labels of the nodes of a new set.
    type: dict
    default: {}
  dedicated:
    description: Namespaces whose pods run on these nodes and tolerate the taint.
    type: list
    elements: str
    default: []
  selector:
    description: Label of the nodes for O(dedicated), C(<key>=<value>).
    type: str
    default: ''
  timeout:
    description: Timeout for nodes to become Ready, or for machines to be deleted, in seconds.
    type: float
    default: 3600
"""

EXAMPLES = r"""
- name: Add four GPU nodes
  perfscale.seatrial.node_scaling:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_id: "{{ run_id }}"
    snapshot: "{{ run_dir }}/scaling.json"
    instance_type: g5.2xlarge
    replicas: 4
    taint: only-users=true:NoSchedule

- name: Restore the previous state
  perfscale.seatrial.node_scaling:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_id: "{{ run_id }}"
    snapshot: "{{ run_dir }}/scaling.json"
    state: absent
"""

RETURN = r"""
name:
  description: The MachineSet.
  returned: when O(state=present)
  type: str
before:
  description: Number of machines that it had; null if it was created.
  returned: when O(state=present)
  type: int
nodes:
  description: Its nodes, all of them Ready.
  returned: when O(state=present)
  type: list
  elements: str
names:
  description: The restored MachineSets.
  returned: when O(state=absent)
  type: list
  elements: str
left:
  description: What was left unchanged, because somebody else has changed it since.
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
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_files import Step


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **_common_options.CLUSTER,
            "state": {"type": "str", "choices": ["present", "absent", "dedicated"], "default": "present"},
            "snapshot": {"type": "path", "required": True},
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
        path = Path(given["snapshot"]).absolute()
        with (
            Client.from_kubeconfig(given["kubeconfig"], given["context"], timeout=30) as client,
            step.timed("cluster", "nodes"),
        ):
            scaler = node_scaler.NodeScaler(client, path, given["run_id"], say)
            result: dict[str, Any]
            if given["state"] == "absent":
                restored = dedicated_namespaces.restore(client, path, scaler.diff, check)
                result = scaler.restore(given["timeout"], check)
                return {**result, "changed": result["changed"] or restored, "diff": scaler.diff.shown()}
            result = {"changed": False}
            if given["state"] == "present":
                names = ("replicas", "name", "instance_type", "base", "taint", "spot", "disk", "labels")
                result = scaler.scale(
                    machine_sets.MachineSetSpec(**{one: given[one] for one in names}), given["timeout"], check
                )
            names = given["dedicated"]
            if names:
                asked = dedicated_namespaces.dedicate(
                    client, path, names, given["selector"], given["taint"], scaler.diff, check
                )
                result = {**result, "changed": result["changed"] or asked}
            return {**result, "diff": scaler.diff.shown()}

    _module_main.run(module, work)


if __name__ == "__main__":
    main()
