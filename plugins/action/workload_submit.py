# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads templates, traces and stage definitions on the controller, then runs workload_submit or workload_sample."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.module_actions import ProgressAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import read_workload_files, workload_kinds


class ActionModule(ProgressAction):
    """Templates are found as ansible.builtin.template finds them, stage definitions by the name of their kind."""

    def prepare(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Replace names of files by their content."""
        return read_workload_files.submit_options_with_content(
            arguments,
            read_workload_files.with_working_directory_fallback(self._find_needle),
            workload_kinds.kind_folders_of_task(task_vars, self._templar.template),
        )
