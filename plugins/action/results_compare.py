# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run module results_compare, and state its result or error to a CI job."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.module_actions import InPlaceAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.run_directory import write_outcome_file


class ActionModule(InPlaceAction):
    """See the documentation of module results_compare."""

    PATHS = ("definitions",)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module and return its result."""
        result = super().run(tmp, task_vars)
        if result.get("failed"):
            write_outcome_file(InputError(str(result.get("msg"))))
        else:
            write_outcome_file({"comparison": self._task.args["dest"]})
        return result
