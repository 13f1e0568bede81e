# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet of a real node of a rehearsal cluster is killed, and does not run for a time. Its containers run on.

A node starts a killed kubelet again when a file of its data is gone (component node). A small process, the guard, makes
this file and removes it when the failure is over, or the load has ended in any way.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, ProcessError

from . import control_plane_failures, guard_processes

if TYPE_CHECKING:
    from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.instance_dir import (
        InstancePaths,
    )

#: Name of the process of a real node, and of the guard.
_NODE, _NAME = "node", "kubelet"
#: Seconds until the node has started its kubelet again.
_PATIENCE = 15.0

#: Argument: the file.
_GUARD = """
away = arguments[0]
open(away, "w").close()
try:
    while lasts():
        time.sleep(0.05)
finally:
    if os.path.exists(away):
        os.unlink(away)
    end_failure()
"""


def read_cluster_and_kubelet(server: str) -> dict[str, Any]:
    """Return the folder of the cluster and its kubelet, as they are recorded before the kubelet is killed."""
    instance = control_plane_failures.find_rehearsal_cluster(server)
    pid = _find_kubelet(instance) if instance is not None else 0
    if instance is None or not pid:
        raise InputError(f"no kubelet of the rehearsal cluster at {server} runs any more")
    return {"instance": str(instance.path), **processes.ProcessReference.of(pid).record()}


def inject_kubelet_outage(failure: Mapping[str, Any]) -> None:
    """Kill the kubelet; it starts again when the guard has ended. Raises ProcessError."""
    before = failure["before"]
    instance = control_plane_failures.instance_in_folder(Path(before["instance"]))
    away = _away_file(instance)
    guard_processes.start_guard(instance, _NAME, _GUARD, failure, [away], away.exists)
    kubelet = processes.ProcessReference(before["pid"], before["ticks"])
    if processes.terminate_processes([kubelet], 0.0, first=signal.SIGKILL):
        raise ProcessError(f"{failure['kind']}: the kubelet (pid {kubelet.pid}) does not end")


def undo_kubelet_outage(server: str, failure: Mapping[str, Any]) -> bool:
    """Have the guard end, and wait until a kubelet runs; return False if the guard has ended before.

    Raises:
        ProcessError: The node has started no kubelet in time.
    """
    instance = control_plane_failures.only_recorded(control_plane_failures.find_rehearsal_cluster(server), failure)
    if instance is None:
        return False
    ended = guard_processes.end_guard(instance, _NAME)
    away = _away_file(instance)
    left = away.exists()  # by a guard that was killed
    away.unlink(missing_ok=True)
    deadline = time.monotonic() + _PATIENCE
    while _NODE in control_plane_failures.running_processes(instance) and not _find_kubelet(instance):
        if time.monotonic() > deadline:
            raise ProcessError(
                f"{failure['kind']}: the node has started no kubelet again in {_PATIENCE:g} s; see"
                f" {instance.log_of(_NODE)}"
            )
        time.sleep(0.1)
    return ended or left


def _away_file(instance: InstancePaths) -> Path:
    """Return the file that keeps a node from starting its kubelet again, as component node names it."""
    return instance.path / "node" / "state" / "kubelet-away"


def _find_kubelet(instance: InstancePaths) -> int:
    """Return the pid of the kubelet of the real node, 0 without one."""
    node = control_plane_failures.running_processes(instance).get(_NODE)
    if node is None:
        return 0
    for pid in processes.list_pids():
        command = processes.command_line_of_process(pid)
        if command and Path(command[0]).name == _NAME and _grandparent_of(pid) == node.pid:
            return pid
    return 0


def _grandparent_of(pid: int) -> int | None:
    parent = processes.parent_pid_of(pid)
    return processes.parent_pid_of(parent) if parent else None
