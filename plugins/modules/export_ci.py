#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: export_ci
short_description: Write the verdict as JUnit XML and the figures as a Prometheus textfile
version_added: 0.1.0
description:
  - Searches the whole run directory for secrets first and writes nothing if it finds one.
  - In the JUnit file, each check of the verdict is a test case, and KPIs are properties of the suite.
  - The textfile is for the textfile collector of the node exporter.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._export
  - perfscale.seatrial._run
  - perfscale.seatrial._step
  - perfscale.seatrial._step.progress
attributes:
  check_mode:
    support: none
    details: It writes two files of the results that are there; calling it is the way to see them.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: full
options:
  junit:
    description: Path of the JUnit file. Empty means none.
    type: path
    default: ''
  textfile:
    description: Path of the textfile. The collector reads only names that end in C(.prom). Empty means none.
    type: path
    default: ''
seealso:
  - module: perfscale.seatrial.results
"""

EXAMPLES = r"""
- name: Write the files for CI
  perfscale.seatrial.export_ci:
    run_dir: "{{ run_dir }}"
    junit: artifacts/junit.xml
    textfile: /var/lib/node_exporter/seatrial.prom
"""

RETURN = r"""
paths:
  description: The files.
  returned: when written
  type: list
  elements: str
status:
  description: V(valid), V(invalid) or V(skip).
  returned: success
  type: str
summary:
  description: The files in one line.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step, log_result
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import export_options, export_run


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "junit": {"type": "path", "default": ""},
            "textfile": {"type": "path", "default": ""},
            **export_options.GATE,
            **ansible_module.PROGRESS,
            **ansible_module.STEP,
        },
    )

    def export(step: Step) -> dict[str, Any]:
        given = module.params
        with step.timed("results", "files for CI"):
            result = export_run.to_ci(
                given["run_dir"],
                given["junit"],
                given["textfile"],
                given["secrets"],
                given["kubeconfigs"],
                given["invalid"],
            )
        return log_result(step, module.warn, result)

    ansible_module.run(module, export)


if __name__ == "__main__":
    main()
