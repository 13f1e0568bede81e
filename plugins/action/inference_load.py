# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the trace of arrivals on the controller, then runs inference_load."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.module_actions import ProgressAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import read_workload_files


class ActionModule(ProgressAction):
    """Paths are relative to the working directory of the caller; traces are found as files of a role, too."""

    PATHS = ("ca_file", "prompts_file", "tokenizer")

    def prepare(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Make paths absolute, and replace the name of a trace by its content."""
        arguments = super().prepare(arguments, task_vars)
        if not arguments.get("arrival"):
            return arguments
        find = read_workload_files.with_working_directory_fallback(self._find_needle)
        return {**arguments, "arrival": read_workload_files.arrival_with_trace(arguments["arrival"], find)}
