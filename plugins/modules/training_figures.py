#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: training_figures
short_description: Read the figures that trainings print in their logs
version_added: 0.1.0
description:
  - Reads logs of training pods and writes their figures to C(training.jsonl) of a point, one line per log.
  - O(log_format) describes what the program prints, such as a summary of the whole training, or a record of each step.
  - It needs no cluster and can be repeated on a run directory at any time.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: none
    details: Check mode is not supported, because writing these files is the only effect.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: full
options:
  point_dir:
    description: Directory of the point, in which C(training.jsonl) is written.
    type: path
    required: true
  logs_dir:
    description: Directory of the logs. Empty means C(logs) in the directory of the point.
    type: path
    default: ''
  pods:
    description:
      - The pods that M(perfscale.seatrial.pod_logs) returned. Without them, every C(*.log) in O(logs_dir) is read, and
        index and workload follow from the file name.
    type: list
    elements: dict
  log_format:
    description:
      - How the program prints its figures, as C(log_format) in the C(flavour.yml) of a flavour. The logs of
        simulated pods have another format, which is known.
    type: dict
    required: true
  simulated:
    description: Whether the logs are simulated and not of a training, except those of pods on O(real_nodes).
    type: bool
    required: true
  real_nodes:
    description: Names of the nodes that are not simulated, of a cluster with simulated ones.
    type: list
    elements: str
    default: []
  progress:
    description:
      - How the program writes its progress to files, as C(progress) in the C(flavour.yml) of a flavour. They are read
        from C(files) in the directory of the point, if they were fetched from the volume of the trainings.
    type: dict
    default: {}
  settings:
    description:
      - Numbers by name, for the formulas in C(expected) of O(log_format). Others than numbers are left out.
      - C(processes) is the number of processes of a training, in all its pods. Figures in C(summary.per_process) of
        O(log_format), which count what one process did, are multiplied by it.
    type: dict
    default: {}
seealso:
  - module: perfscale.seatrial.pod_logs
"""

EXAMPLES = r"""
- name: Read the training figures
  perfscale.seatrial.training_figures:
    point_dir: "{{ run_dir }}/points/001"
    log_format:
      summary:
        has: [train_runtime, train_samples_per_second]
      loss: {of: [loss], over: [epoch]}
    simulated: "{{ cluster_acquired.sutest.simulated }}"
"""

RETURN = r"""
logs:
  description: Number of logs that were read.
  returned: success
  type: int
with_figures:
  description: Number of logs with figures.
  returned: success
  type: int
medians:
  description: Median of each figure over these logs.
  returned: success
  type: dict
  sample: {train_runtime: 4.2, train_samples_per_second: 13.7}
errors:
  description: Logs without figures, with the reason.
  returned: success
  type: list
  elements: str
unexpected:
  description: Figures that are not what C(expected) of O(log_format) gives, except those of simulated logs.
  returned: success
  type: list
  elements: str
unchecked:
  description:
    - Why it is unknown whether the processes of a training worked together, if a log or the settings lack what
      C(expected) of O(log_format) needs. Empty if it was checked, or if each training has one process.
  returned: success
  type: str
summary:
  description: The result in one sentence.
  returned: success
  type: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.training_figures import (
    training_log,
    training_rows,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.training_figures.training_log import (
    LogFormat,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "point_dir": {"type": "path", "required": True},
            "logs_dir": {"type": "path", "default": ""},
            "pods": {"type": "list", "elements": "dict"},
            "log_format": {"type": "dict", "required": True},
            "simulated": {"type": "bool", "required": True},
            "real_nodes": {"type": "list", "elements": "str", "default": []},
            "progress": {"type": "dict", "default": {}},
            "settings": {"type": "dict", "default": {}},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
    )
    params = module.params

    def work(step: StepDirectory) -> dict[str, Any]:
        log_format, settings = (
            LogFormat.of(params["log_format"]),
            training_log.finite_numbers_by_name(params["settings"]),
        )
        folder = params["logs_dir"] or Path(params["point_dir"]) / "logs"
        with step.timed("logs", "training figures"):
            logs = (
                training_rows.find_logs_in_folder(folder)
                if params["pods"] is None
                else training_rows.logs_from_pod_logs(params["pods"], folder)
            )
            changed, rows = training_rows.write_training_rows(
                params["point_dir"],
                logs,
                log_format,
                params["simulated"],
                params["real_nodes"],
                settings,
                training_rows.ProgressFormat.of(params["progress"]),
            )
        text = training_rows.format_summary_sentence(rows)
        if rows:
            step.reporter(params["progress_file"], "training")(text)
        errors = [f"{row['pod']}: {row['error']}" for row in rows if row["error"]]
        unexpected = training_rows.unexpected_figures(rows, log_format.expected_of(settings))
        findings = {
            "errors": errors,
            "unexpected": unexpected,
            "unchecked": training_rows.describe_unchecked_joint_training(rows),
        }
        findings |= training_rows.summarize_figures(rows)
        return {"changed": changed, "summary": text, **findings}

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
