#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: quads_lease_wait
short_description: Wait for the machines of a lease
version_added: 0.1.0
description:
  - Waits until the lab has moved and installed the machines (V(provisioned)), has checked them (V(validated)), or has
    published their credentials (V(inventory)).
  - Fails at once if the lease is no longer active, if another tenant has one of its hosts, or if it would end before
    the timeout. On a timeout it names the hosts that are not ready.
  - Needs no credentials, so that no token expires meanwhile.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._quads
  - perfscale.seatrial._quads.server
  - perfscale.seatrial._quads.which
  - perfscale.seatrial._quads.inventory
  - perfscale.seatrial._step
  - perfscale.seatrial._step.progress
attributes:
  check_mode:
    support: full
    details: Waits, since nothing is changed.
  diff_mode:
    support: N/A
    details: It changes nothing.
  idempotent:
    support: full
options:
  wait_for:
    description:
      - What to wait for. V(inventory) includes V(validated); the lab publishes up to a quarter of an hour later.
      - The lab marks a lease that is not wiped as validated as soon as it is provisioned.
    type: str
    choices: [provisioned, validated, inventory]
    default: validated
  wait_timeout:
    description: How long to wait, in seconds. Up to two hours are normal.
    type: float
    default: 7200
  interval:
    description: Seconds between two queries, with a jitter of 25 %.
    type: float
    default: 60
  min_lifetime:
    description: How long the lease must last afterwards, such as V(4h).
    type: str
    default: '0'
seealso:
  - module: perfscale.seatrial.quads_lease
"""

EXAMPLES = r"""
- name: Wait for the machines
  perfscale.seatrial.quads_lease_wait:
    api_url: https://quads.example.com
    username: jo@example.com
    lease_id: t1121-k3f9xa
    min_lifetime: 4h
"""

RETURN = r"""
lease:
  description: The lease as it is now, as M(perfscale.seatrial.quads_lease) returns it.
  returned: success
  type: dict
elapsed:
  description: Duration of the wait, in seconds.
  returned: success
  type: float
stages:
  description: Each stage with the seconds until it was observed.
  returned: success
  type: list
  elements: dict
  sample: [{stage: scheduled, seconds: 0.4}, {stage: provisioned, seconds: 721.2}, {stage: validated, seconds: 2523.0}]
pending_hosts:
  description: Hosts that are not ready.
  returned: on failure
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import common_options, module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab import ensure_lease, lease_wait, server_options


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "wait_for": {"type": "str", "choices": list(lease_wait.GOALS), "default": "validated"},
            "wait_timeout": {"type": "float", "default": 7200},
            "interval": {"type": "float", "default": 60},
            "min_lifetime": {"type": "str", "default": "0"},
            "inventory_url": {"type": "str", "default": ""},
            **server_options.WHICH,
            **server_options.OPTIONS,
            **common_options.STEP,
            **common_options.PROGRESS,
        },
        mutually_exclusive=[server_options.ONE],
        required_one_of=[server_options.ONE],
        supports_check_mode=True,
    )

    def work(step: Step) -> dict[str, Any]:
        return ensure_lease.wait_for(module.params, step)

    module_main.run(module, work)


if __name__ == "__main__":
    main()
