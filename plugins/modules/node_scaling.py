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
  sets:
    description:
      - The sets to scale, together, instead of the one that the options of the same names describe. All are checked
        before the first is changed.
    type: list
    elements: dict
    default: []
    version_added: 1.0.0
    suboptions:
      cluster:
        description:
          - The cluster of the set. On V(driver), O(sets[].user) is by default a client of 0.25 cores and 2 GiB.
        type: str
        choices: [sutest, driver]
        default: sutest
      replicas:
        description: Number of machines. Not used with O(sets[].users).
        type: int
        default: 0
      users:
        description: Compute the number of machines for this number of simultaneous users.
        type: int
        default: 0
      user:
        description: "Demand of one user: C(cpu) (cores), C(memory) (GiB), and optionally C(pods) and C(volumes)."
        type: dict
      node:
        description:
          - "Capacity of a machine: C(cpu) (cores), C(memory) (GiB), and optionally C(reserved_cpu), C(reserved_memory),
            C(pods), C(reserved_pods) and C(volumes). Default is that of its type."
        type: dict
      name:
        description: As O(name).
        type: str
        default: ''
      instance_type:
        description: As O(instance_type).
        type: str
        default: ''
      base:
        description: As O(base).
        type: str
        default: ''
      taint:
        description: As O(taint).
        type: str
        default: ''
      spot:
        description: As O(spot).
        type: bool
        default: false
      disk:
        description: As O(disk).
        type: int
        default: 0
      labels:
        description: As O(labels).
        type: dict
        default: {}
  machine_types:
    description:
      - Machine types in addition to the known ones of AWS and IBM Cloud. An entry has C(name), C(cpu) and C(memory)
        (GiB), and optionally the other fields of O(sets[].node).
    type: list
    elements: dict
    default: []
    version_added: 1.0.0
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
  returned: when O(state=present) and one set is scaled
  type: str
before:
  description: Number of machines that it had; null if it was created.
  returned: when O(state=present) and one set is scaled
  type: int
nodes:
  description: Its nodes, all of them Ready.
  returned: when O(state=present)
  type: list
  elements: str
sets:
  description: The MachineSets.
  returned: when O(state=present)
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
    changed:
      description: Whether it was created or scaled.
      type: bool
    before:
      description: Number of machines that it had; null if it was created.
      type: int
    nodes:
      description: Its nodes, all of them Ready.
      type: list
      elements: str
    sizing:
      description:
        - "How the number of machines was computed: C(nodes), C(nodes_if_split) (if users could be split over nodes),
          C(users_per_node), C(by_limit) (nodes that each limit alone requires) and C(decides) (the deciding limit).
          Empty without users."
      type: dict
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

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import (
    find_or_derive_machine_set,
    node_count_for_users,
    node_scaling,
)

SET = {
    "replicas": {"type": "int", "default": 0},
    **{name: {"type": "str", "default": ""} for name in ("name", "instance_type", "base", "taint")},
    "spot": {"type": "bool", "default": False},
    "disk": {"type": "int", "default": 0},
    "labels": {"type": "dict", "default": {}},
}
SIZED = {"users": {"type": "int", "default": 0}, "user": {"type": "dict"}, "node": {"type": "dict"}}

OF_CLUSTER = {"cluster": {"type": "str", "choices": ["sutest", "driver"], "default": "sutest"}}


def spec_of(params: Mapping[str, Any]) -> find_or_derive_machine_set.MachineSetSpec:
    """Return the set that options describe. Raises InputError."""
    values = {name: params[name] for name in (*SET, *SIZED) if name in params}
    if params.get("cluster") == "driver" and not params["user"]:
        values["user"] = asdict(find_or_derive_machine_set.DRIVER_USER)
    values["user"] = node_count_for_users.read_size_or_demand(
        node_count_for_users.UserDemand, "user", values.get("user")
    )
    values["node"] = node_count_for_users.read_size_or_demand(node_count_for_users.NodeSize, "node", values.get("node"))
    return find_or_derive_machine_set.MachineSetSpec(**values)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            "state": {"type": "str", "choices": ["present", "absent", "dedicated"], "default": "present"},
            "snapshot": {"type": "path", "required": True},
            "run_id": {"type": "str", "required": True},
            **SET,
            "sets": {"type": "list", "elements": "dict", "default": [], "options": {**SET, **SIZED, **OF_CLUSTER}},
            "machine_types": {"type": "list", "elements": "dict", "default": []},
            "selector": {"type": "str", "default": ""},
            "dedicated": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "float", "default": 3600},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        supports_check_mode=True,
    )
    params, check = module.params, module.check_mode

    def work(step: StepDirectory) -> dict[str, Any]:
        say = step.reporter(params["progress_file"], "nodes")
        path = Path(params["snapshot"]).absolute()
        with (
            Client.from_kubeconfig(params["kubeconfig"], params["context"], timeout=30) as client,
            step.timed("cluster", "nodes"),
        ):
            scaler = node_scaling.NodeScaler(client, path, params["run_id"], say)
            result: dict[str, Any]
            if params["state"] == "absent":
                restored = node_scaling.restore_namespaces(client, path, scaler.diff, check)
                result = scaler.restore(params["timeout"], check)
                return {**result, "changed": result["changed"] or restored, "diff": scaler.diff.shown()}
            result = {"changed": False}
            if params["state"] == "present":
                specs = [spec_of(entry) for entry in params["sets"] or [params]]
                result = scaler.scale_all(specs, params["timeout"], check, params["machine_types"])
                if len(specs) == 1:
                    result |= {name: result["sets"][0][name] for name in ("name", "before")}
            names = params["dedicated"]
            if names:
                asked = node_scaling.dedicate_namespaces(
                    client, path, names, params["selector"], params["taint"], scaler.diff, check
                )
                result = {**result, "changed": result["changed"] or asked}
            return {**result, "diff": scaler.diff.shown()}

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
