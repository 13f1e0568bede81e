#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: results_timeline
short_description: Make the timeline of each test point
version_added: 0.1.0
description:
  - Joins plan, ledger and observations of a point into one row for every planned workload, also for those that were
    refused, lost or never sent.
  - Each stage of a workload is an interval, C([earliest, latest]). Its bounds come from the resourceVersions of our own
    writes, whose moments are known on our own clock; no clock of a server is trusted. Bounds that contradict each
    other are kept and told, never corrected.
  - Writes C(timeline.jsonl) and C(timeline.csv) into C(points/<nnn>/). Needs no cluster, so it can be repeated on a run
    directory at any time, also after a run that was interrupted.
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
  head:
    description: Look at the first so many workloads only, in the order of submission. V(0) is all.
    type: int
    default: 0
  tail:
    description: Look at the last so many only, of those that O(head) left. V(0) is all.
    type: int
    default: 0
  skip_errors:
    description: Leave out the workloads that did not succeed.
    type: bool
    default: false
  audit_log:
    description:
      - Audit log of the API server (JSON lines), to narrow the intervals of objects that were watched. Its clock is
        bounded by our own creates; where that fails, a note says so and the log is left out.
    type: path
    default: ''
notes:
  - O(head), O(tail) and O(skip_errors) hold for all that is made from the timeline, which are KPIs, verdict, plots and
    page, and each says so.
seealso:
  - module: perfscale.seatrial.results_kpis
"""

EXAMPLES = r"""
- name: Make the timelines
  perfscale.seatrial.results_timeline:
    run_dir: "{{ run_dir }}"
"""

RETURN = r"""
points:
  description: What was made, one entry a point.
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
      description: How many workloads ended how.
      type: dict
      sample: {succeeded: 11, failed: 1}
    stages:
      description: How many workloads were seen to reach each stage.
      type: dict
    contradictions:
      description: Number of rows whose times contradict each other.
      type: int
summary:
  description: All of it in one sentence.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step, log_result
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline.workload_selection import WorkloadSelection
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline.write_timeline import write_timeline


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **_common_options.RUN_DIR,
            **_common_options.POINTS,
            "head": {"type": "int", "default": 0},
            "tail": {"type": "int", "default": 0},
            "skip_errors": {"type": "bool", "default": False},
            "audit_log": {"type": "path", "default": ""},
            **_common_options.STEP,
        },
    )

    def make(step: Step) -> dict[str, Any]:
        with step.timed("results", "timeline"):
            given = module.params
            chosen = WorkloadSelection(given["head"], given["tail"], given["skip_errors"])
            result = write_timeline(given["run_dir"], given["points"], chosen, given["audit_log"])
        return log_result(step, module.warn, result)

    _module_main.run(module, make)


if __name__ == "__main__":
    main()
