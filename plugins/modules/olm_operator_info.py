#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: olm_operator_info
short_description: Say which operators the Operator Lifecycle Manager has installed
version_added: 0.1.0
description:
  - Returns every Subscription with its version, phase, images and the run that it belongs to. A cluster without OLM has
    none.
  - With O(step_dir) it keeps the state of them there, in C(artifacts). These are the resources of their kinds, the
    objects and events of their namespaces, the logs of the pods, and images by digest.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._step
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  packages:
    description: Only these packages; all when empty.
    type: list
    elements: str
    default: []
  namespaces:
    description: Further namespaces to keep the state of, where they exist. Used with O(step_dir).
    type: list
    elements: str
    default: []
seealso:
  - module: perfscale.seatrial.olm_operator
"""

EXAMPLES = r"""
- name: Look at what is installed
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
      description: Where it is installed.
      type: str
    catalog:
      description: The catalog that it comes from.
      type: str
    channel:
      description: The channel that it follows.
      type: str
    approval:
      description: Who approves its InstallPlans.
      type: str
    csv:
      description: Its ClusterServiceVersion.
      type: str
    version:
      description: Its version.
      type: str
    phase:
      description: Phase of the ClusterServiceVersion.
      type: str
    message:
      description: What the ClusterServiceVersion says.
      type: str
    images:
      description: Images that it names.
      type: list
      elements: str
    run:
      description: Run that installed it; empty when no run of ours did.
      type: str
    trouble:
      description: What OLM says against its Subscription.
      type: list
      elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._olm.installed_operators import capture, info
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **_common_options.CLUSTER,
            "packages": {"type": "list", "elements": "str", "default": []},
            "namespaces": {"type": "list", "elements": "str", "default": []},
            **_common_options.STEP,
        },
        supports_check_mode=True,
    )

    def work(step: Step) -> dict[str, Any]:
        with Client.from_kubeconfig(module.params["kubeconfig"], module.params["context"]) as client:
            found = info(client, module.params["packages"])
            capture(client, found, step, module.params["namespaces"])
            return {"changed": False, "operators": found}

    _module_main.run(module, work)


if __name__ == "__main__":
    main()
