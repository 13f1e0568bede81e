# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Close a run: failures, what is still held, where the time went, the summary that the user reads last."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from ansible.utils.display import Display
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import stamp
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import (
    carried_extra_vars,
    run_directory,
    run_holdings,
    run_record,
    run_summary,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.action_base import SeatrialAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.phase_record import close_running


class ActionModule(SeatrialAction):
    """See the documentation of module run_close."""

    ARGUMENTS = {
        "failures": {"type": "list", "elements": "str", "default": []},
        "fail_on_verdict": {"type": "bool", "default": True},
        "final": {"type": "bool", "default": True},
    }

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Write FAILURES, FINISHED and the state of run.yml; when final also print the summary, and fail if it did."""
        directory = Path(self._templar.template(task_vars["run_dir"]))
        verdict = run_directory.read_optional(directory / "verdict.json")
        failures = list(arguments["failures"])
        judged = run_summary.verdict_failure(verdict) if arguments["fail_on_verdict"] else None
        if judged and not failures:
            failures.append(judged)
        if task_vars.get("run_beside"):
            return self._beside(directory, list(arguments["failures"]))
        began = run_record.started_of_process(os.getppid())
        split = run_summary.split(time.time() - began, run_directory.timings(directory, began))
        clusters = run_directory.read_optional(directory / "cluster.yml").get("clusters") or {}
        lease = run_directory.read_optional(directory / "lease.yml")

        def edit(record: dict[str, Any]) -> None:
            close_running(record["phases"], "passed")
            record["clusters"] = clusters
            if run_summary.released_nothing(record, lease):
                record["phases"]["release"]["status"] = "skipped"
            record["held"] = run_holdings.of(directory, record["started"])
            record["split"] = split
            record["ended"] = stamp()
            record["status"] = run_summary.status(record, failures)
            carried_extra_vars.close(record, failures, directory)

        record = run_record.change(directory, edit)
        standing = run_summary.standing(record, failures)
        if standing:
            _files.replace_text(directory / "FAILURES", "\n".join(standing) + "\n")
        else:
            (directory / "FAILURES").unlink(missing_ok=True)
        _files.replace_text(directory / "FINISHED", run_summary.finished(record) + "\n")
        result: dict[str, Any] = {"changed": True, "failures": failures, "held": record["held"], "split": split}
        if not arguments["final"]:
            return result
        result["closed"] = str(directory)
        for line in run_summary.lines(record, directory, verdict, standing):
            Display().display(line)
        # What an earlier session was judged to be is no failure of one that only gives back or exports.
        if arguments["failures"] or (judged and run_summary.judged_now(record)):
            result.update(failed=True, msg=run_summary.last_words(failures, directory))
        return result

    def _beside(self, directory: Path, failures: list[str]) -> dict[str, Any]:
        """End a report that was made while another session works on the run: the record is that one's."""
        Display().display(f"  report    {directory / 'report' / 'index.html'}, of what there is so far")
        result: dict[str, Any] = {"changed": False, "failures": failures, "held": [], "split": {}}
        return {**result, "failed": True, "msg": "; ".join(failures)} if failures else result
