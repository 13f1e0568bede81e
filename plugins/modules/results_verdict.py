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
  - Writes C(verdict.json) to the run directory, with the result of each check and of each judged KPI, and from it
    C(junit.xml) and C(summary.md).
  - V(error) if the run failed before its first test point, lost its cluster or its lock on it; V(invalid) if the
    measurement is not the requested one; V(regression) if a workload did not succeed or a KPI is outside its limit;
    V(inconclusive) if a KPI could not be decided; V(improvement) or V(pass) otherwise.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._export.ca_file
  - perfscale.seatrial._history
  - perfscale.seatrial._history.judging
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
  max_lateness:
    description:
      - Limit of the 99th percentile of the lateness (sent minus due), in seconds. The run is invalid above it.
      - C(workload_max_lateness) in the C(settings.yml) of a point takes precedence.
    type: float
    default: 0.1
  definitions:
    description: YAML files of KPI definitions, read in this order. They state the units of limits.
    type: list
    elements: path
    default: []
  limits:
    description:
      - Limits of KPIs. KPI name, or a pattern with C(*), with C(max), C(min) or both; a number or text with a unit.
      - C(results_limits) in the C(settings.yml) of a point takes precedence. By default no workload may fail.
    type: dict
  max_errors:
    description: Share of workloads refused, lost or never sent, above which the run is invalid.
    type: float
    default: 0.01
  write:
    description: Whether to write the files. A run that repeats its points only needs the result between two attempts.
    type: bool
    default: true
seealso:
  - module: perfscale.seatrial.results
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
code:
  description: The verdict as a number that ascends with gravity, from 0 for V(pass) to 5 for V(error).
  returned: success
  type: int
  sample: 0
exit_status:
  description: Exit status for a CI job. 0 for V(pass) and V(improvement), 1 for V(regression), 2 for V(inconclusive)
    and V(invalid), 3 for V(error).
  returned: success
  type: int
  sample: 0
checks:
  description: The checks, one entry each.
  returned: success
  type: list
  elements: dict
  contains:
    check:
      description: Name of the check, V(phases), V(lock), V(points), V(objects) or V(generator).
      type: str
    point:
      description: Number of the point, null for checks of the whole run.
      type: str
    result:
      description: V(pass), V(outside), V(invalid), V(error) or V(not judged).
      type: str
    detail:
      description: One sentence with the numbers.
      type: str
kpis:
  description: The judged KPIs of each point, as in schema C(verdict/2).
  returned: success
  type: list
  elements: dict
  contains:
    point:
      description: Number of the point.
      type: str
    name:
      description: Name of the KPI.
      type: str
    reading:
      description: Result of the comparison with history, V(not judged) for a KPI that is not compared.
      type: str
    limit:
      description: Result of the comparison with its limit, and the sentence that explains it.
      type: dict
    why:
      description: The sentence that explains the result.
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
reasons:
  description:
    - Why the verdict is what it is, one sentence for each check and KPI; how the KPIs of a V(pass) compare with the
      history. The last sentence states the past runs that were used and left out, if there is a history.
  returned: success
  type: list
  elements: str
  sample: ["makespan (point 000): 12 % slower than 18 runs of 4.19.3 (8 to 16 %), p 0.0004"]
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
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import common_options, module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step, log_result
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import history_settings
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.judge_run import JudgingRules
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **common_options.RUN_DIR,
            "max_lateness": {"type": "float", "default": 0.1},
            "definitions": {"type": "list", "elements": "path", "default": []},
            "limits": {"type": "dict"},
            "max_errors": {"type": "float", "default": 0.01},
            "write": {"type": "bool", "default": True},
            **history_settings.OPTIONS,
            **common_options.STEP,
        },
    )

    def judge(step: Step) -> dict[str, Any]:
        params = module.params
        settings = history_settings.settings_from_params(params)
        rules = JudgingRules(max_errors=params["max_errors"], judged=params["judged"], history=settings)
        request = history_settings.request_from_params(params)
        with step.timed("results", "verdict"):
            result = write_verdict(
                params["run_dir"],
                params["max_lateness"],
                params["definitions"],
                params["limits"],
                rules,
                request,
                params["write"],
            )
        return log_result(step, module.warn, result)

    module_main.run(module, judge)


if __name__ == "__main__":
    main()
