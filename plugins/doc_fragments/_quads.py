# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options of everything that speaks to a QUADS server."""

from __future__ import annotations


class ModuleDocFragment:
    """Credentials and patience; in fragments of their own the server, which lease is meant, and its inventory."""

    DOCUMENTATION = r"""
options:
  password:
    description:
      - Password of the user. A token is got with it, once more when it has expired, and is never logged out, since
        parallel jobs of one user may share it.
    type: str
  api_token:
    description:
      - A permanent token (C(qat_…)) of newer servers, instead of O(password).
    type: str
  retry_time:
    description:
      - How long a request that may be repeated is tried again while the server is down or silent, in seconds. A server
        that never answered is given up after 10 s.
    type: float
    default: 300
  utc_offset:
    description:
      - How many minutes the server's local time is ahead of UTC. Servers up to 2.2.6 write local time and call it GMT.
        For leases made by this collection the offset is found out. It is needed only to know when a lease ends that
        was made by others.
    type: int
attributes:
  action_group:
    description: Use C(group/perfscale.seatrial.quads) in C(module_defaults) to set defaults for this module.
    support: full
    membership:
      - perfscale.seatrial.quads
"""

    SERVER = r"""
options:
  api_url:
    description:
      - Address of the QUADS server, such as V(https://quads.example.com), with or without C(/api/v3).
    type: str
    required: true
  username:
    description:
      - E-mail address of the user. The part before the C(@) is the owner of leases.
      - It may be left out where nothing is taken and nothing of one's own is looked for.
    type: str
    default: ''
  validate_certs:
    description:
      - Check who answers. With V(false) anybody on the way can read the credentials.
    type: bool
    default: true
  ca_path:
    description: File with the certificates of the authority that signed the server's.
    type: path
  timeout:
    description: How long to wait for one answer, in seconds.
    type: float
    default: 60
"""

    WHICH = r"""
options:
  lease_id:
    description: Id of the lease. With it O(username) is needed.
    type: str
  assignment_id:
    description: Number of an assignment instead.
    type: int
  cloud:
    description: Name of a cloud instead.
    type: str
  lease_file:
    description: The lease file, which knows the hosts that were asked for.
    type: path
"""

    INVENTORY = r"""
options:
  inventory_url:
    description:
      - Address of the inventory, where it is not C(/instack/<cloud>_ocpinventory.json) on the server. C({cloud}) in it
        stands for the cloud's name.
    type: str
    default: ''
"""

    MODEL = r"""
options:
  model:
    description: Models in the order in which they are preferred, in upper or lower case.
    type: list
    elements: str
    default: []
"""
