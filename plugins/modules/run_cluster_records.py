#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_cluster_records
short_description: Read or update the records of a run's clusters
version_added: 0.1.0
description:
  - Merges values into the records of some hosts in C(cluster.yml). Without O(hosts), only reads them.
  - With O(identify), queries each cluster first and records what it is.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
  - perfscale.seatrial._cluster.nodes_ready
  - perfscale.seatrial._run
  - perfscale.seatrial._step_directory
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: full
options:
  hosts:
    description: The hosts, C(sutest) or C(driver) or both, whose records change.
    type: list
    elements: str
    default: []
  values:
    description: Values to merge into each of these records; keys as in the schema C(cluster/2).
    type: dict
    default: {}
  named:
    description: Record the cluster of this name that another machine has created, from O(store).
    type: str
    default: ''
  store:
    description: Store of the metadata that is required to destroy clusters, a folder or C(s3://bucket/prefix).
    type: str
    default: ''
  inventory:
    description:
      - Inventory of the session, besides that of the play. Of the machines of O(named), only those are recorded whose
        BMC has the address that an inventory of the session gives to the machine.
    type: path
    default: ''
  bastion:
    description: Host of the session's inventory that serves boot images; the folder of another one is not recorded.
    type: str
    default: ''
  share_dir:
    description: Folder of boot images on O(bastion); another folder is not recorded.
    type: str
    default: ''
  regain:
    description:
      - Replace a recorded kubeconfig that no longer exists by the one that the current session names
        (C(cluster_kubeconfig), C(KUBECONFIG)), or by one that C(-e) names. Fails if C(-e) names a kubeconfig of another
        API server.
    type: bool
    default: false
  identify:
    description:
      - Query each cluster that is not released, record its version, nodes and GPUs, and set its state to C(acquired). A
        cluster that the run owns is annotated with its owner before that, in its namespace C(kube-system).
    type: bool
    default: false
  timeout:
    description: Timeout for each API server and for O(nodes_ready), in seconds. V(0) means one attempt.
    type: float
    default: 0
  run_id:
    description: The run, with O(identify). Nodes with the label of another run are not counted.
    type: str
    default: ''
  show:
    description: Print a line for each identified cluster.
    type: bool
    default: false
  say:
    description: Lines to print without decoration, so that commands in them can be copied.
    type: list
    elements: str
    default: []
seealso:
  - module: perfscale.seatrial.cluster_targets
"""

EXAMPLES = r"""
- name: Record that the cluster was released
  perfscale.seatrial.run_cluster_records:
    run_dir: "{{ run_dir }}"
    hosts: [sutest, driver]
    values:
      state: released
"""

RETURN = r"""
clusters:
  description: The records by host.
  returned: success
  type: dict
distinct:
  description: Each cluster once, with its C(hosts) and its C(record).
  returned: success
  type: list
  elements: dict
operators:
  description: Whether the run started to install operators or to change what they manage, by its steps.
  returned: success
  type: bool
lines:
  description: A line of text for each identified cluster.
  returned: success
  type: list
  elements: str
  sample: ["sutest and driver: rehearsal t1121-k3f9xa at 127.0.0.1, Kubernetes v1.36.3, 4 nodes (simulated)"]
"""
