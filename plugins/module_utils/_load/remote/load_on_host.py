# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A load on another host, from the controller, by repeated calls of modules on it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.describe_cluster import (
    api_host_without_usual_port,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import (
    load_context_access,
    render_standalone_kubeconfig,
)

from . import detached_load, remote_load
from .remote_load import ConnectionRetry

#: Options that every call of the module gets.
_NAMES = ("run_on", "elsewhere_dir", "run_id", "point")


class LoadOnHost:
    """The load of one point on another host.

    Args:
        given: the task's arguments.
        request: reads the parameters of workload_submit.
        call: runs module workload_remote on the host once.
        fetch_file: copies a file (path there, path here).
        retry: repeats both while the connection is lost.
    """

    def __init__(
        self,
        params: Mapping[str, Any],
        request: Callable[[], Mapping[str, Any]],
        call: Callable[[dict[str, Any]], Mapping[str, Any]],
        fetch_file: Callable[[str, str], Any],
        retry: ConnectionRetry,
    ) -> None:
        self.where = self.host = retry.who
        self.collect: Mapping[str, Any] | None = None  # ssh has no maximum size
        self.root = str(params.get("elsewhere_dir") or "")
        self._given = params
        self._read_request = request
        self._call_once = call
        self._fetch_file = fetch_file
        self.retry = retry
        self._parent = os.getppid()

    def begin(self, recorded: bool) -> bool:
        """See RemoteLoad. Without a load on the host, the earlier session did not come as far as its start."""
        state = self._lasting("looking for it", state="status")["load_state"] if recorded else detached_load.ABSENT
        if state != detached_load.ABSENT:
            self.retry.say(f"found the load again by its run id, {state}")
            return True
        existed = bool(self._lasting("starting it", state="present", **self._request())["found"])
        self.retry.say("found the load again" if existed else "started the load")
        return existed

    def follow(self) -> Mapping[str, Any]:
        """See RemoteLoad."""
        offset, pause = 0, 1.0
        while True:
            report = self._lasting("following it", state="status", offset=offset)
            for line in report["lines"]:
                self.retry.say(line)
            offset = report["offset"]
            if report["load_state"] == detached_load.ENDED:
                return report
            if report["load_state"] != detached_load.RUNNING:
                raise ProcessError(
                    f"{self.host}: the load of run {self._given['run_id']} {report['load_state']} without a result: "
                    f"{report.get('log') or 'it left no log'}"
                )
            time.sleep(pause)
            pause = min(pause * 2, float(self._given.get("elsewhere_interval", 10)))

    def fetch(self, ended: Mapping[str, Any], point_dir: Path, step_dir: Path | None) -> Mapping[str, Any]:
        """See RemoteLoad."""
        files = [(path, point_dir, False) for path in ended["files"]]
        files += [(path, step_dir, True) for path in ended["step_files"] if step_dir]
        for path, folder, append in files:
            self.retry.fetch(partial(self._fetch, path), folder / Path(path).name, append)
        return dict(ended["outcome"])

    def remove(self) -> bool:
        """See RemoteLoad."""
        return bool(self._call({"state": "absent"})["changed"])

    def _request(self) -> dict[str, Any]:
        request = self._read_request()
        kubeconfig, context = str(self._given["kubeconfig"]), str(self._given.get("context") or "")
        target = api_host_without_usual_port(load_context_access(kubeconfig, context))
        return {
            "request": files.to_plain_types(request),
            "kubeconfig": kubeconfig,
            "kubeconfig_content": render_standalone_kubeconfig(kubeconfig, context),
            "lock": remote_load.held_lock(self._given.get("lock_dir"), target),
        }

    def _lasting(self, what: str, **more: Any) -> Mapping[str, Any]:
        return self.retry.call(what, partial(self._call, more))

    def _call(self, more: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run the module on the host once. Raises ProcessError with its message."""
        self._check_run()
        arguments = {name: self._given[name] for name in _NAMES if self._given.get(name) is not None}
        result = self._call_once({**arguments, **more})
        if result.get("failed"):
            raise ProcessError(f"{self.host}: {result.get('msg', 'the module failed')}")
        return result

    def _fetch(self, path: str, aside: Path) -> None:
        self._check_run()
        self._fetch_file(path, str(aside))

    def _check_run(self) -> None:
        """Raise ProcessError if ansible-playbook has ended: a later session of the run takes care of the load."""
        if os.getppid() != self._parent:
            raise ProcessError(f"{self.host}: the run has ended, the load continues")
