#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: user_workload_monitoring
short_description: Switch on monitoring of user workloads on OpenShift, and restore it
version_added: 1.0.0
description:
  - Sets C(enableUserWorkload) in ConfigMap C(cluster-monitoring-config) and waits for the Prometheus of user workloads.
    All other settings of the monitoring keep their values.
  - The text of the ConfigMap is recorded before it is changed, and restored byte by byte. A ConfigMap that somebody
    else has changed since is refused and left unchanged.
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
    support: full
  idempotent:
    support: full
options:
  state:
    description: V(present) switches it on, V(absent) restores what was before.
    type: str
    choices: [present, absent]
    default: present
  snapshot:
    description: File with the state before the change, usually C(monitoring.json) in the run directory.
    type: path
    required: true
  timeout:
    description: Timeout for the Prometheus of user workloads to become ready, in seconds.
    type: float
    default: 600
"""

EXAMPLES = r"""
- name: Switch on monitoring of user workloads
  perfscale.seatrial.user_workload_monitoring:
    kubeconfig: "{{ kubeconfig }}"
    snapshot: "{{ run_dir }}/monitoring.json"

- name: Restore it
  perfscale.seatrial.user_workload_monitoring:
    state: absent
    kubeconfig: "{{ kubeconfig }}"
    snapshot: "{{ run_dir }}/monitoring.json"
"""

RETURN = r"""
diff:
  description: The ConfigMap before and after.
  returned: success
  type: dict
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.server_side_apply import ObjectDiff
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.metrics import user_workload_monitoring


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "snapshot": {"type": "path", "required": True},
            "timeout": {"type": "float", "default": 600},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        supports_check_mode=True,
    )
    params, check = module.params, module.check_mode

    def work(step: StepDirectory) -> dict[str, Any]:
        say = step.reporter(params["progress_file"], "monitoring")
        path, diff = Path(params["snapshot"]), ObjectDiff()
        with (
            Client.from_kubeconfig(params["kubeconfig"], params["context"], timeout=30) as client,
            step.timed("cluster", "monitoring"),
        ):
            if params["state"] == "present":
                changed = user_workload_monitoring.switch_on_user_workload_monitoring(
                    client, path, params["timeout"], say, diff, check
                )
            else:
                changed = user_workload_monitoring.restore_monitoring_config(client, path, diff, check)
        return {"changed": changed, "diff": diff.shown()}

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
