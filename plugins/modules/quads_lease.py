#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: quads_lease
short_description: Lease machines of a QUADS lab, or give them back
version_added: 0.1.0
description:
  - Takes an assignment (a cloud) by self-scheduling and puts hosts into it, all that are asked for or none. What was
    taken is given back when the module fails or is interrupted.
  - Each assignment carries C(lease=<id>) in its description. By that a lease is found again from any machine, completed
    when an earlier call was killed, and given back.
  - A host counts as ours only after it was looked up, twice, that no earlier schedule of another tenant has it, because
    the server may give a host to two tenants at once. A host that is lost is replaced by another.
  - The server can't extend a lease nor release single hosts, and sets its end by itself.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._quads
  - perfscale.seatrial._quads.model
  - perfscale.seatrial._quads.server
  - perfscale.seatrial._step
  - perfscale.seatrial._step.progress
attributes:
  check_mode:
    support: full
    details: Only reads. No credentials are needed for it.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) leases, V(absent) gives back.
      - Without O(lease_id) and O(assignment_id), V(absent) gives back every lease of our owner that is older than
        O(older_than).
    type: str
    choices: [present, absent]
    default: present
  lease_id:
    description:
      - Id of the lease, 6 to 40 characters of C(a-z), C(0-9) and C(-). Required with O(state=present).
    type: str
  assignment_id:
    description: Number of an assignment to give back instead. It must carry the mark of a lease, see O(force).
    type: int
  force:
    description: Give back O(assignment_id) although it was not made by this module.
    type: bool
    default: false
  older_than:
    description: Age of leases to give back, such as V(24h) or V(2d).
    type: str
  keep:
    description: Ids of leases that are not given back however old they are.
    type: list
    elements: str
    default: []
  adopt:
    description:
      - Name of a cloud or number of an assignment that is there already, such as the long-term allocation of a team. It
        is checked and returned as a lease. Nothing is requested from the server, and it is never given back.
    type: str
  count:
    description: Number of hosts.
    type: int
  hosts:
    description: Exactly these hosts instead.
    type: list
    elements: str
    default: []
  min_count:
    description: Be content with so many; O(count) if left out.
    type: int
  filters:
    description:
      - What hosts must have. A field of a host, or of its C(interfaces), C(disks), C(memory) or C(processors), with an
        operator behind it if need be (C(__ne), C(__lt), C(__lte), C(__gt), C(__gte), C(__like), C(__ilike), C(__in)).
        A list, or a text with commas, means any of its values.
      - Values are checked by the type of the field before anything is asked. Conditions on one kind of part are met by
        one part; C(disks.count), C(interfaces.count), C(memory.size_gb), C(processors.cores) and C(processors.threads)
        are sums over the parts that meet the others.
    type: dict
    default: {}
  prefer:
    description: Several such filters in the order in which they are preferred, each on top of O(filters).
    type: list
    elements: dict
    default: []
  exclude:
    description: Hosts that are not taken.
    type: list
    elements: str
    default: []
  description:
    description: What the machines are for. Other people read it.
    type: str
    default: ''
  cloud:
    description: Name of a cloud to take, instead of the first that is free.
    type: str
  vlan:
    description:
      - Number of a public VLAN. The server gives out one that is in use, so choose from the free ones that
        M(perfscale.seatrial.quads_available_info) returns.
    type: int
  qinq:
    description: V(1) puts each interface into a VLAN of its own.
    type: int
    choices: [0, 1]
    default: 0
  wipe:
    description:
      - Install the machines anew. It is always sent, because the server takes a missing value for no.
      - With V(false) the lab calls the lease validated without having looked.
    type: bool
    default: true
  cc_users:
    description: Users who get the lab's mails too.
    type: list
    elements: str
    default: []
  ticket:
    description: Number of a ticket, where the server makes none by itself.
    type: str
  min_lifetime:
    description: How long the lease must last from now on, such as V(4h). One that is shorter is given back.
    type: str
    default: '0'
  max_hosts:
    description: How many hosts the lab puts into one assignment.
    type: int
    default: 10
  split:
    description: Spread more hosts than O(max_hosts) over several assignments. Each has networks of its own.
    type: bool
    default: false
  rollback:
    description: Give back what was taken when the lease can't be completed.
    type: bool
    default: true
  settle:
    description:
      - How long a request for a cloud that got no answer may still come to something, in seconds. That is how long the
        server waits for its ticket system. Meanwhile the module looks for it and does not ask again.
    type: float
    default: 300
  lease_file:
    description:
      - File in which the lease is recorded before anything is taken (schema C(lease/1)), so that what a killed call
        held is known.
    type: path
  release_command:
    description: The command that gives the lease back from any machine, for O(lease_file) and for messages.
    type: str
    default: ''
seealso:
  - module: perfscale.seatrial.quads_lease_info
  - module: perfscale.seatrial.quads_lease_wait
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

- name: Give them back
  perfscale.seatrial.quads_lease:
    api_url: https://quads.example.com
    username: jo@example.com
    password: "{{ lookup('perfscale.seatrial.secret', 'quads_lease_password') }}"
    lease_id: t1121-k3f9xa
    state: absent

- name: Say what would be given back for its age
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
    - The lease. Of several assignments the first stands at the top, all of them in C(parts).
    - C(lost_hosts) are in our cloud too, yet another tenant has them. C(other_hosts) were put into our
      cloud by somebody else.
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
  description: Hosts that would be asked for.
  returned: in check mode
  type: list
  elements: str
rejected_hosts:
  description: Hosts that could not be had, with C(host) and C(reason).
  returned: with O(state=present), also on failure
  type: list
  elements: dict
surplus:
  description: How many hosts the lease holds beyond those that were asked for.
  returned: with O(state=present)
  type: int
held:
  description: Whether something is still held after a failure.
  returned: on failure
  type: bool
released:
  description: Numbers of the assignments that were given back, or would be in check mode.
  returned: with O(state=absent)
  type: list
  elements: int
leases:
  description: The leases that were given back for their age.
  returned: with O(older_than)
  type: list
  elements: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads import lease_operations, server_options
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "lease_id": {"type": "str"},
            "assignment_id": {"type": "int"},
            "force": {"type": "bool", "default": False},
            "older_than": {"type": "str"},
            "keep": {"type": "list", "elements": "str", "default": [], "no_log": False},
            "adopt": {"type": "str"},
            "count": {"type": "int"},
            "hosts": {"type": "list", "elements": "str", "default": []},
            "min_count": {"type": "int"},
            "model": {"type": "list", "elements": "str", "default": []},
            "filters": {"type": "dict", "default": {}},
            "prefer": {"type": "list", "elements": "dict", "default": []},
            "exclude": {"type": "list", "elements": "str", "default": []},
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
            **server_options.OPTIONS,
            **_common_options.STEP,
            **_common_options.PROGRESS,
        },
        required_if=[
            ("state", "present", ["lease_id"]),
            ("state", "absent", ["lease_id", "assignment_id", "older_than"], True),
        ],
        supports_check_mode=True,
    )

    def work(step: Step) -> dict[str, Any]:
        return lease_operations.run(module.params, module.check_mode, step)

    _module_main.run(module, work)


if __name__ == "__main__":
    main()
