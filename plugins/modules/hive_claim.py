#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hive_claim
short_description: Claim a cluster from a Hive cluster pool
version_added: 0.1.0
description:
  - Creates a C(ClusterClaim) (C(hive.openshift.io/v1)) on a hub cluster, waits until the cluster runs and writes its
    administrator's kubeconfig. Releases the cluster by deleting the claim; Hive then destroys the cluster.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._run.owner
  - perfscale.seatrial._run.purpose
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details: It creates or deletes one ClusterClaim.
  idempotent:
    support: full
options:
  kubeconfig:
    description: Kubeconfig of the hub.
  state:
    description:
      - V(claimed) creates the claim. V(running) also waits until its cluster runs. V(absent) deletes the claim and
        waits until it no longer exists.
    type: str
    choices: [claimed, running, absent]
    default: running
  name:
    description: Name of the claim.
    type: str
    required: true
  namespace:
    description: Namespace of the pool and of the claim.
    type: str
    required: true
  pool:
    description: The C(ClusterPool); required unless O(state=absent).
    type: str
    default: ''
  run_id:
    description: The run that the claim is for. A claim of the same name that belongs to another run is left unchanged.
    type: str
    required: true
  lifetime:
    description: Time after which Hive deletes a claim that has a cluster, in seconds; V(0) means that of the pool.
    type: float
    default: 0
  dest:
    description: File for the kubeconfig of the claimed cluster; required if O(state=running).
    type: path
  timeout:
    description: Timeout, in seconds.
    type: float
    default: 3600
"""

EXAMPLES = r"""
- name: Claim a cluster
  perfscale.seatrial.hive_claim:
    kubeconfig: hub-kubeconfig
    namespace: pools
    pool: small
    name: "{{ run_id }}"
    run_id: "{{ run_id }}"
    lifetime: 43200
    dest: "{{ run_dir }}/kubeconfig-sutest"
"""

RETURN = r"""
cluster:
  description: Values for the record of the cluster; keys as in the schema C(cluster/2).
  returned: when O(state=running)
  type: dict
  sample: {kubeconfig: /runs/one/kubeconfig-sutest, expires: "2026-11-21T22:00:00.000Z"}
deployment:
  description: Name and namespace of the ClusterDeployment on the hub.
  returned: when O(state=running)
  type: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import hive_claim
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            "state": {"type": "str", "choices": ["claimed", "running", "absent"], "default": "running"},
            **{name: {"type": "str", "required": True} for name in ("name", "namespace", "run_id")},
            "pool": {"type": "str", "default": ""},
            **ansible_module.OWNER,
            **ansible_module.PURPOSE,
            "lifetime": {"type": "float", "default": 0},
            "dest": {"type": "path"},
            "timeout": {"type": "float", "default": 3600},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        required_if=[("state", "running", ["dest", "pool"]), ("state", "claimed", ["pool"])],
        supports_check_mode=True,
    )
    params = module.params

    def work(step: StepDirectory) -> dict[str, Any]:
        names = ("name", "namespace", "pool", "owner", "purpose", "lifetime", "timeout")
        spec = hive_claim.ClaimSpec(run=params["run_id"], **{name: params[name] for name in names})
        say = step.reporter(params["progress_file"], "hive")
        with Client.from_kubeconfig(params["kubeconfig"], params["context"], timeout=30) as client:
            if params["state"] == "absent":
                return {"changed": hive_claim.delete_cluster_claim(client, spec, module.check_mode)}
            changed = hive_claim.create_cluster_claim(client, spec, module.check_mode)
            if params["state"] == "claimed" or module.check_mode:
                return {"changed": changed}
            with step.timed("cluster", "claim"):
                cluster = hive_claim.wait_for_claimed_cluster(client, spec, Path(params["dest"]), say)
            return {"changed": changed, "deployment": cluster.pop("deployment"), "cluster": cluster}

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
