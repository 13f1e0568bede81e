#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cleanup_run
short_description: Delete all objects with a run's label
version_added: 0.1.0
description:
  - Finds the objects of all kinds and all namespaces that have the label C(perfscale.seatrial/run) of this run, deletes
    them and waits until they no longer exist.
  - No object without the label is deleted. A namespace of the run that has objects of others is kept
    and loses the label.
  - Namespaced objects are deleted first, then cluster-scoped objects, then namespaces, then nodes.
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
    details: What it deletes, or would delete, is in RV(deleted).
  idempotent:
    support: full
options:
  run_id:
    description: The run whose objects are deleted.
    type: str
    required: true
  selector:
    description: Additional label selector that objects must match.
    type: str
    default: ''
  kinds:
    description: >-
      Delete only these kinds, such as V(TrainJob) or V(TrainJob.trainer.kubeflow.org). Empty means all kinds.
    type: list
    elements: str
    default: []
  keep_nodes:
    description: Whether to keep the nodes that this run created.
    type: bool
    default: false
  verify:
    description: Delete nothing, and fail if an object has the label.
    type: bool
    default: false
  timeout:
    description: Timeout until everything is deleted, in seconds.
    type: float
    default: 300
  unreachable:
    description:
      - What to do if the API server does not respond. V(skip) is for a cluster that will be deleted as a whole, or that
        the run never reached.
    type: str
    choices: [fail, skip]
    default: fail
  owned:
    description: Whether the run owns the cluster, so that its objects are deleted with it. Used in the summary only.
    type: bool
    default: false
  removed_next:
    description:
      - Whether the whole cluster is removed right afterwards. The module then waits for the end of the load, asks the
        server nothing and deletes nothing. No effect with O(verify).
    type: bool
    default: false
  run_dir:
    description:
      - The run directory. Before anything is deleted, the module waits until no submitter or sampler writes to it,
        because objects that it creates meanwhile would remain. After a kill of the run, both end within seconds.
    type: path
"""

EXAMPLES = r"""
- name: Delete the objects of this run
  perfscale.seatrial.cleanup_run:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_id: "{{ run_id }}"

- name: Verify that nothing is left
  perfscale.seatrial.cleanup_run:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_id: "{{ run_id }}"
    verify: true
"""

RETURN = r"""
reachable:
  description: Whether the API server responded. V(false) with O(removed_next).
  returned: success
  type: bool
deleted:
  description: Number of objects of each kind that were deleted, or would be in check mode.
  returned: success
  type: dict
  sample: {Pod: 24, TrainJob: 12, ConfigMap: 1, Namespace: 1}
left:
  description: Number of objects of each kind that still have the label. Empty after a success.
  returned: always
  type: dict
kept:
  description: Number of nodes that were kept because of O(keep_nodes).
  returned: success
  type: dict
handed_over:
  description: Namespaces and definitions that were kept without the label, because others use them.
  returned: success
  type: list
  elements: str
unlisted:
  description: Kinds that could not be listed, with the HTTP status. Objects of these kinds may be left.
  returned: success
  type: list
  elements: str
summary:
  description: Summary in one sentence.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import run_cleanup


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            "run_id": {"type": "str", "required": True},
            "selector": {"type": "str", "default": ""},
            "kinds": {"type": "list", "elements": "str", "default": []},
            "keep_nodes": {"type": "bool", "default": False},
            "verify": {"type": "bool", "default": False},
            "timeout": {"type": "float", "default": 300},
            "run_dir": {"type": "path"},
            "unreachable": {"type": "str", "choices": ["fail", "skip"], "default": "fail"},
            "owned": {"type": "bool", "default": False},
            "removed_next": {"type": "bool", "default": False},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        supports_check_mode=True,
    )

    def work(step: StepDirectory) -> dict[str, Any]:
        result = run_cleanup.clean_up_or_verify(run_cleanup.CleanupSpec.of(module.params, module.check_mode), step)
        for kind in result["unlisted"]:
            module.warn(f"{kind} could not be listed: objects of this run may be left")
        return result

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
