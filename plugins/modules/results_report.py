#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: results_report
short_description: Draw the plots and write the report of a run
version_added: 0.1.0
description:
  - Writes C(report/index.html), a self-contained file with all plots and styles, and each plot as
    C(report/plots/*.png) with its data as C(*.csv).
  - The report is created from the files that exist. It lists missing data.
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
    details: The files that it writes are its result.
  idempotent:
    support: full
options:
  template:
    description: Jinja2 template of the page. Files that it includes are in the same directory.
    type: path
    required: true
seealso:
  - module: perfscale.seatrial.results_verdict
"""

EXAMPLES = r"""
- name: Write the report
  perfscale.seatrial.results_report:
    run_dir: "{{ run_dir }}"
    template: "{{ role_path }}/templates/report.html.j2"
"""

RETURN = r"""
path:
  description: The page.
  returned: success
  type: str
  sample: artifacts/fine_tuning-light-t1121-k3f9xa/report/index.html
plots:
  description: The plots as files.
  returned: success
  type: list
  elements: path
missing:
  description: Missing or unreadable data, one sentence each.
  returned: success
  type: list
  elements: str
summary:
  description: The page and the number of plots.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import common_options, module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step, log_result
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report.write_report import write_report


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **common_options.RUN_DIR,
            "template": {"type": "path", "required": True},
            **common_options.STEP,
        },
    )

    def make(step: Step) -> dict[str, Any]:
        with step.timed("results", "report"):
            result = write_report(module.params["run_dir"], module.params["template"])
        return log_result(step, module.warn, result)

    module_main.run(module, make)


if __name__ == "__main__":
    main()
