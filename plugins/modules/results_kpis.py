#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: results_kpis
short_description: Compute the KPIs of each test point
version_added: 0.1.0
description:
  - Computes the figures of each test point by their definitions, from its timeline, training figures, ledger and
    metrics, and writes C(kpis.json) and C(attribution.json) to C(points/<nnn>/).
  - Each figure has a unit, a direction, a measurement interval, a confidence interval, C(n) of C(of) rows, and whether
    it is simulated.
  - A workload that did not reach a stage counts as longer than all others. A quantile among such workloads has no
    value, but a note with a lower bound.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._run
  - perfscale.seatrial._run.points
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
  definitions:
    description:
      - YAML files with KPI definitions, in display order. A later definition replaces an earlier one of the same name.
        C(docs/kpis.md) describes the format.
      - Of a folder, its C(kpis.yml) is read, then those of the folders in it.
    type: list
    elements: path
    required: true
seealso:
  - module: perfscale.seatrial.results_timeline
  - module: perfscale.seatrial.results_verdict
"""

EXAMPLES = r"""
- name: Compute the KPIs
  perfscale.seatrial.results_kpis:
    run_dir: "{{ run_dir }}"
    definitions:
      - "{{ role_path }}/files/kpis/workload.yml"
      - my_kpis.yml
"""

RETURN = r"""
points:
  description: Results, one entry per point.
  returned: success
  type: list
  elements: dict
  contains:
    point:
      description: Number of the point.
      type: str
    kpis:
      description: Number of figures.
      type: int
    without_value:
      description: Number of figures without a value; their notes state the reason.
      type: int
summary:
  description: Summary in one sentence.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import common_options, module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step, log_result
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **common_options.RUN_DIR,
            "definitions": {"type": "list", "elements": "path", "required": True},
            **common_options.POINTS,
            **common_options.STEP,
        },
    )
    given = module.params

    def make(step: Step) -> dict[str, Any]:
        with step.timed("results", "kpis"):
            result = write_kpis(given["run_dir"], given["definitions"], given["points"])
        return log_result(step, module.warn, result)

    module_main.run(module, make)


if __name__ == "__main__":
    main()
