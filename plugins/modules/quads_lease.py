#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: quads_lease
short_description: Lease machines of a QUADS lab, or release them
version_added: 0.1.0
description:
  - Acquires an assignment (a cloud) by self-scheduling and adds hosts to it, all that are requested or none. If the
    module fails or is interrupted, it releases what it acquired.
  - Each assignment has C(lease=<id>) in its description. By this tag a lease is found again from any machine, completed
    after an earlier call was killed, and released.
  - A host counts as leased only after two checks that no earlier schedule of another tenant has it, because the server
    may assign a host to two tenants at once. A lost host is replaced by another.
  - The server can neither extend a lease nor release single hosts, and it sets the end of the lease.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._quads
  - perfscale.seatrial._quads.search
  - perfscale.seatrial._quads.server
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: full
    details: Only reads, without credentials.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) acquires the lease, V(absent) releases it.
      - Without O(lease_id) and O(assignment_id), V(absent) releases every lease of our owner that is older than
        O(older_than).
      - V(registered) leases nothing. It registers the user, unless the server knows it, and checks that it can log in.
        The API can't remove a user.
    type: str
    choices: [present, absent, registered]
    default: present
  lease_id:
    description:
      - Id of the lease, 6 to 40 characters of C(a-z), C(0-9) and C(-). Required with O(state=present).
    type: str
  assignment_id:
    description: Number of an assignment to release instead. It must have the tag of a lease, see O(force).
    type: int
  force:
    description: Release O(assignment_id) even if it was not created by this module, or belongs to another owner.
    type: bool
    default: false
  older_than:
    description: Minimum age of leases to release, such as V(24h) or V(2d).
    type: str
  keep:
    description: Ids of leases to keep, whatever their age.
    type: list
    elements: str
    default: []
  adopt:
    description:
      - Name of a cloud or number of an assignment that exists already, such as the long-term allocation of a team. It
        is checked and returned as a lease. Nothing is requested from the server, and it is never released.
    type: str
  count:
    description: Number of hosts.
    type: int
  hosts:
    description: Exactly these hosts, instead of O(count).
    type: list
    elements: str
    default: []
  min_count:
    description: Least acceptable number of hosts, by default O(count).
    type: int
  description:
    description: Purpose of the machines, visible to other users of the lab.
    type: str
    default: ''
  cloud:
    description: Name of the cloud to acquire, instead of the first free one.
    type: str
  vlan:
    description:
      - Number of a public VLAN. The server also assigns one that is in use, so choose from the free ones that
        M(perfscale.seatrial.quads_info) returns.
    type: int
  qinq:
    description: V(1) puts each interface into a separate VLAN.
    type: int
    choices: [0, 1]
    default: 0
  wipe:
    description:
      - Reinstall the machines. It is always sent, because the server takes a missing value for false.
      - With V(false) the lab marks the lease as validated without a check.
    type: bool
    default: true
  cc_users:
    description: Further recipients of the lab's mails.
    type: list
    elements: str
    default: []
  ticket:
    description: Number of a ticket, if the server creates none.
    type: str
  min_lifetime:
    description: Least remaining time of the lease, such as V(4h). A shorter one is released.
    type: str
    default: '0'
  max_hosts:
    description: Maximum number of hosts of one assignment in the lab.
    type: int
    default: 10
  split:
    description: Distribute more hosts than O(max_hosts) over several assignments. Each has separate networks.
    type: bool
    default: false
  rollback:
    description: Release what was acquired if the lease can't be completed.
    type: bool
    default: true
  settle:
    description:
      - How long an unanswered request for a cloud may still succeed, in seconds. It is the time that the server waits
        for its ticket system. Meanwhile the module searches for the assignment and sends no new request.
    type: float
    default: 300
  lease_file:
    description:
      - File in which the lease is recorded before any request (schema C(lease/1)), so that the leases of a killed call
        are known.
    type: path
  release_command:
    description: Command that releases the lease from any machine, for O(lease_file) and for messages.
    type: str
    default: ''
seealso:
  - module: perfscale.seatrial.quads_info
