# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run module results_timeline where it lies."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.plugin_utils.in_place_module import InPlaceAction


class ActionModule(InPlaceAction):
    """Does nothing that the module does not do."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module and return its result."""
        result = super().run(tmp, task_vars)
        name = self._task.resolved_action or self._task.action
        result.update(self._execute_module(module_name=name, task_vars=task_vars))
        return result
