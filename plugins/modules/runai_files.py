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
  - Writes C(submitted.json), C(sampled.json), C(times.csv) with 26 columns, and C(names.csv) to C(runai/) of each
    point, from its timeline, for the plotter of that tool. Workloads get names in the tool's format, C(j-) and six
    hexadecimal digits; C(names.csv) maps them to the names of the run.
  - Missing stages get the sentinels of the tool.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._run
  - perfscale.seatrial._step
attributes:
  check_mode:
    support: none
    details: It only computes files of the run directory; without them there is no result.
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: perfscale.seatrial.results_timeline
"""

EXAMPLES = r"""
- name: Write the files of the Run:ai scale-test tool
  perfscale.seatrial.runai_files:
    run_dir: "{{ run_dir }}"
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
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._runai import write_scale_test_files
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir import run_reader, timeline_table
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_files import Step


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={**_common_options.RUN_DIR, **_common_options.STEP})

    def work(_step: Step) -> dict[str, Any]:
        points = {}
        for point in run_reader.read(Path(module.params["run_dir"])).points:
            timeline = point.folder / "timeline.jsonl"
            if timeline.exists():  # a point that did not start has none
                points[point.number] = write_scale_test_files.write(
                    timeline_table.read(timeline), point.folder / "runai"
                )
        return {"changed": True, "points": points}

    _module_main.run(module, work)


if __name__ == "__main__":
    main()
