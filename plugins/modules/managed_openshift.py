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
  - perfscale.seatrial._step
  - perfscale.seatrial._step.progress
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
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift import (
    install_config,
    openshift_options,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift.managed_openshift import Manager


def do(manager: Manager, given: dict[str, Any]) -> dict[str, Any]:
    """Bring the cluster to the state; return the module's result."""
    manager.log_in()
    if given["state"] == "begun":
        tags = install_config.tags(given["settings"], given["expires"], given["owner"])
        return {"changed": manager.create(given["settings"], tags, given["expires"])}
    if given["state"] == "ready":
        found = manager.await_ready(given["timeout"])
        console = str((found.get("console") or {}).get("url") or "")
        return {"changed": False, "kubeconfig": manager.kubeconfig(found), "console": console}
    if given["state"] == "gathered":
        return {"changed": True, "files": manager.logs(Path(given["bundle"]))}
    return {"changed": manager.delete(given["timeout"])}


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
            **openshift_options.CLUSTER,
            "rosa": {"type": "str", "default": ""},
            "ocm": {"type": "str", "default": ""},
            "token": {"type": "str", "default": "", "no_log": True},
            "environment": {"type": "dict", "default": {}, "no_log": True},
            **openshift_options.BUNDLE,
            "interval": {"type": "float", "default": 30},
            "timeout": {"type": "float", "default": 5400},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        required_if=[("state", "gathered", ["bundle"])],
    )
    given = module.params

    def work(step: Step) -> dict[str, Any]:
        say = step.reporter(given["progress_file"], given["flavour"])
        programs = {name: given[name] for name in ("rosa", "ocm")}
        environment = {name: str(value) for name, value in given["environment"].items() if value not in (None, "")}
        where = (given["flavour"], given["name"], given["run_id"], Path(given["install_dir"]), programs)
        manager = Manager(*where, given["token"], environment, say, given["interval"])
        with step.timed("cluster", f"{given['flavour']} {given['state']}"):
            return do(manager, given)

    ansible_module.run(module, work)


if __name__ == "__main__":
    main()
