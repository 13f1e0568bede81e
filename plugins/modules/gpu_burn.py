#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_burn
short_description: Burn in all GPUs of a cluster
version_added: 1.0.0
description:
  - Creates a Job on each node with GPUs, which takes all of them and runs a program such as C(gpu_burn). Reads the
    result of each GPU from its log, and removes the Jobs.
  - The program prints one line per GPU, C(GPU 0) followed by C(OK) or C(FAULTY). A GPU without a line is missing.
  - Nothing runs on simulated GPUs; their result is V(simulated).
  - Fails if a GPU is faulty or missing.
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
    support: none
    details: Without the Jobs there is no result.
  diff_mode:
    support: none
    details: Nothing is left of the Jobs.
  idempotent:
    support: full
    details: It changes nothing that lasts.
options:
  namespace:
    description: Namespace of the Jobs, which must exist.
    type: str
    required: true
  run_id:
    description: Run to which the Jobs belong.
    type: str
    required: true
  seconds:
    description: Duration of the burn-in.
    type: int
    default: 30
  image:
    description: Image that contains the program. It is required if a GPU is not simulated.
    type: str
    default: ''
  command:
    description: Command of the container, with C({seconds}) for the duration.
    type: list
    elements: str
    default: [./gpu_burn, "{seconds}"]
  timeout:
    description: Timeout for the burn-in of all nodes, with the pulls of the image, in seconds.
    type: float
    default: 1800
"""

EXAMPLES = r"""
- name: Burn in the GPUs
  perfscale.seatrial.gpu_burn:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    namespace: nvidia-gpu-operator
    run_id: "{{ run_id }}"
    image: registry.example.com/gpu-burn:1.0
"""

RETURN = r"""
gpus:
  description: Results, one entry per GPU.
  returned: success
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node.
      type: str
    product:
      description: Product of the GPU.
      type: str
    gpu:
      description: Number of the GPU on its node.
      type: int
    result:
      description: V(ok), V(faulty), V(missing) or V(simulated).
      type: str
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
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import gpu_burn


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            "namespace": {"type": "str", "required": True},
            "run_id": {"type": "str", "required": True},
            "seconds": {"type": "int", "default": 30},
            "image": {"type": "str", "default": ""},
            "command": {"type": "list", "elements": "str", "default": ["./gpu_burn", "{seconds}"]},
            "timeout": {"type": "float", "default": 1800},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
    )
    params = module.params

    def work(step: StepDirectory) -> dict[str, Any]:
        say = step.reporter(params["progress_file"], "gpu burn-in")
        names = ("namespace", "run_id", "seconds", "image", "command", "timeout")
        burn = gpu_burn.GpuBurnSpec(**{name: params[name] for name in names})
        with Client.from_kubeconfig(params["kubeconfig"], params["context"]) as client, step.timed("wait", "burn-in"):
            gpus = gpu_burn.burn_in_all_gpus(client, burn, say)
        if step.path is not None:
            document = {"schema": "gpu_burn/1", "seconds": burn.seconds, "gpus": gpus}
            files.write_json(step.path / "gpu_burn.json", document, "gpu_burn/1")
        gpu_burn.refuse_failed_gpus(gpus)
        text = gpu_burn.format_burn_in_summary(gpus, burn.seconds)
        say(text)
        return {"changed": False, "gpus": gpus, "summary": text}

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
