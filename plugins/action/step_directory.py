# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the numbered directory of a role call, and record the call in it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.action_base import SeatrialAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import role_call_record, run_directory


class ActionModule(SeatrialAction):
    """Create NNN__role__entry in the directory of fact run_dir and return its path."""

    ARGUMENTS = {"role": {"type": "str", "required": True}, "entry": {"type": "str", "required": True}}

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Create the directory and write the arguments of the call and the first line of its log."""
        top = task_vars.get("run_dir")
        if not top:
            raise InputError(f"role {arguments['role']} has no run directory: call entry point open of role run first")
        path = run_directory.create_next_step_directory(
            Path(self._templar.template(top)), arguments["role"], arguments["entry"]
        )
        if self._task._role is not None:
            role_call_record.write_call_record(
                path, self._task._role, task_vars, self._templar.template, sys.argv, self._loader
            )
        StepDirectory(str(path)).log(f"{arguments['role']} {arguments['entry']}")
        return {"path": str(path)}
