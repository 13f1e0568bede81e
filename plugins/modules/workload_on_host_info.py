#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: workload_on_host_info
short_description: Read the state of a load on another host
version_added: 0.2.0
description:
  - Reads the state and the new progress of a load that M(perfscale.seatrial.workload_on_host) has started on the host
    of the task.
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
    support: full
  diff_mode:
    support: N/A
    details: It changes nothing.
  idempotent:
    support: full
options:
  offset:
    description: Number of bytes of the progress that were read before.
    type: int
    default: 0
requirements:
  - Python 3.11 and PyYAML on the host
seealso:
  - module: perfscale.seatrial.workload_on_host
"""

EXAMPLES = r"""
- name: Look for the load on the bastion
  perfscale.seatrial.workload_on_host_info:
    run_id: "{{ run_id }}"
  delegate_to: bastion
"""

RETURN = r"""
state:
  description: V(absent), V(running), V(ended) or V(died).
  returned: success
  type: str
lines:
  description: The progress since O(offset).
  returned: success
  type: list
  elements: str
offset:
  description: Number of bytes of the progress that have been read now.
  returned: success
  type: int
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import detached_load


def main() -> None:
    """Run the module on the host."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "default": "~/.local/state/seatrial/loads"},
            **ansible_module.POINT,
            "offset": {"type": "int", "default": 0},
            **ansible_module.STEP,
        },
        supports_check_mode=True,
    )
    given = module.params

    def work(_step: Step) -> dict[str, Any]:
        directory = detached_load.LoadDirectory(given["root"], given["run_id"], given["point"])
        return {"changed": False, **detached_load.status(directory, given["offset"])}

    ansible_module.run(module, work)


if __name__ == "__main__":
    main()
