# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a load on another host: prepares its files here, then starts, follows and fetches it there."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import remote_load
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.load_on_host import LoadOnHost
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.action_base import ansible_errors
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_files, workload_kinds

MODULE = "perfscale.seatrial.workload_on_host"


class ActionModule(ActionBase):
    """See the documentation of the module."""

    TRANSFERS_FILES = False
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run, continue or remove the load; return what workload_submit would have returned."""
        super().run(tmp, task_vars)
        given = dict(self._task.args)
        host = str(self._task.delegate_to or (task_vars or {}).get("inventory_hostname", "?"))
        retry = remote_load.ConnectionRetry(
            who=host,
            run=str(given["run_id"]),
            patience=float(given.get("reconnect", 600)),
            say=lambda text: Display().display(f"{host}: {text}", stderr=True),
            lost=lambda error: isinstance(error, AnsibleConnectionFailure),
            again=self._reset,
        )
        places = workload_kinds.places_of_task(task_vars or {}, self._templar.template)
        request = partial(workload_files.request, given.get("request"), self._find_needle, places)
        load = LoadOnHost(given, request, partial(self._call, task_vars), self._connection.fetch_file, retry)
        point_dir, step_dir = (Path(given[one]) if given.get(one) else None for one in ("point_dir", "step_dir"))
        with ansible_errors():
            if given.get("state") == "absent":
                return remote_load.remove(load, point_dir)
            return remote_load.run(load, Path(given["point_dir"]), step_dir)

    def _call(self, task_vars: dict[str, Any] | None, arguments: dict[str, Any]) -> dict[str, Any]:
        name = MODULE
        if arguments["state"] == "status":
            name, arguments = f"{MODULE}_info", {key: value for key, value in arguments.items() if key != "state"}
        return dict(self._execute_module(module_name=name, module_args=arguments, task_vars=task_vars))

    def _reset(self) -> None:
        with contextlib.suppress(AnsibleConnectionFailure):
            self._connection.reset()
