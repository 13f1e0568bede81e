#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: olm_operator
short_description: Install and remove operators through the Operator Lifecycle Manager
version_added: 0.1.0
description:
  - Installs any number of operators in parallel and waits for all of them with watches. It creates missing Namespaces,
    OperatorGroups, CatalogSources and Subscriptions, approves the InstallPlan of the requested version, and creates the
    operand.
  - Everything is checked before the first object is created. Operators that another run or a person installed are used
    unchanged. A conflicting OperatorGroup, a different version of an installed operator, and a different operator for
    the same kinds are refused.
  - If an operator is not installed in time, the error gives the causes found in InstallPlans, ClusterServiceVersions,
    catalogs, Deployments, Pods and Events. These objects and the logs of the pods are saved in O(step_dir).
  - Removes the operators that this run installed together with the objects that came with them, waits until they are
    deleted, and names the finalizer that blocks a deletion.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._olm
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: full
  diff_mode:
    support: partial
    details:
      - In check mode, what an operator that is not installed yet would get after its Subscription is not known.
      - In check mode with O(state=absent), only the objects in RV(removed).
  idempotent:
    support: full
options:
  state:
    description: Whether the operators should be installed or removed.
    type: str
    choices: [present, absent]
    default: present
  run_id:
    description: Id of the run that owns the created objects. Only objects of this run are removed.
    type: str
    required: true
  pull_secrets:
    description:
      - Credentials for pulling catalog images, by name. A Secret of that name is created beside the CatalogSource.
      - Each value is the content of a C(dockerconfigjson) file, as C(podman login) writes it.
    type: dict
    default: {}
  packages:
    description: Packages to remove with O(state=absent). Empty means all packages that the run installed.
    type: list
    elements: str
    default: []
  operands:
    description:
      - Resources that the operators created themselves, to remove with O(state=absent). Only those that were created
        after this run installed the operator are removed.
    type: list
    elements: dict
    default: []
    suboptions:
      kind:
        description: Kind of the resource.
        type: str
        required: true
      name:
        description: Name of the resource.
        type: str
        required: true
  namespaces:
    description:
      - Namespaces that the operators created themselves, to remove with O(state=absent). Only those that were created
        after this run installed the operator are removed.
    type: list
    elements: str
    default: []
  crds:
    description:
      - Whether to also remove, with O(state=absent), the CustomResourceDefinitions that came with the operators.
        Definitions that existed before, that another operator provides, or that have objects are kept.
    type: bool
    default: false
  force_finalizers:
    description:
      - Whether to remove, with O(state=absent), the finalizers of resources that still exist after half of O(timeout).
        External resources that a finalizer would have deleted are then left behind.
    type: bool
    default: false
  hand_over:
    description:
      - Whether to remove, with O(state=absent), the label of the run from operators that stay because others use their
        kinds, and from the namespaces, catalogs, definitions and operands that came with them. No cleanup of this run
        deletes them then.
    type: bool
    default: false
    version_added: 1.0.0
  timeout:
    description: Timeout for all operators together, in seconds.
    type: float
    default: 900
seealso:
  - module: perfscale.seatrial.olm_operator_info
"""

EXAMPLES = r"""
- name: Install two operators side by side
  perfscale.seatrial.olm_operator:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_id: "{{ run_id }}"
    operators:
      - package: nfd
        namespace: openshift-nfd
        operand: {kind: NodeFeatureDiscovery, ready: {condition: Available}}
      - package: gpu-operator-certified
        namespace: nvidia-gpu-operator
        channel: v24.9
        version: 24.9.1
        operand: {kind: ClusterPolicy, ready: {field: status.state, equals: ready}}

- name: Remove what this run installed, and the definitions that came with it
  perfscale.seatrial.olm_operator:
    state: absent
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_id: "{{ run_id }}"
    crds: true
"""

RETURN = r"""
operators:
  description: State of each operator.
  returned: when O(state=present)
  type: list
  elements: dict
  contains:
    package:
      description: Name of the package.
      type: str
      sample: nfd
    namespace:
      description: Namespace that it is installed in.
      type: str
      sample: openshift-nfd
    csv:
      description: Name of the ClusterServiceVersion.
      type: str
      sample: nfd.4.18.0
    version:
      description: Version of the operator.
      type: str
      sample: 4.18.0
    phase:
      description: Phase of the ClusterServiceVersion.
      type: str
      sample: Succeeded
    channel:
      description: Channel of the Subscription.
      type: str
      sample: stable
    catalog:
      description: CatalogSource of the Subscription.
      type: str
      sample: redhat-operators
    foreign:
      description: Whether another run or a person installed it.
      type: bool
    created:
      description: Objects that were created for it; in check mode, that would be created first.
      type: list
      elements: str
    changes:
      description: Changes that were made for it; in check mode, that would be made first.
      type: list
      elements: str
    operand:
      description: Name of the custom resource, if one was requested.
      type: str
removed:
  description: Deleted objects; in check mode, the Subscriptions that would be deleted.
  returned: when O(state=absent)
  type: list
  elements: str
kept:
  description: Objects that were kept, with the reason.
  returned: when O(state=absent)
  type: list
  elements: str
finalizers:
  description: Objects whose finalizers were removed.
  returned: when O(state=absent)
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.olm import (
    install_operators,
    operator_specs,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.olm import (
    operator_removal as remove_operators,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **operator_specs.MODULE_OPTIONS,
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        supports_check_mode=True,
    )
    params = module.params

    def work(step: StepDirectory) -> dict[str, Any]:
        say = step.reporter(params["progress_file"], "operators")
        with Client.from_kubeconfig(params["kubeconfig"], params["context"]) as client:
            if params["state"] == "absent":
                removal = remove_operators.RemovalSpec(
                    **{name: params[name] for name in remove_operators.RemovalSpec.__dataclass_fields__}
                )
                with step.timed("cleanup", "operators"):
                    return remove_operators.remove_operators(client, removal, say, module.check_mode)
            operators = operator_specs.read_operators(params["operators"])
            with step.timed("cluster", "operators"):
                return install_operators.install_operators(
                    client,
                    operators,
                    params["run_id"],
                    params["timeout"],
                    step,
                    say,
                    module.check_mode,
                    params["pull_secrets"],
                )

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
