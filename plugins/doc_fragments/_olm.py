# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: what module olm_operator installs."""

from __future__ import annotations


class ModuleDocFragment:
    """The operators, as plugins/module_utils/_stack/olm/operator_specs.py declares them."""

    DOCUMENTATION = r"""
options:
  operators:
    description: Operators to install. Used with O(state=present).
    type: list
    elements: dict
    default: []
    suboptions:
      package:
        description: Name of the package in its catalog.
        type: str
        required: true
      namespace:
        description: Namespace to install into. It is created if it does not exist.
        type: str
        required: true
      catalog:
        description: CatalogSource that provides the package. Empty means the only one that has the package.
        type: str
        default: ''
      catalog_namespace:
        description: Namespace of the CatalogSource.
        type: str
        default: openshift-marketplace
      catalog_image:
        description: Image of a catalog. The CatalogSource O(operators[].catalog) is created from it.
        type: str
        default: ''
      catalog_address:
        description: Address (C(host:port)) of a running catalog. The CatalogSource O(operators[].catalog) refers to it.
        type: str
        default: ''
      catalog_pull_secret:
        description: Key in O(pull_secrets) of the credentials for pulling O(operators[].catalog_image).
        type: str
        default: ''
      channel:
        description: Channel to subscribe to. Empty means the default channel of the package.
        type: str
        default: ''
      any_channel:
        description:
          - Whether an operator that another run or a person installed may follow another channel than
            O(operators[].channel). It is then used as it is.
        type: bool
        default: false
      version:
        description:
          - Version to install, or the name of its ClusterServiceVersion. Empty means the newest version in the channel.
        type: str
        default: ''
      major:
        description:
          - Major number that the version must have, such as V(3). Another one is refused, in the channel as well as
            of an operator that is installed. Empty means any.
        type: str
        default: ''
      approval:
        description:
          - How InstallPlans are approved. V(auto) means V(Manual) if O(operators[].version) is set, so that OLM does
            not upgrade to a newer version, and V(Automatic) otherwise.
        type: str
        choices: [auto, Manual, Automatic]
        default: auto
      watches:
        description:
          - Whether the operator watches its own namespace or all namespaces. V(auto) means V(own) if the operator
            supports that, and V(all) in C(openshift-operators).
        type: str
        choices: [auto, own, all]
        default: auto
      environment:
        description: Environment variables of the operator's pods.
        type: dict
        default: {}
      monitoring:
        description: Whether to label the namespace for the cluster's monitoring, if this run created it.
        type: bool
        default: false
      objects:
        description:
          - Objects to create before the Subscription, such as Secrets that the operator reads.
          - Objects without a namespace are created in the operator's namespace. A missing namespace is created.
        type: list
        elements: dict
        default: []
      operand:
        description: Custom resource to create once the operator runs.
        type: dict
        suboptions:
          kind:
            description: Kind of one of the examples in the operator's annotation C(alm-examples).
            type: str
          manifest:
            description: The complete resource, instead of an example.
            type: dict
          name:
            description: Name of the resource, instead of the example's name.
            type: str
          namespace:
            description: Namespace of the resource. The default is the operator's namespace, if the example has one.
            type: str
          patch:
            description: JSON merge patch for the example or manifest. C(null) removes a key.
            type: dict
          append:
            description: Items to add to lists, by dotted path. Items that a list already has are not added again.
            type: dict
          needs:
            description:
              - Objects that the resource refers to, such as ConfigMaps. They are created before the resource. Objects
                without a namespace are created in the operator's namespace.
            type: list
            elements: dict
          single:
            description:
              - Whether only one resource of this kind can exist. An existing one that this run did not create is then
                used.
            type: bool
            default: false
          ready:
            description: When the resource is ready. Without it the module does not wait for the resource.
            type: dict
            suboptions: &ready
              condition:
                description: A condition that must be V(True).
                type: str
              field:
                description:
                  - Path of a field, such as C(status.state) or C(status.allocatable["nvidia.com/gpu"]).
                  - It must have the value of C(equals), or any value except V(0) if C(equals) is not set.
                type: str
              equals:
                description: Value of the field.
                type: str
              available:
                description: Whether all pods of the Deployment, StatefulSet or DaemonSet must be available.
                type: bool
                default: false
              metrics:
                description:
                  - Names of metrics that a Pod must serve. They are read through the API server. Simulated pods are not
                    queried.
                type: list
                elements: str
              port:
                description: Port at which the Pod serves metrics.
                type: int
                default: 9400
      expect:
        description: Objects that must exist and be ready before the installation is complete.
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
            description: Namespace of the objects. Empty means all namespaces.
            type: str
            default: ''
          names:
            description: Names of the objects. All of them must exist.
            type: list
            elements: str
            default: []
          labels:
            description: Labels of the objects.
            type: dict
            default: {}
          at_least:
            description: Minimum number of objects.
            type: int
            default: 1
          ready:
            description: When an object is ready.
            type: dict
            required: true
            suboptions: *ready
      creates:
        description:
          - What the operator creates itself, without OLM. It is recorded in an annotation of the Subscription. A
            removal of the operator removes of it what was created after the Subscription.
        type: dict
        suboptions:
          definitions:
            description: Names of CustomResourceDefinitions. They are removed if no objects of others exist.
            type: list
            elements: str
            default: []
          operands:
            description: Custom resources.
            type: list
            elements: dict
            default: []
            suboptions:
              kind: {description: Kind of the resource., type: str, required: true}
              name: {description: Name of the resource., type: str, required: true}
          namespaces:
            description: Names of namespaces. They are removed if they contain no objects of others.
            type: list
            elements: str
            default: []
          objects:
            description:
              - Objects outside of these namespaces that the operator leaves behind, by name or by label.
              - A CustomResourceDefinition is removed last, and only without objects.
            type: list
            elements: dict
            default: []
            suboptions:
              api_version: {description: API version of the objects., type: str, required: true}
              kind: {description: Kind of the objects., type: str, required: true}
              namespace: {description: Namespace of the objects. Empty means all., type: str, default: ""}
              names: {description: Names of the objects., type: list, elements: str, default: []}
              labels:
                description: Labels that all of them have; an empty value stands for any.
                type: dict
                default: {}
"""
