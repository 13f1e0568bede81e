#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: redfish_machines_info
short_description: Read the state of machines from their BMCs
version_added: 0.2.0
description:
  - Reads power, boot order and inserted media of machines through their BMCs, in parallel.
  - A machine whose BMC can't be read has an C(error) in the result, and the module does not fail.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._redfish
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details: It changes nothing.
  idempotent:
    support: full
seealso:
  - module: perfscale.seatrial.redfish_machines
"""

EXAMPLES = r"""
- name: Query the machines
  perfscale.seatrial.redfish_machines_info:
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
  returned: success
  type: list
  elements: dict
  sample: [{name: s01-h01-000-r650, power: 'On', boot: Cd, override: Disabled, media: [], error: ''}]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.redfish import (
    machine_fleet,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={**machine_fleet.BMCS, **ansible_module.STEP, **ansible_module.PROGRESS},
        supports_check_mode=True,
    )
    params = module.params

    def work(step: Step) -> dict[str, Any]:
        say = step.reporter(params["progress_file"], "redfish_machines_info")
        return {
            "changed": False,
            "machines": machine_fleet.read_machine_states(machine_fleet.bmcs_from_params(params), params, say),
        }

    ansible_module.run(module, work)


if __name__ == "__main__":
    main()
