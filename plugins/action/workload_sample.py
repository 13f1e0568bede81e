# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the files that module workload_sample needs, run it, and show its progress."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import workload_files
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.progress_action import ProgressAction


class ActionModule(ProgressAction):
    """Stage definitions are found by the name of their kind."""

    def prepare(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Replace names of files by what they hold."""
        try:
            stages = workload_files.stages(arguments.get("stages"), self._find_needle)
        except SeatrialError as error:
            raise AnsibleActionFail(str(error)) from error
        return arguments if stages is None else {**arguments, "stages": stages}
