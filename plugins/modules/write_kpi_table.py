#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: write_kpi_table
short_description: Write the KPIs of many runs as one table
version_added: 1.0.0
description:
  - Writes a CSV or Parquet file with a row for each KPI of each point of the runs, the oldest run first. Of several
    attempts at a point, those that count for the verdict are in it.
  - The table is searched for secrets first. Nothing is written if there is one.
author:
  - The perfscale.seatrial authors (@perfscale)
requirements:
  - pyarrow, for Parquet
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
  - perfscale.seatrial._export
  - perfscale.seatrial._export.secrets
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: none
    details: Check mode is not supported, because writing this file is the only effect.
  diff_mode:
    support: none
    details: The file that it writes is its result.
  idempotent:
    support: full
options:
  runs:
    description: Run directories, and folders that contain run directories at most two levels below.
    type: list
    elements: path
    required: true
  dest:
    description: The file, which ends in C(.csv) or C(.parquet). It is replaced.
    type: path
    required: true
seealso:
  - module: perfscale.seatrial.results_compare
  - module: perfscale.seatrial.export_run
"""

EXAMPLES = r"""
- name: Write the KPIs of all runs as CSV
  perfscale.seatrial.write_kpi_table:
    runs: [artifacts]
    dest: kpis.csv
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
rows:
  description: Number of rows.
  returned: success
  type: int
runs:
  description: Number of runs with rows.
  returned: success
  type: int
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
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import export_run, kpi_table


def main() -> None:
    """Run the module."""
    gate = {name: spec for name, spec in export_run.GATE.items() if name != "run_dir"}
    module = AnsibleModule(
        argument_spec={
            "runs": {"type": "list", "elements": "path", "required": True},
            "dest": {"type": "path", "required": True},
            **gate,
            **ansible_module.PROGRESS,
        }
    )

    def work(step: StepDirectory) -> dict[str, Any]:
        params = module.params
        written = kpi_table.write_kpi_table(
            params["runs"], params["dest"], params["secrets"], params["kubeconfigs"], params["invalid"]
        )
        return log_summary_and_warnings(step, module.warn, written)

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
