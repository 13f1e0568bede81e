#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: inference_deployment
short_description: Deploy inference servers and wait until they answer
version_added: 1.0.0
description:
  - Applies the objects of inference servers by server-side apply, creates their namespace if it is missing, and waits
    until all servers are ready and answer.
  - Records in C(deployment.json) of O(point_dir) when the pods were created, scheduled, started and ready, and when the
    servers answered. The times are since the objects were applied, each between two looks at the cluster.
  - The objects get the labels of the run, by which M(perfscale.seatrial.cleanup_run) removes them.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._inference_tls
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: none
    details: Nothing can be waited for that was not created.
  diff_mode:
    support: full
  idempotent:
    support: full
    details: Servers whose objects are the same stay, and no times are recorded.
options:
  run_id:
    description: Id of the run to which the servers belong.
    type: str
    required: true
  point_dir:
    description: Directory of the test point.
    type: path
    required: true
  namespace:
    description: Namespace of the objects that name none. It is created if it does not exist.
    type: str
    required: true
  definitions:
    description: The objects. Pods need the labels C(perfscale.seatrial/run) and C(perfscale.seatrial/part=server).
    type: list
    elements: dict
    required: true
  secrets:
    description: Content of each Secret that is applied before O(definitions), by the name of the Secret.
    type: dict
    default: {}
  creates:
    description:
      - Kinds of objects that controllers create for O(definitions), with the labels of the servers, before their pods.
        Each is a stage, and may be named in O(ready).
    type: list
    elements: dict
    default: []
    suboptions:
      api_version:
        description: API version, such as V(apps/v1).
        type: str
        required: true
      kind:
        description: Kind of the objects.
        type: str
        required: true
  ready:
    description: Conditions that hold when all servers are ready.
    type: list
    elements: dict
    default: []
    suboptions: &condition
      kind:
        description: Kind of the objects.
        type: str
        required: true
      jmespath:
        description: An expression on each object.
        type: str
        required: true
  failed:
    description: Conditions under which the servers will never be ready. The value of the expression says why.
    type: list
    elements: dict
    default: []
    suboptions: *condition
  url:
    description: Where the base URL of the servers is found. Not used with O(urls).
    type: dict
    default: {}
    suboptions:
      kind:
        description: Kind of the objects, each with the URL of one server.
        type: str
      jmespath:
        description: An expression on such an object, empty as long as there is no URL.
        type: str
  urls:
    description: Base URLs at which the servers answer, if the objects do not have them.
    type: list
    elements: str
    default: []
  health_path:
    description: Path that is requested until it is answered with a status below 400.
    type: str
    default: /health
  timeout:
    description: Timeout until all servers answer, in seconds.
    type: float
    default: 1800
seealso:
  - module: perfscale.seatrial.inference_load
"""

EXAMPLES = r"""
- name: Deploy the servers
  perfscale.seatrial.inference_deployment:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_id: "{{ run_id }}"
    point_dir: "{{ run_dir }}/points/001"
    namespace: serving
    definitions: "{{ lookup('ansible.builtin.template', 'servers.yaml.j2') | from_yaml_all }}"
    ready: [{kind: Deployment, jmespath: "status.readyReplicas == spec.replicas"}]
    urls: [http://models.example.com]
"""

RETURN = r"""
urls:
  description: Base URLs of the servers.
  returned: success
  type: list
  elements: str
stages:
  description: >-
    For each kind of O(creates), and each of C(created), C(scheduled), C(started), C(ready) and C(answers), the last
    time without it and the first one with it, in seconds since the objects were applied. Empty if nothing was changed.
  returned: success
  type: dict
  sample: {created: [0.02, 0.15], scheduled: [0.02, 0.15], started: [0.9, 1.0], ready: [1.4, 1.5], answers: [1.4, 1.5]}
applied:
  description: Titles of the objects that were created or changed.
  returned: success
  type: list
  elements: str
msg:
  description: The result in one line.
  returned: success
  type: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import ProgressLog, StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import HttpTransport, tls_context
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.server_deployment import (
    ServerDeployment,
    ServerDeploymentSpec,
    secret_objects,
)

CONDITION = {"kind": {"type": "str", "required": True}, "jmespath": {"type": "str", "required": True}}
SPEC = {
    **ansible_module.CLUSTER,
    "run_id": {"type": "str", "required": True},
    "point_dir": {"type": "path", "required": True},
    "namespace": {"type": "str", "required": True},
    "definitions": {"type": "list", "elements": "dict", "required": True},
    "secrets": {"type": "dict", "default": {}, "no_log": True},
    "creates": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"api_version": {"type": "str", "required": True}, "kind": {"type": "str", "required": True}},
    },
    "ready": {"type": "list", "elements": "dict", "default": [], "options": CONDITION},
    "failed": {"type": "list", "elements": "dict", "default": [], "options": CONDITION},
    "url": {"type": "dict", "default": {}, "options": {"kind": {"type": "str"}, "jmespath": {"type": "str"}}},
    "urls": {"type": "list", "elements": "str", "default": []},
    "health_path": {"type": "str", "default": "/health"},
    **ansible_module.INFERENCE_TLS,
    "timeout": {"type": "float", "default": 1800.0},
    **ansible_module.STEP,
    **ansible_module.PROGRESS,
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC)
    params = module.params

    def work(step: StepDirectory) -> dict[str, Any]:
        spec = ServerDeploymentSpec(
            run=params["run_id"],
            namespace=params["namespace"],
            definitions=[*secret_objects(params["secrets"]), *params["definitions"]],
            creates=params["creates"],
            ready=params["ready"],
            failed=params["failed"],
            url=params["url"],
            urls=params["urls"],
            health_path=params["health_path"],
            timeout=params["timeout"],
        )
        progress = ProgressLog(params["progress_file"], step)
        transport = HttpTransport(tls_context(params["ca_file"] or "", not params["validate_certs"]))
        with Client.from_kubeconfig(params["kubeconfig"], params["context"], timeout=30) as client:
            return ServerDeployment(client, spec, transport, progress.say).run(Path(params["point_dir"]), step)

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
