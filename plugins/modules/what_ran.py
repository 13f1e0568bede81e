#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: what_ran
short_description: Record what ran on a cluster at the end of a test point
version_added: 0.1.0
description:
  - Writes C(ran.json) to C(points/<nnn>/) of the run directory, with the nodes, the operators and their versions, and
    the images of containers by digest. They become labels of the point's KPIs.
  - Only reads the cluster. What may not be read is left out; if the server cannot be reached, nothing is written. Both
    are warnings and do not fail the task.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._run
  - perfscale.seatrial._run.point
  - perfscale.seatrial._step
attributes:
  check_mode:
    support: none
    details: It only reads from a cluster; without its file there is no result.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: full
    details: Each call reads the cluster again, and reports a change only if something differs.
options:
  namespaces:
    description:
      - Namespaces whose containers' images are recorded, beside those of the pods of the run and of the namespaces of
        operators.
    type: list
    elements: str
    default: []
seealso:
  - module: perfscale.seatrial.results_kpis
"""

EXAMPLES = r"""
- name: Record what ran
  perfscale.seatrial.what_ran:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_dir: "{{ run_dir }}"
    run_id: "{{ run_id }}"
    point: '001'
"""

RETURN = r"""
path:
  description: The file, written or not.
  returned: success
  type: str
ran:
  description: What ran; keys as in the schema C(ran/1). Empty if the server could not be reached.
  returned: success
  type: dict
  sample:
    nodes: {count: 4, cpus: 256.0, memory_gib: 1024, gpus: 32, gpu_products: {NVIDIA-A100-SXM4-80GB: 32}}
    operators: {rhods-operator: 2.19.0}
    images: {"registry.example.com/trainer:v2": "sha256:0f1e…"}
cause:
  description: The class of the error if nothing could be read, V(AccessError) if the server could not be reached.
  returned: if nothing could be read
  type: str
reason:
  description: The error.
  returned: if nothing could be read
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster.write_what_ran import write_what_ran
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_files import Step, log_result


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **_common_options.CLUSTER,
            **_common_options.RUN_DIR,
            **_common_options.POINT,
            "namespaces": {"type": "list", "elements": "str", "default": []},
            **_common_options.STEP,
        },
    )
    given = module.params

    def record(step: Step) -> dict[str, Any]:
        with step.timed("other", "what ran"):
            result = write_what_ran(
                given["kubeconfig"],
                given["context"],
                given["run_dir"],
                given["run_id"],
                given["point"],
                given["namespaces"],
            )
        return log_result(step, module.warn, result)

    _module_main.run(module, record)


if __name__ == "__main__":
    main()
