#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: workload_on_host
short_description: Run a load on another machine, where it goes on without us
version_added: 0.1.0
description:
  - Starts the load of M(perfscale.seatrial.workload_submit) on the machine that the task runs on, as a process of its
    own. When the connection is lost the load goes on. It is found again by the id of its run.
  - As a task it does all of it, on the host that C(delegate_to) names. It starts the load or finds it again, shows
    what it says, fetches its files when it has ended, and removes what was left there. With O(state=absent) it ends the
    load.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._run.point
  - perfscale.seatrial._step
attributes:
  check_mode:
    support: none
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) starts the load or finds it again, V(status) looks at it, V(absent) ends it and removes its files.
    type: str
    choices: [present, status, absent]
    default: present
  root:
    description: Directory on the other machine in which loads have their folders.
    type: path
    default: ~/.local/state/seatrial/loads
  point_dir:
    description: Directory of the point on the controller, into which the files are fetched.
    type: path
  request:
    description:
      - Options of M(perfscale.seatrial.workload_submit), except C(kubeconfig), C(run_id), C(point), C(point_dir),
        C(lock_dir) and C(step_dir).
    type: dict
    default: {}
  kubeconfig:
    description: Kubeconfig on the controller. What is in it has to be enough on the other machine too.
    type: path
  kubeconfig_content:
    description: Its content. The action plugin fills it in.
    type: str
  lock:
    description: The run's lock, which the load renews as well. The action plugin fills it in.
    type: dict
  lock_dir:
    description: The run directory, in which the run's lock file is looked for.
    type: path
  offset:
    description: Up to which byte its progress was read. The action plugin fills it in.
    type: int
    default: 0
  interval:
    description: How often to look how the load stands, in seconds.
    type: float
    default: 10
  reconnect:
    description: How long to try to reach a machine again to which the connection was lost, in seconds.
    type: float
    default: 600
requirements:
  - Python 3.11 and PyYAML on the other machine
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
  description: Whether the load was there already.
  returned: when O(state=present)
  type: bool
state:
  description: V(absent), V(running), V(ended) or V(died).
  returned: when O(state=status)
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._load import load_spec
from ansible_collections.perfscale.seatrial.plugins.module_utils._remote import detached_load
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step


def main() -> None:
    """Run the module: the part of the work that is done on the other machine."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "status", "absent"], "default": "present"},
            "root": {"type": "path", "default": "~/.local/state/seatrial/loads"},
            **_common_options.POINT,
            "point_dir": {"type": "path"},
            "request": {"type": "dict", "default": {}},
            "kubeconfig": {"type": "path"},
            "kubeconfig_content": {"type": "str", "no_log": True},
            "lock": {"type": "dict"},
            "lock_dir": {"type": "path"},
            "offset": {"type": "int", "default": 0},
            "interval": {"type": "float", "default": 10},
            "reconnect": {"type": "float", "default": 600},
            **_common_options.STEP,
        },
        required_if=[("state", "present", ["kubeconfig_content"])],
    )
    given = module.params

    def work(_step: Step) -> dict[str, Any]:
        place = detached_load.LoadDirectory(given["root"], given["run_id"], given["point"])
        if given["state"] == "absent":
            return {"changed": detached_load.remove(place)}
        if given["state"] == "status":
            return {"changed": False, **detached_load.status(place, given["offset"])}
        asked = load_spec.remote_parameters(given["request"], given["run_id"], given["point"])
        new = detached_load.start(place, asked, given["kubeconfig_content"], given["lock"])
        return {"changed": new, "found": not new}

    _module_main.run(module, work)


if __name__ == "__main__":
    main()
