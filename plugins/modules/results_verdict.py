#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: results_verdict
short_description: Judge a run
version_added: 0.1.0
description:
  - Writes C(verdict.json) into the run directory, with every check that led to it.
  - V(pass) when every workload of every point succeeded, the generator was on time and no phase failed; V(invalid) when
    the generator was late, so that the load was not the one that was asked for; V(inconclusive) when nothing failed,
    but the files are another tool's and don't tell all that is judged; V(fail) otherwise.
  - KPIs are recorded, and told to have no baseline.
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
      - The run is invalid when the 99th percentile of lateness, sent minus due, exceeds this, in seconds.
      - For points whose C(settings.yml) doesn't set C(workload_max_lateness), which goes before.
    type: float
    default: 0.1
seealso:
  - module: perfscale.seatrial.results_kpis
  - module: perfscale.seatrial.results_report
"""

EXAMPLES = r"""
- name: Judge the run
  perfscale.seatrial.results_verdict:
    run_dir: "{{ run_dir }}"
"""

RETURN = r"""
verdict:
  description: V(pass), V(fail), V(invalid) or V(inconclusive).
  returned: success
  type: str
  sample: pass
checks:
  description: What was checked, one entry a check.
  returned: success
  type: list
  elements: dict
  contains:
    check:
      description: What was looked at, V(points), V(objects), V(generator), V(phases) or V(KPIs).
      type: str
    point:
      description: Number of the point, null for what concerns the whole run.
      type: str
    result:
      description: V(pass), V(fail), V(invalid), V(no baseline) or V(not judged).
      type: str
    detail:
      description: One sentence with the numbers.
      type: str
headline:
  description: The figures to show first, one entry a KPI.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the KPI.
      type: str
    title:
      description: The same for people.
      type: str
    value:
      description: The value; where points differ a text with the value of each; null when it is not known.
      type: raw
    unit:
      description: Its unit.
      type: str
    text:
      description: Value and unit in words.
      type: str
    detail:
      description: How many rows it rests on, and what has to be said about it.
      type: str
    simulated:
      description: Whether a simulated writer had a part in it.
      type: bool
    points:
      description: Value, interval, n of N in each point.
      type: list
      elements: dict
answer:
  description: The sentence that the report leads with, empty when no figure gives one.
  returned: success
  type: list
  elements: str
  sample: ["The P95 scheduling latency has its knee at 5/s"]
doubts:
  description: What makes the figures doubtful, such as a busy machine, a sentence each. In the file it is C(warnings).
  returned: success
  type: list
  elements: str
path:
  description: The file.
  returned: success
  type: str
summary:
  description: The verdict and the first reason for it.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step, log_result
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
