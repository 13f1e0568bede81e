#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_bundle
short_description: Pack a run into one archive, or unpack one to run it again
version_added: 1.0.0
description:
  - With O(run_dir), writes an archive with the run directory, the files of the user that its settings name, and a
    manifest C(bundle.json) with versions, settings, and each file with size and checksum. The files are searched for
    secrets first; nothing is written if there is one, and the error names file and line.
  - With O(source), unpacks such an archive into a new folder, verifies every file, and writes C(rerun.yml), the
    settings to run it again with C(-e @rerun.yml). Ansible renders no text of a bundle.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
  - perfscale.seatrial._export.secrets
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: none
    details: Check mode is not supported, because writing these files is the only effect.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: none
    details: A file or folder that exists is never replaced.
options:
  run_dir:
    description: Directory of the run to pack.
    type: path
  source:
    description: Archive to unpack.
    type: path
  dest:
    description: >-
      The archive to write, which ends in C(.tar.gz), by default one with the name of the run directory in the working
      directory; or the folder to create.
    type: path
seealso:
  - module: perfscale.seatrial.results_source
  - module: perfscale.seatrial.export_run
"""

EXAMPLES = r"""
- name: Pack a run
  perfscale.seatrial.run_bundle:
    run_dir: artifacts/fine_tuning-light-t1121-k3f9xa

- name: Unpack it elsewhere
  perfscale.seatrial.run_bundle:
    source: fine_tuning-light-t1121-k3f9xa.tar.gz
    dest: received
"""

RETURN = r"""
path:
  description: The archive, or the folder.
  returned: success
  type: str
bytes:
  description: Size of the archive.
  returned: with O(run_dir)
  type: int
manifest:
  description: Content of C(bundle.json), as in schema C(bundle/1).
  returned: with O(source)
  type: dict
rerun:
  description: The file of settings, the project, the settings, and those that are left out with the reason.
  returned: with O(source)
  type: dict
  contains:
    path:
      description: The file.
      type: str
    project:
      description: The project, whose playbook has its name.
      type: str
    settings:
      description: The settings.
      type: dict
    left_out:
      description: Settings that are left out, with the reason.
      type: dict
summary:
  description: Summary in one sentence.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import (
    StepDirectory,
    log_summary_and_warnings,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import run_bundle_archive


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "run_dir": {"type": "path"},
            "source": {"type": "path"},
            "dest": {"type": "path"},
            **ansible_module.SECRETS,
            **ansible_module.PROGRESS,
        },
        mutually_exclusive=[("run_dir", "source")],
        required_one_of=[("run_dir", "source")],
        required_by={"source": ("dest",)},
    )

    def work(step: StepDirectory) -> dict[str, Any]:
        params = module.params
        if params["source"]:
            return log_summary_and_warnings(
                step, module.warn, run_bundle_archive.unpack_bundle(params["source"], params["dest"])
            )
        written = run_bundle_archive.write_bundle(
            params["run_dir"], params["dest"], params["secrets"], params["kubeconfigs"]
        )
        return log_summary_and_warnings(step, module.warn, written)

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
