#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: openshift_image_share
short_description: Serve a boot image to BMCs over HTTP
version_added: 0.1.0
description:
  - Serves the subdirectory C(www) of O(folder) over HTTP, without directory listings, until it is stopped or
    O(lifetime) has passed.
  - Runs on a machine that the BMCs can reach. This machine requires Python 3.11.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
attributes:
  check_mode:
    support: none
    details: It starts a server, and its address is known only then.
  diff_mode:
    support: none
    details: It starts or stops a server.
  idempotent:
    support: full
options:
  state:
    description: V(present) starts the server. V(absent) stops it and removes O(folder).
    type: str
    choices: [present, absent]
    default: present
  folder:
    description: Directory that contains C(www).
    type: path
    required: true
  address:
    description:
      - Address to listen on, which is also the address for the BMCs. Empty means the local address from which
        O(towards) is reached.
    type: str
    default: ''
  towards:
    description: Address of a BMC, to determine O(address).
    type: str
    default: ''
  port:
    description: Port to listen on. V(0) means any free port.
    type: int
    default: 0
  lifetime:
    description: Maximum lifetime of the server, in seconds.
    type: float
    default: 14400
"""

EXAMPLES = r"""
- name: Serve the image
  perfscale.seatrial.openshift_image_share:
    folder: /var/lib/seatrial/share/t1121-k3f9xa
    towards: mgmt-s01-h01-000-r650.example.com
  delegate_to: bastion
"""

RETURN = r"""
url:
  description: URL of the directory C(www).
  returned: when O(state=present)
  type: str
  sample: http://198.18.0.5:41771
"""

import shutil
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift import cluster_folder_processes


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "folder": {"type": "path", "required": True},
            "address": {"type": "str", "default": ""},
            "towards": {"type": "str", "default": ""},
            "port": {"type": "int", "default": 0},
            "lifetime": {"type": "float", "default": 14400},
        }
    )
    params = module.params
    folder = Path(params["folder"])

    def work(_step: StepDirectory) -> dict[str, Any]:
        if params["state"] == "absent":
            stopped = cluster_folder_processes.stop_processes_of_folder(folder, 2.0)
            there = folder.exists()
            shutil.rmtree(folder, ignore_errors=True)
            return {"changed": bool(stopped) or there}
        address = params["address"] or cluster_folder_processes.local_address_towards(params["towards"])
        port, started = cluster_folder_processes.start_image_server(folder, address, params["port"], params["lifetime"])
        return {"changed": started, "url": f"http://{address}:{port}"}

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
