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
  - Installs any number of operators side by side in one call and waits for all of them together, by watching. It makes
    Namespace, OperatorGroup, CatalogSource and Subscription where they are missing, approves the InstallPlan that
    installs what was asked for, and makes an operand.
  - Everything is checked before the first object is made. What another run or a person installed is used as it is and
    never changed. An OperatorGroup in the way, another version, another operator of the same kinds are refused.
  - When not everything is installed in time, the error says why, from InstallPlans, ClusterServiceVersions, catalogs,
    deployments, pods and events. These, and logs of pods, are kept in O(step_dir).
  - Removes what this run installed and what came with it, waits until it is gone, and names what holds it.
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
    description: Whether the operators are to be installed or removed.
    type: str
    choices: [present, absent]
    default: present
  run_id:
    description: Run to which everything belongs that is made, and of which everything is that is removed.
    type: str
    required: true
  operators:
    description: Operators to install. Used when O(state=present).
    type: list
    elements: dict
    default: []
    suboptions:
      package:
        description: Name of the package in its catalog.
        type: str
        required: true
      namespace:
        description: Namespace to install into. It is made when it is missing.
        type: str
        required: true
      catalog:
        description: CatalogSource to take it from. The one that has the package when empty.
        type: str
        default: ''
      catalog_namespace:
        description: Namespace of the CatalogSource.
        type: str
        default: openshift-marketplace
      catalog_image:
        description: Image of a catalog. The CatalogSource O(operators[].catalog) is made from it.
        type: str
        default: ''
      catalog_address:
        description: Address at which a catalog is served already. The CatalogSource O(operators[].catalog) leads to it.
        type: str
        default: ''
      catalog_pull_secret:
        description: Name in O(pull_secrets) of what O(operators[].catalog_image) is pulled with.
        type: str
        default: ''
      channel:
        description: Channel to follow; the package's default when empty.
        type: str
        default: ''
      version:
        description: Version to install, or the name of its ClusterServiceVersion; the newest of the channel when empty.
        type: str
        default: ''
      approval:
        description:
          - Who approves InstallPlans. V(auto) is V(Manual) with a O(operators[].version), so that OLM does not go on to
            newer ones, and V(Automatic) without.
        type: str
        choices: [auto, Manual, Automatic]
        default: auto
      watches:
        description:
          - Whether the operator watches its own namespace or all. V(auto) is its own where the operator can, and all in
            C(openshift-operators).
        type: str
        choices: [auto, own, all]
        default: auto
      environment:
        description: Environment variables of the operator's pods.
        type: dict
        default: {}
      monitoring:
        description: Label a namespace that is made for the cluster's monitoring.
        type: bool
        default: false
      objects:
        description:
          - Objects to make before the Subscription, such as Secrets that the operator reads.
          - They go into the operator's namespace unless they name one, which is made when it is missing.
        type: list
        elements: dict
        default: []
      operand:
        description: Custom resource to make once the operator runs.
        type: dict
        suboptions:
          kind:
            description: Kind of an example that the operator carries (C(alm-examples)).
            type: str
          manifest:
            description: The whole resource, instead of an example.
            type: dict
          name:
            description: Another name than that of the example.
            type: str
          namespace:
            description: Namespace of the resource; the operator's, if the example has one.
            type: str
          patch:
            description: JSON merge patch for the example or manifest. C(null) removes a key.
            type: dict
          append:
            description: Items to add to lists, by dotted path. What is in a list already is not added again.
            type: dict
          needs:
            description:
              - Objects that the resource refers to, such as ConfigMaps. They are made before it, in the operator's
                namespace unless they name one.
            type: list
            elements: dict
          single:
            description: There can be only one resource of this kind. Somebody else's is used if there is one.
            type: bool
            default: false
          ready:
            description: When it is ready. It is not waited for without.
            type: dict
            suboptions: &ready
              condition:
                description: A condition that must be True.
                type: str
              field:
                description:
                  - Path of a field, such as C(status.state) or C(status.allocatable["nvidia.com/gpu"]).
                  - It must have the value of C(equals), any but 0 without one.
                type: str
              equals:
                description: Value of the field.
                type: str
              available:
                description: All pods of the Deployment, StatefulSet or DaemonSet must be available.
                type: bool
                default: false
              metrics:
                description:
                  - Names of metrics that a Pod must serve, asked for through the API server. A played pod is not asked.
                type: list
                elements: str
              port:
                description: Port at which it serves them.
                type: int
                default: 9400
      expect:
        description: Objects that must be there and ready in the end.
        type: list
        elements: dict
        default: []
        suboptions:
          api_version:
            description: API version of the objects.
            type: str
            required: true
          kind:
            description: Kind of the objects.
            type: str
            required: true
          namespace:
            description: Only those in this namespace.
            type: str
            default: ''
          names:
            description: The objects of these names; all of them must be there.
            type: list
            elements: str
            default: []
          labels:
            description: The objects with these labels.
            type: dict
            default: {}
          at_least:
            description: How many there must be at least.
            type: int
            default: 1
          ready:
            description: When one is ready.
            type: dict
            required: true
            suboptions: *ready
  pull_secrets:
    description:
      - What images of catalogs are pulled with, by name. A Secret of that name is made of it beside the CatalogSource.
      - Each is the content of a file as C(podman login) writes it (C(dockerconfigjson)).
    type: dict
    default: {}
  packages:
    description: Packages to remove when O(state=absent); all that the run installed when empty.
    type: list
    elements: str
    default: []
  operands:
    description:
      - Resources that the operators made by themselves, to be removed with them when O(state=absent). Only those that
        appeared after this run installed the operator are.
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
      - Namespaces that the operators made by themselves, to be removed with them when O(state=absent). Only those that
        appeared after this run installed the operator are.
    type: list
    elements: str
    default: []
  crds:
    description:
      - Remove, when O(state=absent), the definitions that came with the operators too. Those that were there before,
        that another operator provides or of which there are objects stay.
    type: bool
    default: false
  force_finalizers:
    description:
      - Take the finalizers off what hangs when half of O(timeout) is over, when O(state=absent). What a finalizer was
        to tidy up outside of the cluster is left behind.
    type: bool
    default: false
  timeout:
    description: How long to wait for all operators, in seconds.
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
  description: What there is of each operator.
  returned: when O(state=present)
  type: list
  elements: dict
  contains:
    package:
      description: Name of the package.
      type: str
      sample: nfd
    namespace:
      description: Where it is installed.
      type: str
      sample: openshift-nfd
    csv:
      description: The ClusterServiceVersion.
      type: str
      sample: nfd.4.18.0
    version:
      description: Its version.
      type: str
      sample: 4.18.0
    phase:
      description: Its phase.
      type: str
      sample: Succeeded
    channel:
      description: The channel that it follows.
      type: str
      sample: stable
    catalog:
      description: The catalog that it comes from.
      type: str
      sample: redhat-operators
    foreign:
      description: Whether somebody else installed it.
      type: bool
    created:
      description: Objects that were made for it.
      type: list
      elements: str
    changes:
      description: What was done for it.
      type: list
      elements: str
    operand:
      description: Name of the custom resource, if one was asked for.
      type: str
