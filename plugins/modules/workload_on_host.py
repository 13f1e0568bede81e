#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: workload_on_host
short_description: Run a load on another host, where it continues without connection
version_added: 0.1.0
description:
  - Starts the load of M(perfscale.seatrial.workload_submit) as a detached process on the host of the task, normally set
    with C(delegate_to). The load continues if the connection is lost, and is found again by the id of its run.
  - The task starts the load or finds it again, shows its progress, fetches its files after its end, and deletes them on
    the host. With O(state=absent) it ends the load.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
  - perfscale.seatrial._run.point
  - perfscale.seatrial._step
  - perfscale.seatrial._workload.on_host
attributes:
  check_mode:
    support: none
    details: A load that does not run has no result.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) starts the load or finds it, V(absent) ends it and deletes its files.
    type: str
    choices: [present, absent]
    default: present
  point_dir:
    description: Directory of the point on the controller, to which the files are fetched.
    type: path
  request:
    description:
      - Options of M(perfscale.seatrial.workload_submit), except C(kubeconfig), C(run_id), C(point), C(point_dir),
        C(lock_dir) and C(step_dir).
    type: dict
    default: {}
  kubeconfig:
    description: Kubeconfig on the controller. It must be usable on the host, too.
    type: path
  kubeconfig_content:
    description: Content of the kubeconfig, set by the action plugin.
    type: str
  lock:
    description: Parameters of the run's lock, which the load renews as well. Set by the action plugin.
    type: dict
  lock_dir:
    description: The run directory, which contains the run's lock file.
    type: path
  interval:
    description: Polling interval for the state of the load, in seconds.
    type: float
    default: 10
  reconnect:
    description: How long to retry a lost connection, in seconds.
    type: float
    default: 600
requirements:
  - Python 3.11 and PyYAML on the host
"""

EXAMPLES = r"""
- name: Run the load on the bastion
  perfscale.seatrial.workload_on_host:
    run_id: "{{ run_id }}"
    point_dir: "{{ run_dir }}/points/001"
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    request:
      count: 1000
      templates:
        - src: job.yml.j2
  delegate_to: bastion
"""

RETURN = r"""
found:
  description: Whether the load existed before.
  returned: when O(state=present)
  type: bool
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import detached_load
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import load_spec


def main() -> None:
    """Run the module: the steps on the host. The action plugin calls it."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "root": {"type": "path", "default": "~/.local/state/seatrial/loads"},
            **ansible_module.POINT,
            "point_dir": {"type": "path"},
            "request": {"type": "dict", "default": {}},
            "kubeconfig": {"type": "path"},
            "kubeconfig_content": {"type": "str", "no_log": True},
            "lock": {"type": "dict"},
            "lock_dir": {"type": "path"},
            "interval": {"type": "float", "default": 10},
            "reconnect": {"type": "float", "default": 600},
            **ansible_module.STEP,
        },
        required_if=[("state", "present", ["kubeconfig_content"])],
    )
    given = module.params

    def work(_step: Step) -> dict[str, Any]:
        directory = detached_load.LoadDirectory(given["root"], given["run_id"], given["point"])
        if given["state"] == "absent":
            return {"changed": detached_load.remove(directory)}
        request = load_spec.remote_parameters(given["request"], given["run_id"], given["point"])
        new = detached_load.start(directory, request, given["kubeconfig_content"], given["lock"])
        return {"changed": new, "found": not new}

    ansible_module.run(module, work)


if __name__ == "__main__":
    main()
