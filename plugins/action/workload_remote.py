# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the files of a load on the controller, and runs the load in pods or, step by step, on the host of the task."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import host_or_pod_load
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.host_or_pod_load import LoadOnHost
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.action_base import ansible_errors
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.module_actions import ProgressAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.terminal_output import show_line
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import read_workload_files, workload_kinds


class ActionModule(ProgressAction):
    """In pods, the module does everything. On a host, each call of the module is one step of the load."""

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Run, continue or remove the load; return what workload_submit would have returned."""
        places = workload_kinds.kind_folders_of_task(task_vars or {}, self._templar.template)
        find = read_workload_files.with_working_directory_fallback(self._find_needle)
        request = partial(read_workload_files.submit_options_with_content, arguments.get("request"), find, places)
        with ansible_errors():
            if arguments.get("run_on") != host_or_pod_load.DRIVER_POD:
                return self._on_host(arguments, request, task_vars)
            if arguments.get("request"):
                arguments = {**arguments, "request": files.to_plain_types(request())}
        return super().execute(arguments, task_vars)

    def _on_host(self, arguments: dict[str, Any], request: Any, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        host = str(self._task.delegate_to or (task_vars or {}).get("inventory_hostname", "?"))
        retry = host_or_pod_load.ConnectionRetry(
            who=host,
            run=str(arguments["run_id"]),
            patience=float(arguments.get("elsewhere_reconnect", 600)),
            say=lambda text: show_line(f"{host}: {text}", stderr=True),
            lost=lambda error: isinstance(error, AnsibleConnectionFailure),
            again=self._reset,
        )
        load = LoadOnHost(arguments, request, partial(self._run_step, task_vars), self._connection.fetch_file, retry)
        if arguments.get("state") == "absent":
            point_dir = Path(arguments["point_dir"]) if arguments.get("point_dir") else None
            return host_or_pod_load.end_and_delete_load(load, point_dir)
        step_dir = Path(arguments["step_dir"]) if arguments.get("step_dir") else None
        return host_or_pod_load.run_remote_load(load, Path(arguments["point_dir"]), step_dir)

    def _run_step(self, task_vars: dict[str, Any] | None, arguments: dict[str, Any]) -> dict[str, Any]:
        return dict(self._execute_module(module_args=arguments, task_vars=task_vars))

    def _reset(self) -> None:
        with contextlib.suppress(AnsibleConnectionFailure):
            self._connection.reset()
