#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: data_science_cluster
short_description: Manage a DataScienceCluster and its components
version_added: 0.1.0
description:
  - Creates the DSCInitialization and DataScienceCluster of OpenShift AI or Open Data Hub, and waits until it is Ready
    and the Deployments of its components are available. The operator must be installed.
  - In a DataScienceCluster of this run, the requested components have the requested states and all others are Removed.
  - To a DataScienceCluster that this run did not create, components are only added, and only with O(adopt).
    O(state=absent) reverts these additions and keeps it.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: full
  diff_mode:
    support: partial
    details: In check mode on a cluster without the operator, only name and components of the DataScienceCluster.
  idempotent:
    support: full
options:
  state:
    description: Whether the DataScienceCluster should exist.
    type: str
    choices: [present, absent]
    default: present
  run_id:
    description: Id of the run that owns the created objects.
    type: str
    required: true
  name:
    description: Name of a new DataScienceCluster.
    type: str
    default: default-dsc
  api_version:
    description:
      - Version of the API that the installed operator uses, such as V(v2) for OpenShift AI 3. Another one is refused.
        Empty means the version that the cluster stores.
    type: str
    default: ""
  components:
    description:
      - Components that are set to Managed, such as V(dashboard), or to another state, such as V(kueue=Unmanaged).
        All others are set to Removed.
    type: list
    elements: str
    default: []
  settings:
    description:
      - Further values below C(spec), by path, such as C(components.kserve.serving.managementState).
      - Keys that contain dots are written in brackets and quotes.
    type: dict
    default: {}
  initialisation_settings:
    description:
      - Further values below C(spec) of the DSCInitialization, by path, such as C(serviceMesh.managementState).
      - A DSCInitialization that this run did not create must already have these values.
    type: dict
    default: {}
  adopt:
    description: Whether to add missing components to a DataScienceCluster that this run did not create.
    type: bool
    default: false
  applications_namespace:
    description: Namespace of the components, in a new DSCInitialization.
    type: str
    default: redhat-ods-applications
  monitoring_namespace:
    description: Namespace of the product's monitoring.
    type: str
    default: redhat-ods-monitoring
  monitoring:
    description: Whether to enable the product's own monitoring.
    type: bool
    default: false
  timeout:
    description: Timeout until the components are ready, or until they are deleted, in seconds.
    type: float
    default: 900
seealso:
  - module: perfscale.seatrial.olm_operator
"""

EXAMPLES = r"""
- name: Enable the components for fine-tuning
  perfscale.seatrial.data_science_cluster:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_id: "{{ run_id }}"
    components: [dashboard, trainer, kueue=Unmanaged]
"""

RETURN = r"""
changes:
  description: Changes that were made; in check mode, that would be made.
  returned: success
  type: list
  elements: str
components:
  description: The components that are Managed.
  returned: when O(state=present)
  type: list
  elements: str
kept:
  description: Objects that were kept, with the reason.
  returned: when O(state=absent)
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.rhoai.data_science_cluster import (
    DataScienceSpec,
    ensure_data_science_cluster_state,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            **ansible_module.CLUSTER,
            "run_id": {"type": "str", "required": True},
            "name": {"type": "str", "default": "default-dsc"},
            "api_version": {"type": "str", "default": ""},
            "components": {"type": "list", "elements": "str", "default": []},
            "settings": {"type": "dict", "default": {}},
            "initialisation_settings": {"type": "dict", "default": {}},
            "adopt": {"type": "bool", "default": False},
            "applications_namespace": {"type": "str", "default": "redhat-ods-applications"},
            "monitoring_namespace": {"type": "str", "default": "redhat-ods-monitoring"},
            "monitoring": {"type": "bool", "default": False},
            "timeout": {"type": "float", "default": 900},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        supports_check_mode=True,
    )
    params = module.params
    wanted = DataScienceSpec(**{name: params[name] for name in DataScienceSpec.__dataclass_fields__})

    def work(step: StepDirectory) -> dict[str, Any]:
        say = step.reporter(params["progress_file"], "rhoai")
        with Client.from_kubeconfig(params["kubeconfig"], params["context"]) as client, step.timed("cluster", "rhoai"):
            return ensure_data_science_cluster_state(client, wanted, params["state"], step, say, module.check_mode)

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
