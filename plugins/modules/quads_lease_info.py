#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: quads_lease_info
short_description: Find leases of a QUADS lab
version_added: 0.1.0
description:
  - Returns leases by their id, the number of an assignment, a cloud or an owner. Only reads and needs no credentials.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._quads
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
  lease_id:
    description: Id of a lease. It requires O(username) or O(owner).
    type: str
  assignment_id:
    description: Number of an assignment, which need not be of this collection.
    type: int
  cloud:
    description: Name of a cloud; its active assignment is returned.
    type: str
  lease_file:
    description: The lease file, which records the time zone of the server.
    type: path
  owner:
    description: All active leases of this owner; the part of the e-mail address before the C(@).
    type: str
  active:
    description: Return active leases only.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Query a lease
  perfscale.seatrial.quads_lease_info:
    api_url: https://quads.example.com
    username: jo@example.com
    lease_id: t1121-k3f9xa
  register: found

- name: Wait for it with plain Ansible
  perfscale.seatrial.quads_lease_info:
    api_url: https://quads.example.com
    username: jo@example.com
    lease_id: t1121-k3f9xa
  register: found
  until: found.leases[0].validated
  retries: 60
  delay: 60
"""

RETURN = r"""
leases:
  description: The leases, each as M(perfscale.seatrial.quads_lease) returns it.
  returned: success
  type: list
  elements: dict
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
            "owner": {"type": "str"},
            "active": {"type": "bool", "default": True},
            **server_options.WHICH,
            **server_options.OPTIONS,
        },
        mutually_exclusive=[server_options.ONE],
        required_one_of=[(*server_options.ONE, "owner")],
        supports_check_mode=True,
    )

    def work(step: Step) -> dict[str, Any]:
        return {"changed": False, "leases": lease_info.leases(server_options.client(module.params), module.params)}

    module_main.run(module, work)


if __name__ == "__main__":
    main()
