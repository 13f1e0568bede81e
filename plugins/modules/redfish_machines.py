#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: redfish_machines
short_description: Boot machines from an image, or power them off
version_added: 0.1.0
description:
  - Brings machines to a state through their BMCs, in parallel, and verifies the state.
  - A request that a BMC refuses temporarily (a busy job queue) is repeated until O(wait_timeout).
  - A failure of one machine does not affect the others.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._step
  - perfscale.seatrial._step.progress
attributes:
  check_mode:
    support: none
    details: The state of a machine after a power operation is known only to its BMC.
  diff_mode:
    support: none
  idempotent:
    support: partial
    details: State V(booted) boots again.
options:
  state:
    description:
      - V(booted) inserts O(image), ejects other media, and boots from the image once. V(ejected) ejects all media.
        V(off) powers off and ejects all media. V(known) only reads the state.
    type: str
    choices: [booted, ejected, 'off', known]
    required: true
  machines:
    description: The machines.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the machine, for messages.
        type: str
        required: true
      address:
        description: Address of the BMC, with or without C(https://) and a port.
        type: str
        required: true
      user:
        description: User of the BMC.
        type: str
        required: true
      password:
        description: The user's password. It takes precedence over O(passwords) and O(password).
        type: str
        default: ''
      system:
        description: Id of the machine's System, if the BMC has several.
        type: str
        default: ''
      role:
        description: Not used. Permits machines as M(perfscale.seatrial.openshift_config) returns them.
        type: str
      ip:
        description: Not used, like O(machines[].role).
        type: str
  passwords:
    description: Passwords by name of the machine.
    type: dict
    default: {}
  password:
    description: Password of the other machines.
    type: str
    default: ''
  image:
    description: URL from which the BMCs download the image; required if O(state=booted).
    type: str
    default: ''
  validate_certs:
    description: Whether to verify the certificates of the BMCs. Many BMCs have self-signed certificates.
    type: bool
    default: true
  ca_path:
    description: File with the CA certificates that the BMCs are verified with.
    type: path
  timeout:
    description: Timeout of one request, in seconds.
    type: int
    default: 30
  contact_timeout:
    description: Timeout for the first response of a BMC, in seconds.
    type: float
    default: 120
  wait_timeout:
    description: Timeout for all machines together, in seconds.
    type: float
    default: 900
  vendors:
    description: Overrides for the known differences between BMC vendors, by a part of the vendor's name or V(all).
    type: dict
    default: {}
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
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._redfish import machine_fleet
from ansible_collections.perfscale.seatrial.plugins.module_utils._redfish.bmc_machine import Bmc
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_files import Step

MACHINE = {
    "name": {"type": "str", "required": True},
    "address": {"type": "str", "required": True},
    "user": {"type": "str", "required": True},
    "password": {"type": "str", "default": "", "no_log": True},
    "system": {"type": "str", "default": ""},
    "role": {"type": "str"},
    "ip": {"type": "str"},
}


def bmc(one: dict[str, Any], given: dict[str, Any]) -> Bmc:
    """Return address and credentials of a machine's BMC. Raises InputError without a password."""
    password = one["password"] or given["passwords"].get(one["name"]) or given["password"]
    if not password:
        raise InputError(
            f"{one['name']}: the password of its BMC is unknown: set cluster_agent_bmc_password, or bmc_password "
            "in the inventory"
        )
    return Bmc(one["name"], one["address"], one["user"], str(password), one["system"])


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["booted", "ejected", "off", "known"], "required": True},
            "machines": {"type": "list", "elements": "dict", "required": True, "options": MACHINE},
            "passwords": {"type": "dict", "default": {}, "no_log": True},
            "password": {"type": "str", "default": "", "no_log": True},
            "image": {"type": "str", "default": ""},
            "validate_certs": {"type": "bool", "default": True},
            "ca_path": {"type": "path"},
            "timeout": {"type": "int", "default": 30},
            "contact_timeout": {"type": "float", "default": 120},
            "wait_timeout": {"type": "float", "default": 900},
            "vendors": {"type": "dict", "default": {}},
            **_common_options.STEP,
            **_common_options.PROGRESS,
        },
        required_if=[("state", "booted", ["image"])],
    )
    given = module.params

    def work(step: Step) -> dict[str, Any]:
        say = step.reporter(given["progress_file"], "redfish_machines")
        bmcs = [bmc(one, given) for one in given["machines"]]
        with step.timed("cluster", f"machines {given['state']}"):
            found, changed = machine_fleet.bring(bmcs, given["state"], given["image"], given, say)
        return {"changed": changed, "machines": found}

    _module_main.run(module, work)


if __name__ == "__main__":
    main()
