#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_targets
short_description: Select the clusters that a run acquires
version_added: 0.1.0
description:
  - Reads the settings C(cluster_provider), C(cluster_kubeconfig), C(cluster_context), C(cluster_expected_host)
    and C(rehearsal_name), and their values in the inventory for its hosts C(sutest) and C(driver).
  - Refuses an unknown provider, an existing cluster without a kubeconfig, and a cluster at another host than expected,
    before anything is touched.
  - Writes the clusters to C(cluster.yml) in state C(acquiring), so that a run that is killed right afterwards can still
    release them.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
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
  run_id:
    description: The run's id, which is also the default name of its clusters.
    type: str
    required: true
seealso:
  - module: perfscale.seatrial.run_cluster_records
"""

EXAMPLES = r"""
- name: Select the clusters
  perfscale.seatrial.cluster_targets:
    run_dir: "{{ run_dir }}"
    run_id: "{{ run_id }}"
  register: __cluster_targets
"""

RETURN = r"""
targets:
  description:
    - One entry per cluster, with C(hosts), C(provider), its C(settings), the C(steps) of its provider, C(acquired)
      (whether the run has acquired it already), and its initial record (C(name) of a rehearsal cluster,
      C(kubeconfig) and C(context) of an existing one).
  returned: success
  type: list
  elements: dict
  sample:
    - hosts: [sutest, driver]
      provider: rehearsal
      name: t1121-k3f9xa
clusters:
  description: The records of cluster.yml by host.
  returned: success
  type: dict
"""
