#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_preload
short_description: Pull an image on the nodes that a run will use
version_added: 0.1.0
description:
  - Runs a DaemonSet with the image until it is on every selected node, and removes the DaemonSet, also after a failure.
  - Returns how long each node pulled.
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
    support: none
    details: The nodes on which it pulls the image are in RV(summary).
  idempotent:
    support: full
    details: A second call reports no change, because the image is on all nodes.
options:
  namespace:
    description: Namespace of the DaemonSet, which must exist.
    type: str
    required: true
  image:
    description: The image.
    type: str
    required: true
  run_id:
    description: Run to which the DaemonSet belongs.
    type: str
    required: true
  node_selector:
    description: Labels of the nodes.
    type: dict
    default: {}
  tolerations:
    description: Tolerations of taints of the nodes.
    type: list
    elements: dict
    default: []
  resources:
    description: Resources that a node must have, and the least amount of each, such as V({"nvidia.com/gpu":1}).
    type: dict
    default: {}
  service_account:
    description: Service account with the secrets for the registry of the image. Empty means the default one.
    type: str
    default: ''
  timeout:
    description: Timeout until the image is on all nodes, in seconds.
    type: float
    default: 1800
"""

EXAMPLES = r"""
- name: Pull the image of the training on all GPU nodes
  perfscale.seatrial.image_preload:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    namespace: training
    image: registry.example.com/training:1.0
    run_id: "{{ run_id }}"
    resources: {nvidia.com/gpu: 1}
"""

RETURN = r"""
nodes:
  description: One entry for each node, by name.
  returned: success, not in check mode
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node.
      type: str
    there:
      description: Whether the image was on the node before.
      type: bool
    simulated:
      description: Whether the node is simulated and pulled nothing.
      type: bool
    seconds:
      description: Duration of the pull, or null if the node did not report it.
      type: float
    waited:
      description: The same with the time that the pull waited for others on the node.
      type: float
    bytes:
      description: Size of the image, or null if the node did not report it.
      type: int
summary:
  description: The result in one sentence.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module, files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import image_preload


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            "namespace": {"type": "str", "required": True},
            "image": {"type": "str", "required": True},
            "run_id": {"type": "str", "required": True},
            "node_selector": {"type": "dict", "default": {}},
            "tolerations": {"type": "list", "elements": "dict", "default": []},
            "resources": {"type": "dict", "default": {}},
            "service_account": {"type": "str", "default": ""},
            "timeout": {"type": "float", "default": 1800},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        supports_check_mode=True,
    )
    params = module.params

    def work(step: StepDirectory) -> dict[str, Any]:
        say = step.reporter(params["progress_file"], "image")
        wanted = image_preload.ImagePreloadSpec(
            params["namespace"],
            params["image"],
            params["run_id"],
            params["timeout"],
            params["node_selector"],
            tuple(params["tolerations"]),
            {name: float(number) for name, number in params["resources"].items()},
            params["service_account"],
        )
        with Client.from_kubeconfig(params["kubeconfig"], params["context"]) as client:
            if module.check_mode:
                names = image_preload.matching_node_names(client, wanted)
                return {"changed": True, "summary": f"{params['image']} would be pulled on {', '.join(names)}"}
            step.manifest("image_preload", [wanted.manifest()])
            with step.timed("wait", "pulls"):
                rows = image_preload.preload_image_on_nodes(client, wanted, say)
        text = image_preload.format_pulls(params["image"], rows)
        say(text)
        if step.path is not None:
            document = {"schema": "image_pulls/1", "image": params["image"], "nodes": rows}
            files.write_json(step.path / "image_pulls.json", document, "image_pulls/1")
        return {"changed": any(not (row["there"] or row["simulated"]) for row in rows), "nodes": rows, "summary": text}

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
