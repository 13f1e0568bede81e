#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_capture
short_description: Capture the state of a cluster during a run
version_added: 1.0.0
description:
  - Writes a folder below C(capture/) of the run directory, and an entry of C(capture/index.json).
  - The folder holds the versions of cluster, operators and images; nodes with conditions, what can be allocated, and
    GPUs; the objects of the software under test, such as C(DataScienceCluster), C(ClusterPolicy),
    C(ClusterServiceVersion) and C(Subscription); events and pod statuses of the namespaces of the run; the objects of
    workloads that failed or did not end, and the first and the last of the rest; the logs of failed containers, and of
    the operators if an object of the software under test is not ready.
  - With O(point) it also writes C(ran.json) to C(points/<nnn>/), with the nodes, the operators and their versions, and
    the images of containers by digest. They become labels of the point's KPIs.
  - Only reads the cluster, and reads no Secret. Secrets in texts are replaced by C(<secret>), by the rules by which an
    export searches for them, and so are the values of environment variables whose names say that they are secrets.
  - What may not be read is left out, with a warning. If the server cannot be reached, that is a warning too.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._export.secrets
  - perfscale.seatrial._run
  - perfscale.seatrial._run.objects
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: none
    details: It only reads from a cluster; without its files there is no result.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: none
    details: Each call writes a new folder.
requirements:
  - kubernetes
  - openshift
options:
  point:
    description: Test point that has just ended. Without it no C(ran.json) is written and no workload is read.
    type: str
    default: ''
  why:
    description: When the state is captured, in a few words, such as V(before the test).
    type: str
    default: capture
  cluster:
    description: Role of the cluster in the run. The report compares captures of V(sutest), the cluster under test.
    type: str
    choices: [sutest, driver]
    default: sutest
  namespaces:
    description:
      - Namespaces to capture, beside those with the label of the run and those of its loads.
    type: list
    elements: str
    default: []
  seconds:
    description: Time limit, in seconds. What was not read by then is left out.
    type: float
    default: 15
  limit_bytes:
    description: Size limit of all files of the folder. C(state.json) is always written.
    type: int
    default: 20000000
seealso:
  - module: perfscale.seatrial.results
"""

EXAMPLES = r"""
- name: Capture the state after a test point
  perfscale.seatrial.cluster_capture:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_dir: "{{ run_dir }}"
    run_id: "{{ run_id }}"
    point: '001'
    why: after point 001
"""

RETURN = r"""
path:
  description: The folder.
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
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import (
    StepDirectory,
    log_summary_and_warnings,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.capture_cluster import (
    CaptureSpec,
    capture_cluster_state,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            **ansible_module.RUN_DIR,
            "run_id": {"type": "str", "required": True},
            "point": {"type": "str", "default": ""},
            "why": {"type": "str", "default": "capture"},
            "cluster": {"type": "str", "choices": ["sutest", "driver"], "default": "sutest"},
            "namespaces": {"type": "list", "elements": "str", "default": []},
            "seconds": {"type": "float", "default": 15},
            "limit_bytes": {"type": "int", "default": 20_000_000},
            **ansible_module.SECRETS,
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
    )
    names = {*CaptureSpec.__dataclass_fields__}

    def work(step: StepDirectory) -> dict[str, Any]:
        with step.timed("other", "capture"):
            result = capture_cluster_state(
                CaptureSpec(**{name: value for name, value in module.params.items() if name in names})
            )
        return log_summary_and_warnings(step, module.warn, result)

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
