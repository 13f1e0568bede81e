#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: redfish_machines
short_description: Boot machines from an image, or switch them off
version_added: 0.1.0
description:
  - Brings machines to a state through their BMCs, all of them side by side, and reads back that it is so.
  - Uses the Redfish client of C(community.general), whose modules take one machine a task. What a BMC refuses for now
    (a busy job queue) is tried again until O(wait_timeout).
  - One machine that fails does not keep the others from getting there.
author:
  - The perfscale.seatrial authors (@perfscale)
requirements:
  - The collection community.general
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._step
  - perfscale.seatrial._step.progress
attributes:
  check_mode:
    support: none
  diff_mode:
    support: none
  idempotent:
    support: partial
    details: State V(booted) boots again.
options:
  state:
    description:
      - V(booted) puts O(image) in, in place of whatever is in, and boots from it once. V(ejected) takes all media out.
        V(off) switches off and takes all media out. V(known) only looks.
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
        description: Its name, for messages.
        type: str
        required: true
      address:
        description: Address of its BMC, with or without C(https://) and a port.
        type: str
        required: true
      user:
        description: User of the BMC.
        type: str
        required: true
      password:
        description: The user's password, where O(passwords) and O(password) do not have it.
        type: str
        default: ''
      system:
        description: Id of its System where the BMC has several.
        type: str
        default: ''
      role:
        description: Not used; so that machines can be passed as M(perfscale.seatrial.openshift_config) returns them.
        type: str
      ip:
        description: Not used, as O(machines[].role).
        type: str
  passwords:
    description: Name of a machine to password.
    type: dict
    default: {}
  password:
    description: Password of those that have none of their own.
    type: str
    default: ''
  image:
    description: Address of the image, which the BMCs fetch. V(booted) needs it.
    type: str
    default: ''
  validate_certs:
    description: Check who answers. BMCs often have certificates that nobody signed.
    type: bool
    default: true
  ca_path:
    description: File with the certificates of the authority that signed the BMCs'.
    type: path
  timeout:
    description: How long to wait for one answer, in seconds.
    type: int
    default: 30
  contact_timeout:
    description: How long a BMC is asked that has never answered, in seconds.
    type: float
    default: 120
  wait_timeout:
    description: How long to try in all, in seconds.
    type: float
    default: 900
  vendors:
    description: Traits of makers that differ from what is known, by a part of the maker's name or V(all).
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
  description: What each machine is now, C(error) where that is not known.
  returned: always
  type: list
  elements: dict
  sample: [{name: s01-h01-000-r650, power: 'On', boot: Cd, override: Once, media: [], changed: true, error: ''}]
"""

import traceback
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._redfish import machine_fleet
from ansible_collections.perfscale.seatrial.plugins.module_utils._redfish.bmc_machine import Bmc
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step

try:
    # Named here so that Ansible sends it along with the module.
    from ansible_collections.community.general.plugins.module_utils.redfish_utils import RedfishUtils

    REDFISH_ERROR = ""
except ImportError:
    RedfishUtils = None
    REDFISH_ERROR = traceback.format_exc()

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
    """Return where a machine's BMC is and by which password. Raises InputError when there is none."""
    password = one["password"] or given["passwords"].get(one["name"]) or given["password"]
    if not password:
        raise InputError(
            f"{one['name']}: no password of its BMC is known: give cluster_agent_bmc_password, or bmc_password in the "
            "inventory"
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
    if RedfishUtils is None:
        module.fail_json(msg=missing_required_lib("the collection community.general"), exception=REDFISH_ERROR)
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
