#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: olm_operator_info
short_description: List operators that the Operator Lifecycle Manager has installed
version_added: 0.1.0
description:
  - Returns every Subscription with its version, phase, images and the run that it belongs to. The list is empty on a
    cluster without OLM.
  - With O(step_dir) it also saves the state of the operators in C(artifacts) there. This includes their custom
    resources, the objects and events in their namespaces, pod logs, and image digests.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._step_directory
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details: It changes nothing.
  idempotent:
    support: full
options:
  packages:
    description: Packages to list. Empty means all packages.
    type: list
    elements: str
    default: []
  namespaces:
    description: Further namespaces to save the state of, where they exist. Used with O(step_dir).
    type: list
    elements: str
    default: []
seealso:
  - module: perfscale.seatrial.olm_operator
"""

EXAMPLES = r"""
- name: List installed operators
  perfscale.seatrial.olm_operator_info:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
  register: found
"""

RETURN = r"""
operators:
  description: One entry for each Subscription.
  returned: success
  type: list
  elements: dict
  contains:
    package:
      description: Name of the package.
      type: str
    namespace:
      description: Namespace that it is installed in.
      type: str
    catalog:
      description: CatalogSource of the Subscription.
      type: str
    channel:
      description: Channel of the Subscription.
      type: str
    approval:
      description: How InstallPlans are approved (C(installPlanApproval)).
      type: str
    csv:
      description: Name of the ClusterServiceVersion.
      type: str
    version:
      description: Version of the operator.
      type: str
    phase:
      description: Phase of the ClusterServiceVersion.
      type: str
    message:
      description: Status message of the ClusterServiceVersion.
      type: str
    images:
      description: Images that the ClusterServiceVersion refers to.
      type: list
      elements: str
    run:
      description: Id of the run that installed it. Empty if no run did.
      type: str
    trouble:
      description: Errors in the conditions of its Subscription.
      type: list
      elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.olm.installation_diagnosis import (
    installed_operators,
    save_state_of_operators,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            "packages": {"type": "list", "elements": "str", "default": []},
            "namespaces": {"type": "list", "elements": "str", "default": []},
            **ansible_module.STEP,
        },
        supports_check_mode=True,
    )

    def work(step: StepDirectory) -> dict[str, Any]:
        with Client.from_kubeconfig(module.params["kubeconfig"], module.params["context"]) as client:
            operators = installed_operators(client, module.params["packages"])
            save_state_of_operators(client, operators, step, module.params["namespaces"])
            return {"changed": False, "operators": operators}

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
