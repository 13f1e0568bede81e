#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: managed_openshift
short_description: Create or delete a ROSA or OSD cluster
version_added: 0.1.0
description:
  - Creates a cluster through the command lines C(rosa) and C(ocm) of OpenShift Cluster Manager, waits for it, and
    deletes it together with the resources that were created for it.
  - A cluster of that name that does not belong to O(run_id) is refused. It is never used or deleted.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._openshift
  - perfscale.seatrial._openshift.bundle
  - perfscale.seatrial._run.expires
  - perfscale.seatrial._run.owner
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: none
    details: The services have no dry run.
  diff_mode:
    support: none
    details: It creates or deletes a whole cluster.
  idempotent:
    support: full
options:
  state:
    description: V(begun) requests the cluster, V(ready) waits for it, V(gathered) gets its log, V(absent) deletes it.
    type: str
    choices: [begun, ready, gathered, absent]
    required: true
  flavour:
    description: The service, Red Hat OpenShift Service on AWS or OpenShift Dedicated.
    type: str
    choices: [rosa, osd]
    default: rosa
  run_id:
    description: The run that the cluster belongs to.
    type: str
    required: true
  settings:
    description: Settings of role C(cluster), by name.
    type: dict
    default: {}
  rosa:
    description: Path of C(rosa).
    type: str
    default: ''
  ocm:
    description: Path of C(ocm).
    type: str
    default: ''
  token:
    description: Offline token. Without it, the programs must be logged in.
    type: str
    default: ''
  environment:
    description: Environment variables, such as credentials of the cloud. Empty ones are ignored.
    type: dict
    default: {}
  interval:
    description: Interval between two status queries, in seconds.
    type: float
    default: 30
  timeout:
    description: Timeout of V(ready) and V(absent), in seconds.
    type: float
    default: 5400
"""

EXAMPLES = r"""
- name: Request a cluster
  perfscale.seatrial.managed_openshift:
    state: begun
    name: t1121-k3f9xa
    run_id: t1121-k3f9xa
    settings:
      cluster_managed_region: us-east-2
    install_dir: ~/.local/state/seatrial/clusters/t1121-k3f9xa
"""

RETURN = r"""
kubeconfig:
  description: Path of the kubeconfig.
  returned: when O(state=ready)
  type: str
console:
  description: URL of the console.
  returned: when O(state=ready)
  type: str
files:
  description: The files that were gathered.
  returned: when O(state=gathered)
  type: list
  elements: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift import install_config
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift.managed_openshift import (
    ManagedClusterTools,
)


def do(manager: ManagedClusterTools, params: dict[str, Any]) -> dict[str, Any]:
    """Bring the cluster to the state; return the module's result."""
    manager.log_in()
    if params["state"] == "begun":
        tags = install_config.cloud_resource_tags(params["settings"], params["expires"], params["owner"])
        return {"changed": manager.create(params["settings"], tags, params["expires"])}
    if params["state"] == "ready":
        cluster = manager.await_ready(params["timeout"])
        console = str((cluster.get("console") or {}).get("url") or "")
        return {"changed": False, "kubeconfig": manager.kubeconfig(cluster), "console": console}
    if params["state"] == "gathered":
        return {"changed": True, "files": manager.logs(Path(params["bundle"]))}
    return {"changed": manager.delete(params["timeout"])}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["begun", "ready", "gathered", "absent"], "required": True},
            "flavour": {"type": "str", "choices": ["rosa", "osd"], "default": "rosa"},
            "run_id": {"type": "str", "required": True},
            "settings": {"type": "dict", "default": {}},
            **ansible_module.OWNER,
            **ansible_module.EXPIRES,
            **ansible_module.NEW_CLUSTER,
            "rosa": {"type": "str", "default": ""},
            "ocm": {"type": "str", "default": ""},
            "token": {"type": "str", "default": "", "no_log": True},
            "environment": {"type": "dict", "default": {}, "no_log": True},
            **ansible_module.BUNDLE,
            "interval": {"type": "float", "default": 30},
            "timeout": {"type": "float", "default": 5400},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        required_if=[("state", "gathered", ["bundle"])],
    )
    params = module.params

    def work(step: StepDirectory) -> dict[str, Any]:
        say = step.reporter(params["progress_file"], params["flavour"])
        programs = {name: params[name] for name in ("rosa", "ocm")}
        environment = {name: str(value) for name, value in params["environment"].items() if value not in (None, "")}
        where = (params["flavour"], params["name"], params["run_id"], Path(params["install_dir"]), programs)
        manager = ManagedClusterTools(*where, params["token"], environment, say, params["interval"])
        with step.timed("cluster", f"{params['flavour']} {params['state']}"):
            return do(manager, params)

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
