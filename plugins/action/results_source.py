# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run module results_source with the paths that its user meant."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.plugin_utils import user_path
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.in_place_module import InPlaceAction

PATHS = ("sources", "dest", "ca_file")


class ActionModule(InPlaceAction):
    """See the documentation of module results_source."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module and return its result."""
        result = super().run(tmp, task_vars)
        arguments = {
            name: user_path.absolute_all(value) if name in PATHS else value for name, value in self._task.args.items()
        }
        name = self._task.resolved_action or self._task.action
        result.update(self._execute_module(module_name=name, module_args=arguments, task_vars=task_vars))
        return result
