# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the log that the training pods of a training show."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._load import simulated_training_logs
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.action_base import SeatrialAction


class ActionModule(SeatrialAction):
    """Computes run time and figures from the settings of a point, and writes the log that KWOK serves."""

    ARGUMENTS = {
        "path": {"type": "path"},
        "run_seconds": {"type": "float", "required": True},
        "pods": {"type": "int", "required": True},
        "gpus": {"type": "int", "required": True},
        "model_name": {"type": "str", "required": True},
        "dataset_name": {"type": "str", "required": True},
        "hyper_parameters": {"type": "dict", "default": {}},
        **ansible_module.STEP,
    }

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Write the log, if it has a path, and return run time and figures."""
        pods, gpus = arguments["pods"], arguments["gpus"]
        training = simulated_training_logs.simulate_training_job(
            arguments["run_seconds"], pods, gpus, arguments["hyper_parameters"]
        )
        changed = False
        if arguments["path"] and not self._task.check_mode:
            texts = simulated_training_logs.training_log_lines(
                training, arguments["model_name"], arguments["dataset_name"], pods, gpus
            )
            changed = simulated_training_logs.write_log_file(arguments["path"], texts)
        StepDirectory(arguments["step_dir"]).log(
            f"simulated: pods run {training.run_seconds:g} s, figures in their log {training.figures}"
        )
        return {"changed": changed, "run_seconds": training.run_seconds, "figures": training.figures}