"""

EXAMPLES = r"""
- name: Lease three machines for an OpenShift cluster
  perfscale.seatrial.quads_lease:
    api_url: https://quads.example.com
    username: jo@example.com
    password: "{{ lookup('perfscale.seatrial.secret', 'quads_lease_password') }}"
    lease_id: t1121-k3f9xa
    count: 3
    model: [R650, R640]
    filters:
      disks.disk_type: nvme
      interfaces.speed__gte: 25000
    min_lifetime: 8h

- name: Release them
  perfscale.seatrial.quads_lease:
    api_url: https://quads.example.com
    username: jo@example.com
    password: "{{ lookup('perfscale.seatrial.secret', 'quads_lease_password') }}"
    lease_id: t1121-k3f9xa
    state: absent

- name: Create an account
  perfscale.seatrial.quads_lease:
    api_url: https://quads.example.com
    username: jo@example.com
    password: "{{ lookup('perfscale.seatrial.secret', 'quads_lease_password') }}"
    state: registered

- name: Show which leases would be released for their age
  perfscale.seatrial.quads_lease:
    api_url: https://quads.example.com
    username: jo@example.com
    state: absent
    older_than: 24h
  check_mode: true
"""

RETURN = r"""
lease:
  description:
    - The lease. Of several assignments the first is at the top level, all of them are in C(parts).
    - C(lost_hosts) are in our cloud, but belong to another tenant. C(other_hosts) were added to our cloud by another
      user.
  returned: with O(state=present), when there is one
  type: dict
  sample:
    lease_id: t1121-k3f9xa
    assignment_id: 17
    cloud: cloud02
    ticket: "4000"
    hosts: [s01-h01-000-r650.lab.example.com]
    schedule_ids: [120]
    starts_at: "2026-11-21T08:01:14Z"
    expires_at: "2026-11-22T21:00:00Z"
    seconds_left: 132966
    vlan: null
    qinq: 0
    wipe: true
    provisioned: false
    validated: false
candidates:
  description: Hosts that would be requested.
  returned: in check mode
  type: list
  elements: str
rejected_hosts:
  description: Rejected hosts, with C(host) and C(reason).
  returned: with O(state=present), also on failure
  type: list
  elements: dict
surplus:
  description: Number of hosts of the lease beyond the requested ones.
  returned: with O(state=present)
  type: int
held:
  description: Whether something is still leased after a failure.
  returned: on failure
  type: bool
released:
  description: Numbers of the released assignments; in check mode of those to be released.
  returned: with O(state=absent)
  type: list
  elements: int
owner:
  description: The owner of this user's leases.
  returned: with O(state=registered)
  type: str
leases:
  description: The leases that were released for their age.
  returned: with O(older_than)
  type: list
  elements: dict
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
            "state": {"type": "str", "choices": ["present", "absent", "registered"], "default": "present"},
            "lease_id": {"type": "str"},
            "assignment_id": {"type": "int"},
            "force": {"type": "bool", "default": False},
            "older_than": {"type": "str"},
            "keep": {"type": "list", "elements": "str", "default": [], "no_log": False},
            "adopt": {"type": "str"},
            "count": {"type": "int"},
            "hosts": {"type": "list", "elements": "str", "default": []},
            "min_count": {"type": "int"},
            **quads_options.SEARCH,
            "description": {"type": "str", "default": ""},
            "cloud": {"type": "str"},
            "vlan": {"type": "int"},
            "qinq": {"type": "int", "choices": [0, 1], "default": 0},
            "wipe": {"type": "bool", "default": True},
            "cc_users": {"type": "list", "elements": "str", "default": []},
            "ticket": {"type": "str"},
            "min_lifetime": {"type": "str", "default": "0"},
            "max_hosts": {"type": "int", "default": 10},
            "split": {"type": "bool", "default": False},
            "rollback": {"type": "bool", "default": True},
            "settle": {"type": "float", "default": 300},
            "lease_file": {"type": "path"},
            "release_command": {"type": "str", "default": ""},
            **quads_options.OPTIONS,
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        required_if=[
            ("state", "present", ["lease_id"]),
            ("state", "absent", ["lease_id", "assignment_id", "older_than"], True),
        ],
        supports_check_mode=True,
    )

    def work(step: StepDirectory) -> dict[str, Any]:
        return quads_module_actions.run_quads_lease(module.params, module.check_mode, step)

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
