# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the files of a load on the controller, then runs workload_in_pod and shows its progress."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.progress_action import ProgressAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_files, workload_kinds


class ActionModule(ProgressAction):
    """The files are found as those of workload_submit are."""

    def prepare(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Replace names of files by their content."""
        if not arguments.get("request"):
            return arguments
        return {
            **arguments,
            "request": files.plain(
                workload_files.request(
                    arguments["request"],
                    self._find_needle,
                    workload_kinds.places_of_task(task_vars, self._templar.template),
                )
            ),
        }
