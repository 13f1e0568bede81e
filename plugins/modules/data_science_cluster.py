#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: data_science_cluster
short_description: Have a DataScienceCluster with exactly the components that are asked for
version_added: 0.1.0
description:
  - Makes the DSCInitialization and DataScienceCluster of OpenShift AI or Open Data Hub, and waits until it is Ready and
    the Deployments of its components are available. The operator must be installed.
  - Of a DataScienceCluster of this run the components asked for are Managed and every other one is Removed.
  - To one that this run did not make components are only added, and only with O(adopt). With O(state=absent) these are
    taken back, and it stays.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._step
  - perfscale.seatrial._step.progress
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  state:
    description: Whether it is to be there.
    type: str
    choices: [present, absent]
    default: present
  run_id:
    description: Run to which it belongs.
    type: str
    required: true
  name:
    description: Name of the DataScienceCluster, when one is made.
    type: str
    default: default-dsc
  components:
    description: Components to manage, as the definition names them, such as V(dashboard) or V(trainingoperator).
    type: list
    elements: str
    default: []
  settings:
    description:
      - Further values below C(spec), by path, such as C(components.kserve.serving.managementState).
      - A key with dots in it stands in brackets and quotes.
    type: dict
    default: {}
  initialisation_settings:
    description:
      - Further values below C(spec) of the DSCInitialization, by path, such as C(serviceMesh.managementState).
      - On one that this run did not make they must be there already.
    type: dict
    default: {}
  adopt:
    description: Add missing components to a DataScienceCluster that this run did not make.
    type: bool
    default: false
  applications_namespace:
    description: Namespace of the components, when the DSCInitialization is made.
    type: str
    default: redhat-ods-applications
  monitoring_namespace:
    description: Namespace of the product's monitoring.
    type: str
    default: redhat-ods-monitoring
  monitoring:
    description: Let the product monitor itself.
    type: bool
    default: false
  timeout:
    description: How long to wait, in seconds.
    type: float
    default: 900
seealso:
  - module: perfscale.seatrial.olm_operator
"""

EXAMPLES = r"""
- name: Have the components that fine-tuning needs
  perfscale.seatrial.data_science_cluster:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_id: "{{ run_id }}"
    components: [dashboard, trainingoperator]
"""

RETURN = r"""
changes:
  description: What was changed, or would be in check mode.
  returned: success
  type: list
  elements: str
components:
  description: The components that are managed.
  returned: when O(state=present)
  type: list
  elements: str
kept:
  description: What stays, and why.
  returned: when O(state=absent)
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._rhoai.data_science_cluster import (
    DataScienceSpec,
    bring,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            **_common_options.CLUSTER,
            "run_id": {"type": "str", "required": True},
            "name": {"type": "str", "default": "default-dsc"},
            "components": {"type": "list", "elements": "str", "default": []},
            "settings": {"type": "dict", "default": {}},
            "initialisation_settings": {"type": "dict", "default": {}},
            "adopt": {"type": "bool", "default": False},
            "applications_namespace": {"type": "str", "default": "redhat-ods-applications"},
            "monitoring_namespace": {"type": "str", "default": "redhat-ods-monitoring"},
            "monitoring": {"type": "bool", "default": False},
            "timeout": {"type": "float", "default": 900},
            **_common_options.STEP,
            **_common_options.PROGRESS,
        },
        supports_check_mode=True,
    )
    given = module.params
    order = DataScienceSpec(**{name: given[name] for name in DataScienceSpec.__dataclass_fields__})

    def work(step: Step) -> dict[str, Any]:
        say = step.teller(given["progress_file"], "rhoai")
        with Client.from_kubeconfig(given["kubeconfig"], given["context"]) as client, step.timed("cluster", "rhoai"):
            return bring(client, order, given["state"], step, say, module.check_mode)

    _module_main.run(module, work)


if __name__ == "__main__":
    main()
