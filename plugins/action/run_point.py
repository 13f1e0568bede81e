# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mark in point.yml that a test point begins or ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.utils.display import Display
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import stamp
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.action_base import SeatrialAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import point_nodes

KPIS, LEDGER = "kpis.json", "ledger.jsonl"


class ActionModule(SeatrialAction):
    """See the documentation of module run_point."""

    ARGUMENTS = {
        "point": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["running", "passed", "failed"], "required": True},
        "error": {"type": "str"},
        "cause": {"type": "str"},
    }

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Update point.yml and return the paths of the point."""
        top = Path(self._templar.template(task_vars["run_dir"]))
        directory = top / "points" / arguments["point"]
        if not (directory / "point.yml").exists():
            raise InputError(f"{top.name} has no point {arguments['point']}")
        # A run may have been begun by a version that wrote point/1.
        record = {"attempt": 1, **files.read_yaml(directory / "point.yml"), "schema": "point/2"}
        scales = False
        if arguments["state"] == "running":
            # Figures of a killed session are those of a part of the load; the schedule must not decide by them.
            (directory / KPIS).unlink(missing_ok=True)
            if record["status"] == "running" and (directory / LEDGER).exists():
                record["resumed"] = True
            record.update(status="running", started=stamp(), ended=None, exit_code=None, error=None, cause=None)
            scales, record["nodes"] = point_nodes.of_point(top, directory)
            given = ", ".join(f"{key}={value}" for key, value in record["settings"].items())
            if given:
                Display().display(f"Point {arguments['point']}: {given}")
        else:
            code = 0 if arguments["state"] == "passed" else 1
            record.update(status=arguments["state"], ended=stamp(), exit_code=code, error=arguments["error"])
            record["cause"] = arguments["cause"]
        files.write_yaml(directory / "point.yml", record, "point/2")
        paths = {"path": str(directory), "settings_file": str(directory / "settings.yml")}
        return {"changed": True, "scales": scales, **paths}
