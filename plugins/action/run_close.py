# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Close the session of a run and print the summary."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible.utils.display import Display
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.action_base import SeatrialAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import close_run, run_record, run_summary


class ActionModule(SeatrialAction):
    """See the documentation of module run_close."""

    ARGUMENTS = {
        "failures": {"type": "list", "elements": "str", "default": []},
        "fail_on": {
            "type": "list",
            "elements": "str",
            "choices": ["improvement", "inconclusive", "invalid", "regression", "error"],
            "default": ["regression", "invalid", "error"],
        },
        "final": {"type": "bool", "default": True},
        "repeat_failure": {"type": "bool", "default": False},
    }

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Write the end of the session; if final, also print the summary and fail if the session failed."""
        directory = Path(self._templar.template(task_vars["run_dir"]))
        failures = list(arguments["failures"])
        result: dict[str, Any]
        if task_vars.get("run_beside"):  # the record belongs to the session that works on the run
            Display().display(f"  report    {directory / 'report' / 'index.html'}, of the results so far")
            result = {"changed": False, "failures": failures, "held": [], "split": {}}
            return {**result, "failed": True, "msg": "; ".join(failures)} if failures else result
        began = run_record.began(directory, os.getppid())  # ansible-playbook: an action runs in a worker of it
        closed = close_run.close(directory, failures, arguments["fail_on"], began, arguments["repeat_failure"])
        record = closed.record
        result = {"changed": True, "failures": closed.failures, "held": record["held"], "split": record["split"]}
        if not arguments["final"]:
            return {**result, "stats": close_run.stats(directory, closed)}
        for line in run_summary.lines(record, directory, closed.verdict, closed.all_failures):
            Display().display(line)
        if closed.failed:
            result.update(failed=True, msg=run_summary.last_words(closed.failures, directory))
        return {**result, "closed": str(directory)}
