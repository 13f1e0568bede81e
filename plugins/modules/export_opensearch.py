#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: export_opensearch
short_description: Write the figures of a run into OpenSearch
version_added: 0.1.0
description:
  - Searches the whole run directory for secrets first and sends nothing if it finds one.
  - Creates an index template, then writes one document for the run to C(<prefix>-runs) and one for each KPI of each
    test point to C(<prefix>-kpis). The ids of the documents are stable, so that a second export replaces the first.
  - The certificate of the server is always verified.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._export
  - perfscale.seatrial._export.ca_file
  - perfscale.seatrial._run
  - perfscale.seatrial._step
  - perfscale.seatrial._step.progress
attributes:
  check_mode:
    support: none
    details: Which documents change is known only to the server that receives them.
  diff_mode:
    support: none
    details: Which documents change is known only to the server that receives them.
  idempotent:
    support: partial
    details: A second call writes the same documents again.
options:
  url:
    description: Address of the server. C(http) is allowed for servers on this machine only.
    type: str
    required: true
  index_prefix:
    description: Prefix of the names of the indexes and of the template.
    type: str
    default: seatrial
  user:
    description: User name.
    type: str
    default: ''
  password:
    description: Password of O(user).
    type: str
    default: ''
  token:
    description: Bearer token, instead of O(user).
    type: str
    default: ''
seealso:
  - module: perfscale.seatrial.export_s3
"""

EXAMPLES = r"""
- name: Write the figures into OpenSearch
  perfscale.seatrial.export_opensearch:
    run_dir: "{{ run_dir }}"
    url: https://opensearch.example.com:9200
    user: seatrial
    password: "{{ lookup('perfscale.seatrial.secret', 'export_opensearch_password') }}"
  no_log: true
"""

RETURN = r"""
exported:
  description: Target, address and status of the export, null if the run was not exported.
  returned: success
  type: dict
status:
  description: V(valid), V(invalid) or V(skip).
  returned: success
  type: str
counts:
  description: Numbers of created and of replaced documents.
  returned: when exported
  type: dict
  sample: {created: 118, updated: 0}
summary:
  description: Summary in one sentence.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step, log_result
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.opensearch import OpenSearchServer
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import export_options, export_run


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "index_prefix": {"type": "str", "default": "seatrial"},
            "user": {"type": "str", "default": ""},
            "password": {"type": "str", "default": "", "no_log": True},
            "token": {"type": "str", "default": "", "no_log": True},
            **ansible_module.CA_FILE,
            **export_options.GATE,
            **ansible_module.PROGRESS,
            **ansible_module.STEP,
        },
    )

    def export(step: Step) -> dict[str, Any]:
        given = module.params
        server = OpenSearchServer(
            given["url"],
            given["index_prefix"],
            given["user"],
            given["password"],
            given["token"],
            given["ca_file"] or "",
        )
        with step.timed("results", "export to OpenSearch"):
            result = export_run.to_opensearch(
                given["run_dir"], server, given["secrets"], given["kubeconfigs"], given["invalid"]
            )
        return log_result(step, module.warn, result)

    ansible_module.run(module, export)


if __name__ == "__main__":
    main()
