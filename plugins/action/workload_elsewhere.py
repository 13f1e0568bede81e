# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a load on the host that the task is delegated to, follow it over connections that may break, fetch its files."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster.cluster_identity import api_host
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import load, standalone
from ansible_collections.perfscale.seatrial.plugins.module_utils._remote import remote_record
from ansible_collections.perfscale.seatrial.plugins.module_utils._remote.remote_connection import RemoteConnection
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import workload_files

MODULE = "perfscale.seatrial.workload_elsewhere"


class ActionModule(ActionBase):
    """See the documentation of module workload_elsewhere."""

    TRANSFERS_FILES = False
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Start or find the load, see it through, return what workload_submit would have returned."""
        super().run(tmp, task_vars)
        self.variables = task_vars or {}
        self.given = dict(self._task.args)
        self.parent = os.getppid()
        self.host = str(getattr(self._task, "delegate_to", None) or self.variables.get("inventory_hostname", "?"))
        self.line = RemoteConnection(
            self.host,
            str(self.given["run_id"]),
            float(self.given.get("reconnect", 600)),
            self._say,
            lambda error: isinstance(error, AnsibleConnectionFailure),
            self._reset,
        )
        try:
            return self._absent() if self.given.get("state") == "absent" else self._present()
        except SeatrialError as error:
            raise AnsibleActionFail(str(error)) from error

    def _module(self, **more: Any) -> dict[str, Any]:
        """Run the module on the other host once. Raises AnsibleConnectionFailure, or fails with the module's words."""
        names = ("root", "run_id", "point")
        arguments = {name: self.given[name] for name in names if self.given.get(name) is not None}
        result = self._execute_module(module_name=MODULE, module_args={**arguments, **more}, task_vars=self.variables)
        if result.get("failed"):
            raise AnsibleActionFail(f"{self.host}: {result.get('msg', 'the module failed')}")
        return dict(result)

    def _lasting(self, what: str, do: Callable[[], Any]) -> Any:
        return self.line.lasting(what, self._while_run(do))

    def _while_run(self, do: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``do`` with a look before whether ansible-playbook is still there.

        When it is gone a later session of the run looks after the load, not we.
        """

        def looked(*given: Any) -> Any:
            if os.getppid() != self.parent:
                raise AnsibleActionFail(f"{self.host}: the run has ended, the load goes on")
            return do(*given)

        return looked

    def _reset(self) -> None:
        with contextlib.suppress(AnsibleConnectionFailure):
            self._connection.reset()

    def _say(self, text: str) -> None:
        Display().display(f"{self.host}: {text}", stderr=True)

    # The load

    def _present(self) -> dict[str, Any]:
        point_dir = Path(str(self.given["point_dir"]))
        point_dir.mkdir(parents=True, exist_ok=True)
        note = remote_record.read(point_dir)
        if note and note["state"] == remote_record.FETCHED:
            return {**note["result"], "changed": False, "found": True}
        # Before it is started: whoever cleans up after us knows where to look.
        remote_record.write(point_dir, self.host, str(self.given.get("root") or ""), remote_record.STARTED)
        begun = self._begin() if not note else {"found": True}
        if note:
            begun = self._found_again()
        outcome = self._follow()
        self._fetch(outcome, point_dir)
        result = outcome["outcome"]
        if result["ok"]:
            remote_record.write(
                point_dir, self.host, str(self.given.get("root") or ""), remote_record.FETCHED, result["result"]
            )
        self._lasting("removing its files", lambda: self._module(state="absent"))
        if not result["ok"]:
            remote_record.remove(point_dir)
            raise AnsibleActionFail(f"{self.host}: {result['msg']}")
        return {**result["result"], "found": begun["found"]}

    def _begin(self) -> dict[str, Any]:
        begun = self._lasting("starting it", lambda: self._module(state="present", **self._request()))
        self._say("found the load again" if begun["found"] else "started the load")
        return dict(begun)

    def _found_again(self) -> dict[str, Any]:
        """Another session has started it: it is there, or that session did not come so far."""
        state = self._lasting("looking for it", lambda: self._module(state="status"))["state"]
        if state == "absent":
            return self._begin()
        self._say(f"found the load again by its run id, {state}")
        return {"found": True}

    def _request(self) -> dict[str, Any]:
        request = workload_files.request(self.given.get("request"), self._find_needle)
        kubeconfig, context = str(self.given["kubeconfig"]), str(request.get("context") or "")
        target = api_host(load(kubeconfig, context))
        return {
            "request": {**_files.plain(request), "context": ""},
            "kubeconfig_content": standalone(kubeconfig, context),
            "lock": remote_record.held_lock(self.given.get("lock_dir"), target),
        }

    def _follow(self) -> dict[str, Any]:
        """Show what it says until it has ended."""
        offset, pause = 0, 1.0
        while True:
            found = self._lasting("following it", partial(self._module, state="status", offset=offset))
            for line in found["lines"]:
                self._say(line)
            offset = found["offset"]
            if found["state"] == "ended":
                return dict(found)
            if found["state"] != "running":
                raise AnsibleActionFail(
                    f"{self.host}: the load of run {self.given['run_id']} {found['state']} without a result: "
                    f"{found.get('log') or 'it left no log'}"
                )
            time.sleep(pause)
            pause = min(pause * 2, float(self.given.get("interval", 10)))

    def _fetch(self, found: dict[str, Any], point_dir: Path) -> None:
        """Fetch the point's files, and what belongs into the directory of the role call."""
        step = self.given.get("step_dir")
        wanted = [(path, point_dir, False) for path in found["files"]]
        wanted += [(path, Path(str(step)), True) for path in found["step_files"] if step]
        for path, folder, append in wanted:
            fetch = self._while_run(lambda aside, path=path: self._connection.fetch_file(path, str(aside)))
            self.line.bring(fetch, folder / Path(path).name, append)

    def _absent(self) -> dict[str, Any]:
        """End the load and remove what is there of it."""
        result = self._module(state="absent")
        if self.given.get("point_dir"):
            remote_record.remove(Path(str(self.given["point_dir"])))
        return {"changed": bool(result["changed"])}
