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
  - Computes figures from the timeline and the training figures of a point, as their definitions say, and writes
    C(kpis.json) into C(points/<nnn>/).
  - Each figure has a unit, a direction, the interval that the errors of its times allow, C(n) of C(of) rows that it
    rests on, and whether it was simulated.
  - A workload that never got to a stage counts as longer than all others. A quantile that falls among such workloads
    has no value but a note that begins with C(>=) and a lower bound.
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
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  definitions:
    description:
      - YAML files with definitions of KPIs, in the order in which they are shown. A later definition replaces an
        earlier one of the same name. C(docs/report.md) says what a definition holds.
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
  description: What was computed, one entry a point.
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
      description: How many of them could not be computed; each says why in its note.
      type: int
summary:
  description: All of it in one sentence.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step, log_result


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **_common_options.RUN_DIR,
            "definitions": {"type": "list", "elements": "path", "required": True},
            **_common_options.POINTS,
            **_common_options.STEP,
        },
    )
    given = module.params

    def make(step: Step) -> dict[str, Any]:
        with step.timed("results", "kpis"):
            result = write_kpis(given["run_dir"], given["definitions"], given["points"])
        return log_result(step, module.warn, result)

    _module_main.run(module, make)


if __name__ == "__main__":
    main()
