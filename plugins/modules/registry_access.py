#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: registry_access
short_description: Give an OpenShift cluster access to a registry and put everything back
version_added: 1.0.0
description:
  - Merges credentials into the pull secret of the cluster, creates mirrors of images, and waits until all
    MachineConfigPools have taken them over. The rest of the pull secret stays byte for byte as it is.
  - Every change is noted in O(inventory) before it is made, without credentials, so that a later call can put back what
    an interrupted one changed.
  - What somebody else has changed since is not touched when everything is put back. The module then fails and names it.
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
    details: The pull secret holds credentials, and its content must not be shown.
  idempotent:
    support: full
options:
  state:
    description: Whether the cluster should have the access, or be as before.
    type: str
    choices: [present, absent]
    default: present
  inventory:
    description: File in which the changes are noted.
    type: path
    required: true
  run_id:
    description: Id of the run. The mirrors carry it in their name and in an annotation.
    type: str
    required: true
  pull_secret:
    description:
      - Credentials, the content of a C(dockerconfigjson) file, as C(podman login) writes it. Empty adds none.
      - Other credentials for the same registry are not replaced; the module refuses. Name a repository then, such as
        C(quay.io/organisation).
    type: str
    default: ""
  mirrors:
    description:
      - Repositories to pull from others. They become an ImageDigestMirrorSet and an ImageTagMirrorSet, or an
        ImageContentSourcePolicy on older clusters, which knows only digests.
    type: list
    elements: dict
    default: []
    suboptions:
      source:
        description: Repository that images name.
        type: str
        required: true
      mirrors:
        description: Repositories that are tried before it, in this order.
        type: list
        elements: str
        required: true
      by:
        description: Whether images are named by digest or by tag.
        type: str
        choices: [digest, tag]
        default: digest
  timeout:
    description: Timeout for the MachineConfigPools, in seconds.
    type: float
    default: 3600
  settle:
    description: Time to wait for new configurations of the pools before O(timeout) begins, in seconds.
    type: float
    default: 60
seealso:
  - module: perfscale.seatrial.olm_operator
"""

EXAMPLES = r"""
- name: Let the cluster pull pre-builds
  perfscale.seatrial.registry_access:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    inventory: "{{ run_dir }}/registry.json"
    run_id: "{{ run_id }}"
    pull_secret: "{{ lookup('perfscale.seatrial.secret', 'rhoai_pull_secret') }}"
    mirrors:
      - source: registry.redhat.io/rhoai
        mirrors: [quay.io/rhoai]

- name: Put everything back
  perfscale.seatrial.registry_access:
    state: absent
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    inventory: "{{ run_dir }}/registry.json"
    run_id: "{{ run_id }}"
"""

RETURN = r""" # """

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.registry_access import RegistryAccess


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "inventory": {"type": "path", "required": True},
            "run_id": {"type": "str", "required": True},
            "pull_secret": {"type": "str", "default": "", "no_log": True},
            "mirrors": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "source": {"type": "str", "required": True},
                    "mirrors": {"type": "list", "elements": "str", "required": True},
                    "by": {"type": "str", "choices": ["digest", "tag"], "default": "digest"},
                },
            },
            "timeout": {"type": "float", "default": 3600},
            "settle": {"type": "float", "default": 60},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        supports_check_mode=True,
    )
    params, check = module.params, module.check_mode

    def work(step: StepDirectory) -> dict[str, Any]:
        say = step.reporter(params["progress_file"], "registry")
        path = Path(params["inventory"]).absolute()
        with (
            Client.from_kubeconfig(params["kubeconfig"], params["context"], timeout=30) as client,
            step.timed("cluster", "registry"),
        ):
            access = RegistryAccess(client, path, params["run_id"], params["timeout"], params["settle"], say)
            if params["state"] == "absent":
                return {"changed": access.back(check)}
            return {"changed": access.give(params["pull_secret"], params["mirrors"], check)}

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
