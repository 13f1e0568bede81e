#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: export_s3
short_description: Upload a run directory to S3
version_added: 0.1.0
description:
  - Searches the whole run directory for secrets first and uploads nothing if it finds one; the error names file and
    line.
  - Uploads every file, large ones in parts, with SHA-256 checksums that are verified afterwards. Objects
    with the same checksum are not uploaded again, and an interrupted upload is resumed.
  - A C(manifest.json) with the checksums of all files is uploaded last. If it exists, the upload is complete.
  - Records the address in C(run.yml).
author:
  - The perfscale.seatrial authors (@perfscale)
requirements:
  - boto3
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._export
  - perfscale.seatrial._export.ca_file
  - perfscale.seatrial._export.s3
  - perfscale.seatrial._run
  - perfscale.seatrial._step
  - perfscale.seatrial._step.progress
attributes:
  check_mode:
    support: none
    details: Which objects change is known only after their upload and the comparison of checksums.
  diff_mode:
    support: none
    details: Which objects change is known only after their upload and the comparison of checksums.
  idempotent:
    support: full
options:
  url:
    description: C(s3://bucket/prefix). The run is uploaded to a folder below it with the name of its directory.
    type: str
    required: true
  acl:
    description: Canned ACL of the objects.
    type: str
    choices: [private, bucket-owner-full-control, bucket-owner-read, authenticated-read, public-read]
    default: private
  part_size:
    description: Size of the parts in bytes, at least 5 MiB. Larger files are uploaded in parts.
    type: int
    default: 16777216
seealso:
  - module: perfscale.seatrial.export_opensearch
  - module: perfscale.seatrial.results_source
"""

EXAMPLES = r"""
- name: Upload the run
  perfscale.seatrial.export_s3:
    run_dir: "{{ run_dir }}"
    url: s3://results/nightly
    endpoint: https://s3.example.com
  no_log: true
"""

RETURN = r"""
exported:
  description: Target, address and status of the export, null if the run was not exported.
  returned: success
  type: dict
  sample: {target: s3, address: s3://results/nightly/fine_tuning-light-t1121-k3f9xa, status: valid}
status:
  description: V(valid), V(invalid) or V(skip).
  returned: success
  type: str
counts:
  description: Numbers of files sent, of unchanged files, and of parts that an earlier upload had sent.
  returned: when exported
  type: dict
summary:
  description: Summary in one sentence.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step, log_result
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import export_options, export_run


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "part_size": {"type": "int", "default": 16 * 2**20},
            "acl": {"type": "str", "default": "private", "choices": list(s3.ACLS)},
            **export_options.S3,
            **export_options.GATE,
            **ansible_module.PROGRESS,
            **ansible_module.STEP,
        },
        required_together=[("access_key", "secret_key")],
    )

    def export(step: Step) -> dict[str, Any]:
        given = module.params
        location = export_options.location_of(given, given["url"], acl=given["acl"], part_size=given["part_size"])
        say = step.reporter(given["progress_file"], "export")
        with step.timed("results", "export to S3"):
            result = export_run.to_s3(
                given["run_dir"], location, given["secrets"], given["kubeconfigs"], given["invalid"], say
            )
        return log_result(step, module.warn, result)

    ansible_module.run(module, export)


if __name__ == "__main__":
    main()
