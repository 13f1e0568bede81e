#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_diff
short_description: Compare the objects on a cluster before and after a run
version_added: 1.0.0
description:
  - Records every object on a cluster with its kind, name, uid and a hash of its content, before the run and after it,
    and writes the differences to C(run_diff.json) of the run directory.
  - Left are objects that did not exist before, gone are those that exist no more, changed are those with another
    content and those that were deleted and created again. Each says whether it has the label of the run, or is in a
    namespace that has it.
  - Only reads the cluster. Events, Leases and other objects that come and go by themselves are not compared.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
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
    support: partial
    details: The snapshot before the run is written once.
options:
  moment:
    description: Whether the run has not used the cluster yet, or has been cleaned up.
    type: str
    choices: [before, after]
    required: true
  timeout:
    description:
      - How long to wait for differences to disappear, in seconds. Controllers take back what they made for a run when
        they next look at it, some of them once a minute.
    type: float
    default: 60
seealso:
  - module: perfscale.seatrial.cleanup_run
"""

EXAMPLES = r"""
- name: Record what is on the cluster
  perfscale.seatrial.run_diff:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_dir: "{{ run_dir }}"
    run_id: "{{ run_id }}"
    moment: before
"""

RETURN = r"""
left:
  description: Objects that did not exist before the run.
  returned: after
  type: list
  elements: dict
  sample:
    - {kind: ConfigMap, namespace: default, name: settings, ours: false}
gone:
  description: Objects that existed before the run.
  returned: after
  type: list
  elements: dict
changed:
  description: Objects with another content, and (C(again)) those that were deleted and created again.
  returned: after
  type: list
  elements: dict
summary:
  description: The result as one sentence.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import object_snapshots
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            **ansible_module.RUN_DIR,
            "run_id": {"type": "str", "required": True},
            "moment": {"type": "str", "choices": ["before", "after"], "required": True},
            "timeout": {"type": "float", "default": 60},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
    )
    params = module.params

    def work(step: StepDirectory) -> dict[str, Any]:
        say = step.reporter(params["progress_file"], "run_diff")
        with step.timed("other", "run_diff"), Client.from_kubeconfig(params["kubeconfig"], params["context"]) as client:
            if params["moment"] == "before":
                result = object_snapshots.write_snapshot_before_run(client, params["run_dir"], params["run_id"])
            else:
                result = object_snapshots.compare_with_snapshot_before(
                    client, params["run_dir"], params["run_id"], params["timeout"], say
                )
            say(result["summary"])
            return result

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
