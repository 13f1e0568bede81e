#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: quads_user
short_description: Register a user at a QUADS server
version_added: 0.1.0
description:
  - Registers a user that the server does not have, and checks that it can log in.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._quads
  - perfscale.seatrial._quads.server
attributes:
  check_mode:
    support: full
    details: Only tries to log in.
  diff_mode:
    support: none
    details: It registers one user.
  idempotent:
    support: full
options:
  state:
    description: The user exists and can log in. The API can't remove a user.
    type: str
    choices: [present]
    default: present
"""

EXAMPLES = r"""
- name: Register
  perfscale.seatrial.quads_user:
    api_url: https://quads.example.com
    username: jo@example.com
    password: "{{ lookup('perfscale.seatrial.secret', 'quads_lease_password') }}"
"""

RETURN = r"""
owner:
  description: The owner of this user's leases.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab import quads_user, server_options


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present"], "default": "present"},
            **server_options.OPTIONS,
        },
        supports_check_mode=True,
    )

    def work(step: Step) -> dict[str, Any]:
        client = server_options.client(module.params, secret=True)
        return {"changed": quads_user.register(client, module.check_mode), "owner": client.account.owner}

    module_main.run(module, work)


if __name__ == "__main__":
    main()
