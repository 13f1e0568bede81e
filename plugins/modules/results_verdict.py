#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: results_verdict
short_description: Determine the verdict of a run
version_added: 0.1.0
description:
  - Writes C(verdict.json) to the run directory, with the result of each check.
  - V(pass) if every workload of every point succeeded, the generator was on time and no phase failed; V(invalid) if the
    generator was late, so that the load was not the requested one, or the run lost its lock on the cluster;
    V(inconclusive) if nothing failed, but the files of another tool lack data that is judged; V(fail) otherwise.
  - KPIs are recorded without comparing them to a baseline.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._run
  - perfscale.seatrial._step
attributes:
  check_mode:
    support: none
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  max_lateness:
    description:
      - Limit of the 99th percentile of the lateness (sent minus due), in seconds. The run is invalid above it.
      - C(workload_max_lateness) in the C(settings.yml) of a point takes precedence.
    type: float
    default: 0.1
seealso:
  - module: perfscale.seatrial.results_kpis
  - module: perfscale.seatrial.results_report
"""

EXAMPLES = r"""
- name: Determine the verdict
  perfscale.seatrial.results_verdict:
    run_dir: "{{ run_dir }}"
"""

RETURN = r"""
verdict:
  description: V(pass), V(improvement), V(inconclusive), V(invalid), V(regression) or V(error).
  returned: success
  type: str
  sample: pass
checks:
  description: The checks, one entry each.
  returned: success
  type: list
  elements: dict
  contains:
    check:
      description: Name of the check, V(phases), V(lock), V(points), V(objects), V(generator) or V(KPIs).
      type: str
    point:
      description: Number of the point, null for checks of the whole run.
      type: str
    result:
      description: V(pass), V(outside), V(invalid), V(error), V(not judged) or V(not enough history).
      type: str
    detail:
      description: One sentence with the numbers.
      type: str
headline:
  description: The headline figures, one entry per KPI.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the KPI.
      type: str
    title:
      description: Display name of the KPI.
      type: str
    value:
      description: The value; a text with all values if points differ; null if it is unknown.
      type: raw
    unit:
      description: Its unit.
      type: str
    text:
      description: Value and unit as text.
      type: str
    detail:
      description: Number of rows, and a remark.
      type: str
    simulated:
      description: Whether a simulated writer had a part in it.
      type: bool
    points:
      description: Value, interval, n of N in each point.
      type: list
      elements: dict
answer:
  description: The sentence that the report leads with, empty if no figure provides one.
  returned: success
  type: list
  elements: str
  sample: ["The P95 scheduling latency has its knee at 5/s"]
doubts:
  description: Reasons to doubt the figures, such as a busy machine, one sentence each. Key C(warnings) of the file.
  returned: success
  type: list
  elements: str
path:
  description: The file.
  returned: success
  type: str
summary:
  description: The verdict and its first reason.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_files import Step, log_result
from ansible_collections.perfscale.seatrial.plugins.module_utils._verdict.write_verdict import write_verdict


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **_common_options.RUN_DIR,
            "max_lateness": {"type": "float", "default": 0.1},
            **_common_options.STEP,
        },
    )

    def make(step: Step) -> dict[str, Any]:
        with step.timed("results", "verdict"):
            result = write_verdict(module.params["run_dir"], module.params["max_lateness"])
        return log_result(step, module.warn, result)

    _module_main.run(module, make)


if __name__ == "__main__":
    main()
