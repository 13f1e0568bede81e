# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options of modules and plugins that access a QUADS server."""

from __future__ import annotations


class ModuleDocFragment:
    """Credentials and retries; in further fragments the server, the lease, its inventory and the search for hosts."""

    DOCUMENTATION = r"""
options:
  password:
    description:
      - Password of the user. It is exchanged for a token, which is renewed when it expires. The token is not revoked,
        since parallel jobs of one user may share it.
    type: str
  api_token:
    description:
      - A permanent token (C(qat_…)) of newer servers, instead of O(password).
    type: str
  retry_time:
    description:
      - How long to retry repeatable requests while the server does not respond, in seconds. If the server has never
        responded, the module fails after 10 s.
    type: float
    default: 300
  utc_offset:
    description:
      - Offset of the server's local time from UTC, in minutes. Servers up to 2.2.6 report local time as GMT. For leases
        of this collection the offset is determined automatically. It is needed only for the end of leases that others
        created.
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
      - Not required for calls that neither create a lease nor search for leases of the user.
    type: str
    default: ''
  validate_certs:
    description:
      - Whether to verify the server's certificate. V(false) disables server authentication, and credentials can be
        intercepted.
    type: bool
    default: true
  ca_path:
    description: PEM file of the certificate authorities to trust for the server.
    type: path
  timeout:
    description: Timeout of one request, in seconds.
    type: float
    default: 60
"""

    WHICH = r"""
options:
  lease_id:
    description: Id of the lease. Requires O(username).
    type: str
  assignment_id:
    description: Number of an assignment, instead of O(lease_id).
    type: int
  cloud:
    description: Name of a cloud, instead of O(lease_id).
    type: str
  lease_file:
    description: The lease file, which contains the requested hosts.
    type: path
"""

    INVENTORY = r"""
options:
  inventory_url:
    description:
      - Address of the inventory. C({cloud}) in it is replaced with the name of the cloud. Empty means
        C(/instack/<cloud>_ocpinventory.json) on the server.
    type: str
    default: ''
"""

    SEARCH = r"""
options:
  model:
    description: Models in order of preference, case-insensitive.
    type: list
    elements: str
    default: []
  filters:
    description:
      - Conditions on the hosts. A field of a host, or of its C(interfaces), C(disks), C(memory) or C(processors), and
        optionally an operator (C(__ne), C(__lt), C(__lte), C(__gt), C(__gte), C(__like), C(__ilike), C(__in)).
        A list, or a text with commas, means any of its values.
      - Values are checked against the type of the field before any request. One part must meet all conditions on its
        kind; C(disks.count), C(interfaces.count), C(memory.size_gb), C(processors.cores) and C(processors.threads)
        are sums over all parts of that kind, whatever the other conditions are.
    type: dict
    default: {}
  prefer:
    description: Several such filters in order of preference, each combined with O(filters).
    type: list
    elements: dict
    default: []
  exclude:
    description: Hosts to leave out.
    type: list
    elements: str
    default: []
"""
