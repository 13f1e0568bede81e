# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record the phases, points, failures and the end of a run, and decide which point is measured next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.action_base import SeatrialAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.record_run_state import POINT_STATES, record_state

VERDICTS = ["improvement", "inconclusive", "invalid", "regression", "error"]
STATES = ["started", "skipped", "failed", "next_point", *POINT_STATES, "settled", "closed"]


class ActionModule(SeatrialAction):
    """See the documentation of module record_run_state."""

    ARGUMENTS = {
        "state": {"type": "str", "choices": STATES, "default": "started"},
        **{name: {"type": "str"} for name in ("phase", "point", "error", "cause")},
        "stop_on_error": {"type": "bool", "default": False},
        "repeat": {"type": "dict", "default": {}},
        "bisect": {"type": "dict", "default": {}},
        "kpis": {"type": "list", "elements": "dict", "default": []},
        "failures": {"type": "list", "elements": "str", "default": []},
        "fail_on": {
            "type": "list",
            "elements": "str",
            "choices": VERDICTS,
            "default": ["regression", "invalid", "error"],
        },
        "repeat_failure": {"type": "bool", "default": False},
    }
    REQUIRED_IF = (
        *(("state", state, ("phase",)) for state in ("started", "skipped")),
        *(("state", state, ("point",)) for state in POINT_STATES),
    )

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Change the record of the run, or of the point."""
        if not task_vars.get("run_dir"):
            raise InputError("no run is open: call entry point open of role run first")
        return record_state(Path(self._templar.template(task_vars["run_dir"])), arguments, task_vars)
