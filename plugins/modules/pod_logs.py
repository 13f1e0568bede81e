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
  - Lists pods by label and fetches their logs side by side into one file a pod.
  - A log that can't be had is reported with its pod and does not fail the task.
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
    support: none
  diff_mode:
    support: none
  idempotent:
    support: full
    details: Each call fetches the logs anew, and has changed nothing when they are the same.
options:
  namespace:
    description: Namespace of the pods; all namespaces when empty.
    type: str
    default: ''
  selector:
    description: Label selector of the pods. Needed unless O(which=none).
    type: str
    default: ''
  dest:
    description: Directory for the files C(<pod>.log); made when it is missing.
    type: path
    required: true
  which:
    description: Logs of all pods, of those that failed, or none.
    type: str
    choices: [all, failed, none]
    default: all
  maximum:
    description: Collect at most so many logs, those of failed pods before others. V(0) is no limit.
    type: int
    default: 0
  container:
    description: Container whose log is fetched; the first one when empty.
    type: str
    default: ''
  limit_bytes:
    description: Fetch at most so many bytes from the beginning of each log. V(0) is no limit.
    type: int
    default: 0
  tail_lines:
    description: Fetch only so many lines from the end of each log. V(0) is no limit.
    type: int
    default: 0
  parallel:
    description: How many logs are fetched at once.
    type: int
    default: 16
seealso:
  - module: perfscale.seatrial.training_figures
"""

EXAMPLES = r"""
- name: Collect the logs of the masters
  perfscale.seatrial.pod_logs:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    namespace: fine-tuning
    selector: "perfscale.seatrial/run={{ run_id }},training.kubeflow.org/replica-type=master"
    dest: "{{ run_dir }}/points/001/logs"
  register: __fine_tuning_logs
"""

RETURN = r"""
pods:
  description: One entry a chosen pod, in the order of the index.
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
      description: Name of the job that it belongs to.
      type: str
    phase:
      description: Its phase, such as V(Succeeded).
      type: str
    log:
      description: Name of the file in O(dest), null when there is none.
      type: str
    error:
      description: Why there is no log, or null.
      type: str
found:
  description: How many pods the selector met.
  returned: success
  type: int
collected:
  description: How many logs were written.
  returned: success
  type: int
left_out:
  description: How many logs were wanted but are beyond O(maximum).
  returned: success
  type: int
unread:
  description: Pods whose log could not be had, with the reason.
  returned: success
  type: list
  elements: str
summary:
  description: All of it in one sentence.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _module_main, _pod_logs
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **_common_options.CLUSTER,
            "namespace": {"type": "str", "default": ""},
            "selector": {"type": "str", "default": ""},
            "dest": {"type": "path", "required": True},
            "which": {"type": "str", "choices": ["all", "failed", "none"], "default": "all"},
            "maximum": {"type": "int", "default": 0},
            "container": {"type": "str", "default": ""},
            "limit_bytes": {"type": "int", "default": 0},
            "tail_lines": {"type": "int", "default": 0},
            "parallel": {"type": "int", "default": 16},
            **_common_options.STEP,
            **_common_options.PROGRESS,
        },
    )
    given = module.params

    def work(step: Step) -> dict[str, Any]:
        order = _pod_logs.LogCollectionSpec.of(given)
        say = step.reporter(given["progress_file"], "logs")
        with Client.from_kubeconfig(given["kubeconfig"], given["context"]) as client, step.timed("logs"):
            result = _pod_logs.LogCollection(client, order, say).run()
        text = _pod_logs.text(result)
        if given["which"] != "none":
            say(text)
        # A log that can't be had takes its figures along (n of N shows it); the jobs themselves were judged before.
        return {"summary": text, **({"warnings": [text]} if result["unread"] else {}), **result}

    _module_main.run(module, work)


if __name__ == "__main__":
    main()
