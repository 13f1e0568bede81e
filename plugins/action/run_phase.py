# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mark in run.yml that a phase begins, or that the current one failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import stamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import run_cluster_records
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.action_base import SeatrialAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import run_record
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.phase_record import close, close_running

#: Phases in which a run creates objects on its clusters.
CREATING = ("prepare", "test")


class ActionModule(SeatrialAction):
    """See the documentation of module run_phase."""

    ARGUMENTS = {
        "name": {"type": "str"},
        "state": {"type": "str", "choices": ["started", "passed", "failed", "skipped"], "default": "started"},
        "error": {"type": "str"},
        "cause": {"type": "str"},
    }

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """End the running phase, then record the new state."""
        directory = Path(self._templar.template(task_vars["run_dir"]))
        name, state = arguments["name"], arguments["state"]
        if task_vars.get("run_beside"):  # the record belongs to the session that works on the run
            return {"changed": False, "phases": run_record.read(directory)["phases"]}

        if state == "started" and name in CREATING:
            run_cluster_records.update(directory, run_cluster_records.read(directory), {"objects": True})

        def edit(record: dict[str, Any]) -> None:
            phases = record["phases"]
            if state == "started":
                close_running(phases, "passed")
                phases.pop(name, None)  # phases are in the order in which they last ran
                phases[name] = {"status": "running", "started": stamp(), "ended": None, "seconds": None, "error": None}
            elif name is None:
                close_running(phases, state, arguments["error"], arguments["cause"])
            elif phases.get(name, {}).get("status") == "running":
                close(phases[name], state, arguments["error"], arguments["cause"])

        return {"changed": True, "phases": run_record.change(directory, edit)["phases"]}
