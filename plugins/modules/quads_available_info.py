#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: quads_available_info
short_description: List the machines of a QUADS lab that can be leased
version_added: 0.1.0
description:
  - Returns the hosts that are free for self-scheduling for a given time, best first, and free clouds and VLANs.
  - Only reads and needs no credentials.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._quads
  - perfscale.seatrial._quads.model
  - perfscale.seatrial._quads.server
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details: It changes nothing.
  idempotent:
    support: full
options:
  filters:
    description: Conditions on the hosts, as in M(perfscale.seatrial.quads_lease).
    type: dict
    default: {}
  prefer:
    description: Several such filters in order of preference.
    type: list
    elements: dict
    default: []
  exclude:
    description: Hosts to exclude.
    type: list
    elements: str
    default: []
  duration:
    description:
      - How long they must be free from now on, such as V(8h). A host that is free now and booked for tomorrow
        can't be leased.
    type: str
    default: 1d
  count:
    description: Least number of hosts; fewer are an error.
    type: int
    default: 0
  gather_metadata:
    description: Whether to return also the lab's record of each host.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Find machines with NVMe disks
  perfscale.seatrial.quads_available_info:
    api_url: https://quads.example.com
    model: [R650]
    filters:
      disks.disk_type: nvme
    duration: 8h
  register: free
"""

RETURN = r"""
hosts:
  description: Names of free hosts, best first.
  returned: success
  type: list
  elements: str
hosts_info:
  description: The lab's record of each of these hosts.
  returned: with O(gather_metadata)
  type: list
  elements: dict
machine_types:
  description:
    - CPU threads and memory (GiB) of each model of these hosts, for M(perfscale.seatrial.node_sizing). The smallest
      host of a model counts.
  returned: with O(gather_metadata)
  type: list
  elements: dict
  sample: [{name: R650, cpu: 64, memory: 384}]
free_clouds:
  description: Names of free clouds.
  returned: success
  type: list
  elements: str
free_vlans:
  description: Free public VLANs.
  returned: success
  type: list
  elements: dict
server_version:
  description: Version of the server, as it returns it.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab import lease_info, server_options


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "model": {"type": "list", "elements": "str", "default": []},
            "filters": {"type": "dict", "default": {}},
            "prefer": {"type": "list", "elements": "dict", "default": []},
            "exclude": {"type": "list", "elements": "str", "default": []},
            "duration": {"type": "str", "default": "1d"},
            "count": {"type": "int", "default": 0},
            "gather_metadata": {"type": "bool", "default": False},
            **server_options.OPTIONS,
        },
        supports_check_mode=True,
    )

    def work(step: Step) -> dict[str, Any]:
        return {"changed": False, **lease_info.available(server_options.client(module.params), module.params)}

    module_main.run(module, work)


if __name__ == "__main__":
    main()