removed:
  description: What was deleted, or which Subscriptions would be in check mode.
  returned: when O(state=absent)
  type: list
  elements: str
kept:
  description: What stays, and why.
  returned: when O(state=absent)
  type: list
  elements: str
finalizers:
  description: Objects whose finalizers were taken off.
  returned: when O(state=absent)
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._olm import (
    desired_state,
    install_operators,
    operator_options,
    remove_operators,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **operator_options.OPTIONS,
            **_common_options.STEP,
            **_common_options.PROGRESS,
        },
        supports_check_mode=True,
    )
    given = module.params

    def work(step: Step) -> dict[str, Any]:
        say = step.teller(given["progress_file"], "operators")
        with Client.from_kubeconfig(given["kubeconfig"], given["context"]) as client:
            if given["state"] == "absent":
                order = remove_operators.RemovalSpec(
                    **{name: given[name] for name in remove_operators.RemovalSpec.__dataclass_fields__}
                )
                with step.timed("cleanup", "operators"):
                    return remove_operators.remove(client, order, say, module.check_mode)
            asked = desired_state.operators(given["operators"])
            with step.timed("cluster", "operators"):
                return install_operators.install(
                    client,
                    asked,
                    given["run_id"],
                    given["timeout"],
                    step,
                    say,
                    module.check_mode,
                    given["pull_secrets"],
                )

    _module_main.run(module, work)


if __name__ == "__main__":
    main()
