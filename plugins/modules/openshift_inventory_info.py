#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: openshift_inventory_info
short_description: Read the machines of a cluster from an inventory
version_added: 0.1.0
description:
  - Returns the machines for M(perfscale.seatrial.openshift_install), from the inventory of the play or from another
    one, such as the one that role C(quads_lease) has just written.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details: It changes nothing.
  idempotent:
    support: full
options:
  inventory:
    description: Inventory to read instead of that of the play.
    type: path
  control_plane_group:
    description: Group of the control plane machines.
    type: str
    required: true
  worker_group:
    description: Group of the workers, if any.
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Read the machines
  perfscale.seatrial.openshift_inventory_info:
    inventory: "{{ run_dir }}/lease.quads.yml"
    control_plane_group: controlplane
    worker_group: worker
  register: my_machines
  no_log: true
"""

RETURN = r"""
machines:
  description: The machines with C(name), C(role) and C(vars).
  returned: success
  type: list
  elements: dict
passwords:
  description: C(bmc_password) by host, for hosts that have one in the inventory.
  returned: success
  type: dict
"""
