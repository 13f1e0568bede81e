#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: runai_files
short_description: Write the result files of the Run:ai scale-test tool
version_added: 0.1.0
description:
  - Writes C(submitted.json), C(sampled.json), C(times.csv) with 26 columns, C(general.png), C(detailed.png), and
    C(names.csv) to C(runai/) of each point whose workloads went through Run:ai, from its timeline. Workloads get names
    in the tool's format, C(j-) and six hexadecimal digits; C(names.csv) maps them to the names of the run.
  - Missing stages get the sentinels of the tool in the JSON files, and have a duration of 0 in C(times.csv). The plots
    leave them out.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._run
  - perfscale.seatrial._step_directory
options:
  all_points:
    description: Whether to write the files of every point, and not only of those whose workloads went through Run:ai.
    type: bool
    default: false
  plots:
    description: Which plots to draw.
    type: list
    elements: str
    choices: [general, detailed]
    default: [general, detailed]
  skip_errors:
    description: Whether C(times.csv) and the plots leave out workloads whose times contradict each other.
    type: bool
    default: true
  head:
    description: Draw only this number of workloads from the start, in submission order. V(0) means all.
    type: int
    default: 0
  tail:
    description: Draw only this number of workloads from the end. V(0) means all.
    type: int
    default: 0
attributes:
  check_mode:
    support: none
    details: Check mode is not supported, because writing these files is the only effect.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: full
seealso:
  - module: perfscale.seatrial.results
"""

EXAMPLES = r"""
- name: Write the files of the Run:ai scale-test tool
  perfscale.seatrial.runai_files:
    run_dir: "{{ run_dir }}"

- name: Draw only the first 500 workloads, of native objects too
  perfscale.seatrial.runai_files:
    run_dir: "{{ run_dir }}"
    all_points: true
    plots: [detailed]
    head: 500
"""

RETURN = r"""
points:
  description: Number of workloads in each file of each point.
  returned: success
  type: dict
  sample: {"001": {submitted.json: 2000, sampled.json: 1998}}
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.runai import runai_export
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.runai.runai_export import PLOTS


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.RUN_DIR,
            **ansible_module.STEP,
            "all_points": {"type": "bool", "default": False},
            "plots": {"type": "list", "elements": "str", "choices": ["general", "detailed"], "default": list(PLOTS)},
            "skip_errors": {"type": "bool", "default": True},
            "head": {"type": "int", "default": 0},
            "tail": {"type": "int", "default": 0},
        }
    )

    def work(_step: StepDirectory) -> dict[str, Any]:
        options = {name: module.params[name] for name in ("all_points", "plots", "skip_errors", "head", "tail")}
        return runai_export.write_runai_files_of_points(Path(module.params["run_dir"]), **options)

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
