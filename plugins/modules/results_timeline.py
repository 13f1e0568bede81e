#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: results_timeline
short_description: Compute the timeline of each test point
version_added: 0.1.0
description:
  - Joins plan, ledger and observations of a point into one row per planned workload, including those that were refused,
    lost or never sent.
  - Each stage of a workload is an interval, C([earliest, latest]). Its bounds come from the resourceVersions of our own
    writes, whose times are known on our own clock; no server clock is used. Contradicting bounds are reported, not
    corrected.
  - Writes C(timeline.jsonl) and C(timeline.csv) to C(points/<nnn>/). It needs no cluster and can be repeated on a run
    directory at any time, also after an interrupted run.
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
  head:
    description: Number of workloads to evaluate, in order of submission. V(0) means all.
    type: int
    default: 0
  tail:
    description: Number of workloads to evaluate at the end of those that O(head) selects. V(0) means all.
    type: int
    default: 0
  skip_errors:
    description: Whether to leave out workloads that did not succeed.
    type: bool
    default: false
  audit_log:
    description:
      - Audit log of the API server (JSON lines), to narrow the intervals of watched objects. Our own creates bound the
        offset of its clock; if no offset fits, a note states this and the log is not used.
    type: path
    default: ''
notes:
  - O(head), O(tail) and O(skip_errors) apply to everything computed from the timeline (KPIs, verdict, plots, page), and
    each result states them.
seealso:
  - module: perfscale.seatrial.results_kpis
"""

EXAMPLES = r"""
- name: Compute the timelines
  perfscale.seatrial.results_timeline:
    run_dir: "{{ run_dir }}"
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
    planned:
      description: Number of planned workloads, which is the number of rows.
      type: int
    outcomes:
      description: Number of workloads by outcome.
      type: dict
      sample: {succeeded: 11, failed: 1}
    stages:
      description: Number of workloads that reached each stage.
      type: dict
    contradictions:
      description: Number of rows whose times contradict each other.
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
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import (
    WorkloadSelection,
    write_timeline,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **common_options.RUN_DIR,
            **common_options.POINTS,
            "head": {"type": "int", "default": 0},
            "tail": {"type": "int", "default": 0},
            "skip_errors": {"type": "bool", "default": False},
            "audit_log": {"type": "path", "default": ""},
            **common_options.STEP,
        },
    )

    def compute(step: Step) -> dict[str, Any]:
        with step.timed("results", "timeline"):
            given = module.params
            chosen = WorkloadSelection(given["head"], given["tail"], given["skip_errors"])
            result = write_timeline(given["run_dir"], given["points"], chosen, given["audit_log"])
        return log_result(step, module.warn, result)

    module_main.run(module, compute)


if __name__ == "__main__":
    main()
