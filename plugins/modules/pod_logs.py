#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: pod_logs
short_description: Collect the logs of pods
version_added: 0.1.0
description:
  - Lists pods by label and fetches their logs concurrently, one file per pod.
  - A log that cannot be fetched is reported with its pod and does not fail the task.
  - Known secrets, and what has the form of one, are masked in the files.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._export.secrets
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
    support: full
    details: Each call fetches the logs again, and reports a change only if they differ.
options:
  namespace:
    description: Namespace of the pods. Empty means all namespaces.
    type: str
    default: ''
  selector:
    description: Label selector of the pods. Required unless O(which=none).
    type: str
    default: ''
  dest:
    description: Directory for the files C(<pod>.log). It is created if it is missing.
    type: path
    required: true
  which:
    description: Whether to collect the logs of all pods, of failed pods, or none.
    type: str
    choices: [all, failed, none]
    default: all
  maximum:
    description: Maximum number of logs, those of failed pods first. V(0) means no limit.
    type: int
    default: 0
  container:
    description: Container whose log is fetched. Empty means the first one.
    type: str
    default: ''
  limit_bytes:
    description: Maximum number of bytes from the beginning of each log. V(0) means no limit.
    type: int
    default: 0
  tail_lines:
    description: Maximum number of lines from the end of each log. V(0) means no limit.
    type: int
    default: 0
  parallel:
    description: Number of logs that are fetched concurrently.
    type: int
    default: 16
seealso:
  - module: perfscale.seatrial.training_figures
"""

EXAMPLES = r"""
- name: Collect the logs of the first pod of each TrainJob
  perfscale.seatrial.pod_logs:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    namespace: fine-tuning
    selector: "perfscale.seatrial/run={{ run_id }},batch.kubernetes.io/job-completion-index=0"
    dest: "{{ run_dir }}/points/001/logs"
  register: __fine_tuning_logs
"""

RETURN = r"""
pods:
  description: One entry per selected pod, by index.
  returned: success
  type: list
  elements: dict
  contains:
    pod:
      description: Name of the pod.
      type: str
    index:
      description: Index of its workload, from the label C(perfscale.seatrial/index).
      type: int
    workload:
      description: Name of its job.
      type: str
    phase:
      description: Its phase, such as V(Succeeded).
      type: str
    node:
      description: The node that it is bound to, or an empty string.
      type: str
    log:
      description: Name of the file in O(dest), or null.
      type: str
    error:
      description: Why there is no log, or null.
      type: str
found:
  description: Number of pods that match the selector.
  returned: success
  type: int
collected:
  description: Number of logs that were written.
  returned: success
  type: int
left_out:
  description: Number of logs that were skipped because of O(maximum).
  returned: success
  type: int
unread:
  description: Pods whose log could not be fetched, with the reason.
  returned: success
  type: list
  elements: str
summary:
  description: The result in one sentence.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module, secret_gate
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import pod_logs
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            "namespace": {"type": "str", "default": ""},
            "selector": {"type": "str", "default": ""},
            "dest": {"type": "path", "required": True},
            "which": {"type": "str", "choices": ["all", "failed", "none"], "default": "all"},
            "maximum": {"type": "int", "default": 0},
            "container": {"type": "str", "default": ""},
            "limit_bytes": {"type": "int", "default": 0},
            "tail_lines": {"type": "int", "default": 0},
            "parallel": {"type": "int", "default": 16},
            **ansible_module.SECRETS,
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
    )
    params = module.params

    def work(step: StepDirectory) -> dict[str, Any]:
        spec = pod_logs.LogCollectionSpec.of(params)
        say = step.reporter(params["progress_file"], "logs")
        gate = secret_gate.create_secret_scanner(params["secrets"], [*params["kubeconfigs"], params["kubeconfig"]])
        with Client.from_kubeconfig(params["kubeconfig"], params["context"]) as client, step.timed("logs"):
            result = pod_logs.LogCollection(client, spec, gate, say).run()
        text = pod_logs.format_collection_result(result)
        if params["which"] != "none":
            say(text)
        # A missing log only loses its figures (n of N shows it). The jobs themselves were judged before.
        return {"summary": text, **({"warnings": [text]} if result["unread"] else {}), **result}

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
