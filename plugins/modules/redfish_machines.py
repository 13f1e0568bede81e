#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: redfish_machines
short_description: Boot machines from an image, power them off, or read their state
version_added: 0.1.0
description:
  - Brings machines to a state through their BMCs, in parallel, and verifies the state.
  - A request that a BMC refuses temporarily (a busy job queue) is repeated until O(wait_timeout).
  - A failure of one machine does not affect the others.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._redfish
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: none
    details: The state of a machine after a power operation is known only to its BMC.
  diff_mode:
    support: none
    details: The state of a machine after a power operation is known only to its BMC.
  idempotent:
    support: partial
    details: State V(booted) boots again.
options:
  state:
    description:
      - V(booted) inserts O(image), ejects other media, and boots from the image once. V(ejected) ejects all media.
        V(off) powers off and ejects all media. V(read) only reads power, boot order and inserted media; a machine whose
        BMC can't be read has an C(error) in the result, and the module does not fail.
    type: str
    choices: [booted, ejected, 'off', read]
    required: true
  image:
    description: URL from which the BMCs download the image; required if O(state=booted).
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Boot the machines from the installer's image
  perfscale.seatrial.redfish_machines:
    state: booted
    image: http://198.18.0.5:8080/agent.x86_64.iso
    machines:
      - name: s01-h01-000-r650
        address: mgmt-s01-h01-000-r650.example.com
        user: quads
        password: "{{ lab_bmc_password }}"
  no_log: true

- name: Read the state of the machines
  perfscale.seatrial.redfish_machines:
    state: read
    machines:
      - name: s01-h01-000-r650
        address: mgmt-s01-h01-000-r650.example.com
        user: quads
        password: "{{ lab_bmc_password }}"
  no_log: true
"""

RETURN = r"""
machines:
  description: The state of each machine, or C(error) if it is unknown.
  returned: always
  type: list
  elements: dict
  sample: [{name: s01-h01-000-r650, power: 'On', boot: Cd, override: Once, media: [], changed: true, error: ''}]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.redfish import (
    machine_fleet,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["booted", "ejected", "off", "read"], "required": True},
            "image": {"type": "str", "default": ""},
            **machine_fleet.BMCS,
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        required_if=[("state", "booted", ["image"])],
    )
    params = module.params

    def work(step: StepDirectory) -> dict[str, Any]:
        say = step.reporter(params["progress_file"], "redfish_machines")
        bmcs = machine_fleet.bmcs_from_params(params)
        if params["state"] == "read":
            return {"changed": False, "machines": machine_fleet.read_machine_states(bmcs, params, say)}
        with step.timed("cluster", f"machines {params['state']}"):
            machines, changed = machine_fleet.set_machine_states(bmcs, params["state"], params["image"], params, say)
        return {"changed": changed, "machines": machines}

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
