#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: quads_inventory_info
short_description: Read the inventory of a lease
version_added: 0.1.0
description:
  - Reads the file with BMC addresses and credentials that the lab publishes for a cloud, and rejects one that is not
    that of the lease. The lab writes it every quarter of an hour and never deletes it, so it may be that of an
    earlier tenant of the cloud.
  - BMC passwords are returned only on request. They are masked in all other output of the module.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._quads
  - perfscale.seatrial._quads.server
  - perfscale.seatrial._quads.which
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details: It changes nothing.
  idempotent:
    support: full
options:
  expected_hosts:
    description: Hosts that must be in it, by default those of the lease.
    type: list
    elements: str
    default: []
  ticket:
    description: Ticket with whose number the passwords end, by default that of the lease.
    type: str
  url:
    description:
      - URL of the file if it is not C(/instack/<cloud>_ocpinventory.json) on the server. C({cloud}) is replaced by the
        name of the cloud.
    type: str
    default: ''
  wait:
    description: How long to wait for a valid file, in seconds.
    type: float
    default: 0
  passwords:
    description: Whether to return C(bmc_password) too. The task needs C(no_log=true) then.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Read addresses
  perfscale.seatrial.quads_inventory_info:
    api_url: https://quads.example.com
    username: jo@example.com
    lease_id: t1121-k3f9xa
  register: machines

- name: Read credentials
  perfscale.seatrial.quads_inventory_info:
    api_url: https://quads.example.com
    username: jo@example.com
    lease_id: t1121-k3f9xa
    passwords: true
  register: credentials
  no_log: true
"""

RETURN = r"""
nodes:
  description: The machines by name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the host.
      type: str
    bmc_address:
      description: Name or address of its BMC.
      type: str
    bmc_user:
      description: User of the BMC.
      type: str
    bmc_password:
      description: Password of the BMC.
      returned: with O(passwords)
      type: str
    macs:
      description: MAC addresses in the order of the interfaces' names.
      type: list
      elements: str
    interfaces:
      description: Name of each interface with its MAC address.
      type: dict
stale:
  description: Whether the file is not that of the lease.
  returned: always, V(true) on failure
  type: bool
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
            "expected_hosts": {"type": "list", "elements": "str", "default": []},
            "ticket": {"type": "str"},
            "url": {"type": "str", "default": ""},
            "wait": {"type": "float", "default": 0},
            "passwords": {"type": "bool", "default": False, "no_log": False},
            **server_options.WHICH,
            **server_options.OPTIONS,
        },
        mutually_exclusive=[server_options.ONE],
        required_one_of=[server_options.ONE],
        supports_check_mode=True,
    )

    def work(step: Step) -> dict[str, Any]:
        nodes = lease_info.nodes(server_options.client(module.params), module.params)
        if not module.params["passwords"]:
            module.no_log_values.update(node["bmc_password"] for node in nodes if node["bmc_password"])
            nodes = [{key: value for key, value in node.items() if key != "bmc_password"} for node in nodes]
        return {"changed": False, "nodes": nodes, "stale": False}

    module_main.run(module, work)


if __name__ == "__main__":
    main()
