#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: doctor
short_description: Check whether a cluster meets the requirements of a run
version_added: 0.1.0
description:
  - Resolves the settings of a project as a run would. Checks every permission that the phases need
    (SelfSubjectAccessReview), kinds, storage classes, quotas and GPUs, and estimates the plan. Changes nothing on the
    cluster.
  - The C(meta/doctor.yml) of a role states what the role needs.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._run.project
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Of the file O(rbac_file).
  idempotent:
    support: full
options:
  kubeconfig:
    description:
      - Kubeconfig of the cluster.
      - If it is empty, nothing is checked. The load of each point and the least RBAC are returned, as far as they are
        known without a cluster.
    type: path
    required: false
    default: ""
  phases:
    description: Phases that are to run.
    type: list
    elements: str
    required: true
  run_dir:
    description:
      - Directory of the run whose cluster is checked. Its settings are used. Phases up to C(cluster) and those that its
        tags exclude are not checked, and nothing is printed.
    type: path
    default: ""
  nodes_made:
    description: Whether the nodes exist that the run makes, so that only nodes of the cluster count.
    type: bool
    default: false
    version_added: 1.0.0
  subject:
    description: User that the RBAC is bound to.
    type: str
    default: ""
  rbac_file:
    description: File to write the least RBAC to. Empty means none.
    type: path
    default: ""
  requirements:
    description: What the run requires of the cluster. The action plugin sets it.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Check whether the cluster has what the run needs
  perfscale.seatrial.doctor:
    kubeconfig: "{{ cluster_kubeconfig }}"
    project: workload_scale
    phases: [cluster, prepare, test, cleanup]
"""

RETURN = r"""
checks:
  description: The checks. Each C(result) is C(ok), C(missing) or C(note).
  returned: success
  type: list
  elements: dict
  sample:
    - {result: ok, check: kind, detail: Job (batch/v1)}
missing:
  description: Number of checks that found something missing.
  returned: success
  type: int
estimates:
  description: Duration, GPU hours and peak use of GPUs and pods, estimated for each point.
  returned: success
  type: list
  elements: dict
rbac:
  description: The least RBAC as manifests.
  returned: success
  type: list
  elements: dict
lines:
  description: The checks as lines of text.
  returned: success
  type: list
  elements: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module, files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import cluster_requirement_checks
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            **ansible_module.PROJECT,
            "kubeconfig": {"type": "path", "default": ""},
            "phases": {"type": "list", "elements": "str", "required": True},
            "run_dir": {"type": "path", "default": ""},
            "nodes_made": {"type": "bool", "default": False},
            "subject": {"type": "str", "default": ""},
            "rbac_file": {"type": "path", "default": ""},
            "requirements": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    params = module.params

    def work(_step: StepDirectory) -> dict[str, Any]:
        import yaml

        spec = {**params["requirements"], "phases": params["phases"], "subject": params["subject"]}
        report = _found(params, cluster_requirement_checks.ExaminationSpec(**spec))
        lines = [f"  {check['result']:8} {check['check']:14} {check['detail']}" for check in report["checks"]]
        text = yaml.safe_dump_all(report["rbac"], sort_keys=False, explicit_start=True)
        path = Path(params["rbac_file"]) if params["rbac_file"] else None
        lines.append(f"  the least RBAC: {path or 'give -e doctor_rbac_file=<file> to write it'}")
        before = path.read_text(encoding="utf-8") if path is not None and path.exists() else ""
        changed = path is not None and before != text
        if path is not None and changed and not module.check_mode:
            files.replace_text(path, text)
        diff = {"before": before, "after": text if path is not None else ""}
        return {"changed": changed, **report, "lines": lines, "diff": diff}

    ansible_module.run_module_work(module, work)


def _found(params: dict[str, Any], spec: cluster_requirement_checks.ExaminationSpec) -> dict[str, Any]:
    if not params["kubeconfig"]:
        return cluster_requirement_checks.estimate_without_cluster(spec)
    with Client.from_kubeconfig(params["kubeconfig"], params["context"], 30.0) as client:
        return cluster_requirement_checks.run_cluster_checks(client, spec)


if __name__ == "__main__":
    main()
