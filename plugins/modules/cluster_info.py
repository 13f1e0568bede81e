#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_info
short_description: Identify a cluster
version_added: 0.1.0
description:
  - Reads the version, the operators, the nodes and their GPUs from an API server in a few requests, and whether it is
    OpenShift and whether its nodes are real or simulated.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._cluster.nodes_ready
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details: It changes nothing.
  idempotent:
    support: full
options:
  expected_host:
    description:
      - Fail before a request is sent unless the kubeconfig leads to this API server. A host, C(host:port) or a URL.
    type: str
    default: ''
  timeout:
    description: Timeout for the API server and for O(nodes_ready), in seconds. V(0) means one attempt.
    type: float
    default: 0
  run_id:
    description: Do not count nodes with the label of another run than this one. Empty counts all nodes.
    type: str
    default: ''
  kinds:
    description: Kinds to check, such as V(trainer.kubeflow.org/v1alpha1/TrainJob).
    type: list
    elements: str
    default: []
  namespaces:
    description: Namespaces to check.
    type: list
    elements: str
    default: []
  secrets:
    description: Secrets to check, as C(namespace/name). Their content is not read.
    type: list
    elements: str
    default: []
    version_added: 1.0.0
"""

EXAMPLES = r"""
- name: Gather the identity of the cluster
  perfscale.seatrial.cluster_info:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
  register: __cluster_info
"""

RETURN = r"""
cluster:
  description: Values for the record of the cluster; keys as in the schema C(cluster/2).
  returned: success
  type: dict
  sample:
    api_host: 127.0.0.1
    version: v1.36.3
    openshift: null
    nodes: 4
    node_names: [gpu-0000, gpu-0001, gpu-0002, gpu-0003]
    cpus: 256.0
    memory_gib: 1024
    operators: {nfd: 4.18.1}
    gpus: 32
    gpu_products: {NVIDIA-A100-SXM4-80GB: 32}
    kind: light
    simulated: true
    simulated_writers: [node]
kinds:
  description: Whether the server has each of the O(kinds).
  returned: success
  type: dict
  sample: {trainer.kubeflow.org/v1alpha1/TrainJob: true}
namespaces:
  description:
    - For each of the O(namespaces), the run in its label, an empty string without a label, or null if the namespace
      does not exist.
  returned: success
  type: dict
  sample: {fine-tuning: t1121-k3f9xa}
missing_secrets:
  description: Those of the O(secrets) that do not exist.
  returned: success
  type: list
  elements: str
  sample: [team-a/token]
nodes_ready:
  description: Number of nodes that are Ready.
  returned: success
  type: int
server:
  description: URL of the API server.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import cluster_properties, providers
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            "expected_host": {"type": "str", "default": ""},
            "timeout": {"type": "float", "default": 0},
            "nodes_ready": {"type": "int", "default": 0},
            "run_id": {"type": "str", "default": ""},
            "kinds": {"type": "list", "elements": "str", "default": []},
            "namespaces": {"type": "list", "elements": "str", "default": []},
            "secrets": {"type": "list", "elements": "str", "default": [], "no_log": False},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        supports_check_mode=True,
    )
    params = module.params

    def work(step: StepDirectory) -> dict[str, Any]:
        say = step.reporter(params["progress_file"], "cluster")
        with (
            Client.from_kubeconfig(params["kubeconfig"], params["context"], timeout=30) as client,
            step.timed("cluster", "identity"),
        ):
            if params["expected_host"]:
                providers.check_api_host(client.access, params["expected_host"])
            cluster = cluster_properties.wait_for_ready_cluster(
                client, params["timeout"], params["nodes_ready"], say, params["run_id"]
            )
            step.log(f"{client.access.server} is {cluster.version}, {cluster.nodes} nodes, {cluster.gpus} GPUs")
            return {
                "changed": False,
                "cluster": cluster.record(),
                "kinds": cluster_properties.existence_of_kinds(client, params["kinds"]),
                "namespaces": cluster_properties.read_namespace_runs(client, params["namespaces"]),
                "missing_secrets": cluster_properties.secrets_that_do_not_exist(client, params["secrets"]),
                "nodes_ready": cluster.nodes_ready,
                "server": client.access.server,
            }

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
