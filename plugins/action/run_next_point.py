# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which point of the run is measured next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.utils.display import Display
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.action_base import SeatrialAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import point_attempts


class ActionModule(SeatrialAction):
    """See the documentation of module run_next_point."""

    ARGUMENTS = {
        "stop_on_error": {"type": "bool", "default": False},
        "repeat": {"type": "dict", "default": {}},
        "bisect": {"type": "dict", "default": {}},
        "kpis": {"type": "list", "elements": "dict", "default": []},
    }

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return the name of the point, or that there is none, and why."""
        run_dir = Path(self._templar.template(task_vars["run_dir"]))
        found = point_attempts.answer(
            run_dir,
            arguments["stop_on_error"],
            point_attempts.ScheduleWords(arguments["repeat"], arguments["bisect"], arguments["kpis"]),
        )
        if found["attempt"] > 1 or arguments["bisect"]:
            Display().display(f"Point {found['point']}: {found['why']}" if found["point"] else found["why"])
        return {"changed": True, **found}
