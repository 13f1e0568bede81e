#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: results_compare
short_description: Compare runs side by side
version_added: 0.1.0
description:
  - Writes C(comparison.json), C(index.html) and plots. They show the settings that differ, the difference of each KPI
    with its confidence interval, the overlaid distributions of stage durations, and the contribution of each stage and
    each writer to the difference of the mean times.
  - Points with the same matrix values are compared; if both runs have one point, these two.
  - Runs of the same configuration form a group. The first group, or the first point of a single run, is the baseline.
    Points of several seeds are compared with that of their seed which has the other settings of the first point.
    Simulated figures are marked.
  - The verdict compares each further group of runs with the first one, together with past runs. The points of a single
    run have none.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._export.ca_file
  - perfscale.seatrial._history
  - perfscale.seatrial._history.judging
  - perfscale.seatrial._step_directory
attributes:
  check_mode:
    support: none
    details: It only computes; without its files there is no result.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: full
options:
  run_dirs:
    description: Directories of runs. Of a single run the points are compared.
    type: list
    elements: path
    required: true
  dest:
    description: Directory to write to; created if it is missing.
    type: path
    required: true
  definitions:
    description: YAML files with KPI definitions.
    type: list
    elements: path
    required: true
  template:
    description: Jinja2 template of the page.
    type: path
    required: true
seealso:
  - module: perfscale.seatrial.results_source
  - module: perfscale.seatrial.results
"""

EXAMPLES = r"""
- name: Compare two runs
  perfscale.seatrial.results_compare:
    run_dirs: [artifacts/fine_tuning-light-t1121-k3f9xa, artifacts/fine_tuning-light-t1122-p7q2ma]
    dest: artifacts/compare
    definitions: [roles/results/files/kpis/workload.yml]
    template: roles/results/templates/compare.html.j2
"""

RETURN = r"""
path:
  description: The page.
  returned: success
  type: str
lines:
  description: The headline figures, one line each.
  returned: success
  type: list
  elements: str
verdict:
  description: V(pass), V(improvement), V(inconclusive), V(invalid) or V(regression); null for the points of one run.
  returned: success
  type: str
code:
  description: The verdict as a number that ascends with gravity, from 0 for V(pass) to 4 for V(regression).
  returned: success
  type: int
exit_status:
  description: Exit status for a CI job, as module M(perfscale.seatrial.results) returns it.
  returned: success
  type: int
why:
  description: The reasons of the verdict.
  returned: success
  type: list
  elements: str
summary:
  description: The page, and the number of figures by assessment.
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
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.compare import compare_runs
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import history_settings
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.judge_run_groups import ComparisonRules


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "run_dirs": {"type": "list", "elements": "path", "required": True},
            "dest": {"type": "path", "required": True},
            "definitions": {"type": "list", "elements": "path", "required": True},
            "template": {"type": "path", "required": True},
            **history_settings.OPTIONS,
            **ansible_module.STEP,
        },
    )

    def compare(step: StepDirectory) -> dict[str, Any]:
        params = module.params
        request = history_settings.history_request_from_params(params)
        history_settings.check_history_sources_exist(
            request.sources, (params["history_opensearch"] or {}).get("url", "")
        )
        history_settings.check_number_of_past_runs(request.most)
        rules = ComparisonRules(request, history_settings.comparison_settings_from_params(params), params["judged"])
        with step.timed("results", "compare"):
            result = compare_runs.write_run_comparison(
                params["run_dirs"], params["dest"], params["definitions"], params["template"], rules
            )
        return log_summary_and_warnings(step, module.warn, result)

    ansible_module.run_module_work(module, compare)


if __name__ == "__main__":
    main()
