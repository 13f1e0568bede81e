#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_owner_annotations
short_description: Annotate a cluster with its owner
version_added: 0.1.0
description:
  - Annotates the namespace C(kube-system) of a cluster that was created for a run with the run, the owner, the purpose
    and the expiry of the cluster. Use it only for clusters that the run owns.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._run.expires
  - perfscale.seatrial._run.owner
  - perfscale.seatrial._run.purpose
  - perfscale.seatrial._step
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  run_id:
    description: The run that the cluster was created for.
    type: str
    required: true
  taken:
    description: When the cluster was acquired.
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Annotate the cluster with its owner
  perfscale.seatrial.cluster_owner_annotations:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_id: "{{ run_id }}"
    owner: performance team
    expires: "2026-11-21T22:00:00Z"
"""

RETURN = r""" # """

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import cluster_owner_annotations
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            "run_id": {"type": "str", "required": True},
            **ansible_module.OWNER,
            **ansible_module.PURPOSE,
            **ansible_module.EXPIRES,
            "taken": {"type": "str", "default": ""},
            **ansible_module.STEP,
        },
        supports_check_mode=True,
    )
    given = module.params

    def work(step: Step) -> dict[str, Any]:
        with Client.from_kubeconfig(given["kubeconfig"], given["context"], timeout=30) as client:
            return cluster_owner_annotations.write(client, {**given, "run": given["run_id"]}, module.check_mode)

    ansible_module.run(module, work)


if __name__ == "__main__":
    main()
