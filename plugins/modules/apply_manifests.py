#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: apply_manifests
short_description: Apply the manifests of a role, and save them
version_added: 1.0.0
description:
  - Applies manifests in their order by server-side apply.
  - Writes them into C(src/) of the role call's directory, so that a run shows what was applied. Each value of a Secret
    is replaced by C(<secret>).
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._attributes.internal
  - perfscale.seatrial._cluster
  - perfscale.seatrial._step_directory
attributes:
  check_mode:
    support: full
    details: The API server validates the manifests. The file is written too; it shows what would be applied.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  name:
    description: Name of the file, without C(.yml).
    type: str
    required: true
  definitions:
    description: The manifests.
    type: list
    elements: dict
    required: true
seealso:
  - module: perfscale.seatrial.step_directory
"""

EXAMPLES = r"""
- name: Create namespace and configuration
  perfscale.seatrial.apply_manifests:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    step_dir: "{{ __fine_tuning_step.path }}"
    name: prepare
    definitions: "{{ __fine_tuning_definitions }}"
"""

RETURN = r"""
applied:
  description: Titles of the objects that were created or changed.
  returned: success
  type: list
  elements: str
  sample: [Namespace fine-tuning-t1121-k3f9xa]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import server_side_apply
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.server_side_apply import (
    fields_without_secret_values,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            "name": {"type": "str", "required": True},
            "definitions": {"type": "list", "elements": "dict", "required": True},
            **ansible_module.STEP,
        },
        supports_check_mode=True,
    )
    params = module.params

    def work(step: StepDirectory) -> dict[str, Any]:
        step.manifest(
            params["name"],
            [fields_without_secret_values(definition, definition, "<secret>") for definition in params["definitions"]],
        )
        opened = Client.from_kubeconfig(params["kubeconfig"], params["context"], timeout=30)
        with opened as client, step.timed("cluster", params["name"]):
            result = server_side_apply.apply_manifests_with_diff(client, params["definitions"], module.check_mode)
        step.log(f"applied {', '.join(result['applied']) or 'nothing: all objects are as wanted'}")
        return result

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
