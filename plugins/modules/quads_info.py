#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: quads_info
short_description: Read leases, machines and free hosts of a QUADS lab
version_added: 1.0.0
description:
  - Returns leases, waits for their machines, reads the inventory that the lab publishes for them, or lists the hosts
    that are free.
  - Only reads and needs no credentials, so that no token expires during a wait.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._quads
  - perfscale.seatrial._quads.search
  - perfscale.seatrial._quads.server
  - perfscale.seatrial._quads.which
  - perfscale.seatrial._quads.inventory
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: full
    details: Waits too, since nothing is changed.
  diff_mode:
    support: N/A
    details: It changes nothing.
  idempotent:
    support: full
options:
  gather:
    description:
      - V(leases) returns the lease that O(lease_id), O(assignment_id) or O(cloud) names, or those of O(owner).
      - V(inventory) returns the machines of the lease with their BMCs, and rejects a file that is not that of the
        lease. The lab writes it every quarter of an hour and never deletes it, so it may be that of an earlier tenant.
      - V(available) returns the hosts that are free for self-scheduling for O(duration), best first, and free clouds
        and VLANs.
    type: str
    choices: [leases, inventory, available]
    default: leases
  owner:
    description: All active leases of this owner; the part of the e-mail address before the C(@).
    type: str
  active:
    description: Return active leases only.
    type: bool
    default: true
  wait_for:
    description:
      - Wait until the lab has moved and installed the machines of the lease (V(provisioned)), has checked them
        (V(validated)), or has published their credentials (V(inventory)). The latter includes V(validated); the lab
        publishes up to a quarter of an hour later. By default there is no wait.
      - The lab marks a lease that is not wiped as validated as soon as it is provisioned.
      - The module fails at once if the lease is no longer active, if another tenant has one of its hosts, or if it
        would end before the timeout. On a timeout it names the hosts that are not ready.
    type: str
    choices: [provisioned, validated, inventory]
  wait_timeout:
    description: How long to wait, in seconds. Up to two hours are normal.
    type: float
    default: 7200
  interval:
    description: Seconds between two queries, with a jitter of 25 %.
    type: float
    default: 60
  min_lifetime:
    description: How long the lease must last after the wait, such as V(4h).
    type: str
    default: '0'
  passwords:
    description:
      - Whether O(gather=inventory) returns C(bmc_password) too. The task needs C(no_log=true) then. By default
        passwords are masked in all output of the module.
    type: bool
    default: false
  duration:
    description:
      - How long hosts must be free from now on, such as V(8h). A host that is free now and booked for tomorrow can't be
        leased.
    type: str
    default: 1d
  count:
    description: Least number of free hosts; fewer are an error.
    type: int
    default: 0
  gather_metadata:
    description: Whether O(gather=available) returns also the lab's record of each host.
    type: bool
    default: false
seealso:
  - module: perfscale.seatrial.quads_lease
"""

EXAMPLES = r"""
- name: Find machines with NVMe disks
  perfscale.seatrial.quads_info:
    api_url: https://quads.example.com
    gather: available
    model: [R650]
    filters:
      disks.disk_type: nvme
    duration: 8h
  register: free

- name: Wait for the machines of a lease
  perfscale.seatrial.quads_info:
    api_url: https://quads.example.com
    username: jo@example.com
    lease_id: t1121-k3f9xa
    wait_for: validated
    min_lifetime: 4h

- name: Query a lease
  perfscale.seatrial.quads_info:
    api_url: https://quads.example.com
    username: jo@example.com
    lease_id: t1121-k3f9xa
  register: lab

- name: Read the credentials of its BMCs
  perfscale.seatrial.quads_info:
    api_url: https://quads.example.com
    username: jo@example.com
    lease_id: t1121-k3f9xa
    gather: inventory
    passwords: true
  register: machines
  no_log: true
"""

RETURN = r"""
leases:
  description: The leases, each as M(perfscale.seatrial.quads_lease) returns it.
  returned: with O(gather=leases)
  type: list
  elements: dict
lease:
  description: The lease after the wait.
  returned: with O(wait_for)
  type: dict
elapsed:
  description: Duration of the wait, in seconds.
  returned: with O(wait_for)
  type: float
stages:
  description: Each stage with the seconds until it was observed.
  returned: with O(wait_for)
  type: list
  elements: dict
  sample: [{stage: scheduled, seconds: 0.4}, {stage: provisioned, seconds: 721.2}, {stage: validated, seconds: 2523.0}]
pending_hosts:
  description: Hosts that are not ready.
  returned: with O(wait_for) on failure
  type: list
  elements: str
nodes:
  description: The machines by name.
  returned: with O(gather=inventory)
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
  returned: with O(gather=inventory), V(true) on failure
  type: bool
hosts:
  description: Names of free hosts, best first.
  returned: with O(gather=available)
  type: list
  elements: str
hosts_info:
  description: The lab's record of each of these hosts.
  returned: with O(gather_metadata)
  type: list
  elements: dict
machine_types:
  description:
    - CPU threads and memory (GiB) of each model of these hosts, for M(perfscale.seatrial.node_scaling). The smallest
      host of a model counts.
  returned: with O(gather_metadata)
  type: list
  elements: dict
  sample: [{name: R650, cpu: 64, memory: 384}]
free_clouds:
  description: Names of free clouds.
  returned: with O(gather=available)
  type: list
  elements: str
free_vlans:
  description: Free public VLANs.
  returned: with O(gather=available)
  type: list
  elements: dict
server_version:
  description: Version of the server, as it returns it.
  returned: with O(gather=available)
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab import quads_module_actions, quads_options


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "gather": {"type": "str", "choices": ["leases", "inventory", "available"], "default": "leases"},
            "owner": {"type": "str"},
            "active": {"type": "bool", "default": True},
            "wait_for": {"type": "str", "choices": ["provisioned", "validated", "inventory"]},
            "wait_timeout": {"type": "float", "default": 7200},
            "interval": {"type": "float", "default": 60},
            "min_lifetime": {"type": "str", "default": "0"},
            "inventory_url": {"type": "str", "default": ""},
            "passwords": {"type": "bool", "default": False, "no_log": False},
            "duration": {"type": "str", "default": "1d"},
            "count": {"type": "int", "default": 0},
            "gather_metadata": {"type": "bool", "default": False},
            **quads_options.SELECTION,
            **quads_options.SEARCH,
            **quads_options.OPTIONS,
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        mutually_exclusive=[tuple(quads_options.NAMED)],
        required_if=[
            ("gather", "leases", [*quads_options.NAMED, "owner"], True),
            ("gather", "inventory", list(quads_options.NAMED), True),
        ],
        supports_check_mode=True,
    )

    def work(step: StepDirectory) -> dict[str, Any]:
        result = quads_module_actions.run_quads_info(module.params, step)
        if not module.params["passwords"]:
            for node in result.get("nodes") or ():
                if password := node.pop("bmc_password"):
                    module.no_log_values.add(password)
        return {"changed": False, **result}

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
