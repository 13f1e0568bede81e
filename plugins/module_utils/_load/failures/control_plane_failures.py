# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures of processes of a control plane that we have started: of a rehearsal cluster of this machine and user.

A server that is away is stopped by a small process of its own, the guard, and goes on when its time is over, when the
guard's file is removed, or when the load has ended in any way. A controller that is killed is started again by the
command that is kept in the folder of the cluster.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    ProcessError,
    suggest_similar_name,
)

from . import failure_guard_processes
from .failure_schedule import API_AWAY, CONTROLLER_RESTARTED, ETCD_SLOW, PROCESSES, WORKER_AWAY, PlannedFailure

if TYPE_CHECKING:
    from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.instance_dir import (
        InstancePaths,
    )
    from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.instance_processes import (
        RunningProcess,
    )

#: Processes that nothing could go on without, or that own what is not theirs alone: containers, mounts.
_NOT_RESTARTED = ("kube-apiserver", "etcd", "node")
#: Seconds for which a process is stopped, and then runs, in turn; 0 for one that does not run in between.
_TURNS = {API_AWAY: (0.1, 0.0), WORKER_AWAY: (0.1, 0.0), ETCD_SLOW: (0.2, 0.05)}
#: Timeout for the lock of the cluster's folder, seconds.
_LOCK = 60.0

#: Arguments: the process, seconds stopped, seconds running. SIGCONT is harmless if it runs.
_GUARD = """
pid, stopped, running = int(arguments[0]), float(arguments[1]), float(arguments[2])
try:
    while lasts():
        os.kill(pid, signal.SIGSTOP)
        time.sleep(stopped)
        if running:
            os.kill(pid, signal.SIGCONT)
            time.sleep(running)
finally:
    os.kill(pid, signal.SIGCONT)
    end_failure()
"""


def check_processes_exist(server: str, failures: Sequence[PlannedFailure]) -> None:
    """Raise InputError for a failure of a process that no rehearsal cluster of ours at ``server`` has."""
    for kind, process in sorted({(failure.kind, failure.process) for failure in failures if failure.process}):
        instance, name = _find_process(server, kind, process)
        if instance is None and kind == WORKER_AWAY and find_rehearsal_cluster(server) is not None:
            raise InputError(
                f"failures: worker of a {kind} is '{process}', and the cluster at {server} has no such worker; set"
                " cluster_workers"
            )
        if instance is None:
            raise InputError(
                f"failures: {kind} is possible only on a rehearsal cluster that this user has started on this machine,"
                f" and {server} is none; use node_drained or pod_killed"
            )
        running = running_processes(instance)
        known = sorted(set(running) - set(_NOT_RESTARTED)) if kind == CONTROLLER_RESTARTED else sorted(running)
        if name not in known:
            raise InputError(
                f"failures: process of a {kind} is '{name}', and {server} has"
                f" {', '.join(known)}{suggest_similar_name(name, known)}"
            )


def _find_process(server: str, kind: str, target: str) -> tuple[InstancePaths | None, str]:
    """Return the cluster of a failure, None without one, and its process.

    A worker is a cluster of its own: its name is that of the cluster at ``server``, a hyphen, and the target.
    """
    instance = find_rehearsal_cluster(server)
    if kind != WORKER_AWAY:
        return instance, target
    worker = None
    if instance is not None and Path(target).name == target:  # a path would lead out of the folder of clusters
        worker = instance_in_folder(instance.path.with_name(f"{instance.path.name}-{target}"))
    return (worker if worker is not None and worker.marker() is not None else None), PROCESSES[API_AWAY]


def _process_of(failure: Mapping[str, Any]) -> str:
    return PROCESSES[API_AWAY] if failure["kind"] == WORKER_AWAY else str(failure["target"])


def instance_if_recorded(instance: InstancePaths | None, failure: Mapping[str, Any]) -> InstancePaths | None:
    """Return the instance if it is the one in which a failure was recorded: another one may have its port by now."""
    if instance is None or instance.path.resolve() != Path(failure["before"]["instance"]).resolve():
        return None
    return instance


def find_rehearsal_cluster(server: str) -> InstancePaths | None:
    """Return the rehearsal cluster of this user whose API server has the URL ``server``; None without one."""
    from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
        instance_dir,
        instance_processes,
        process_launch_plan,
    )

    url = urlsplit(server)
    if url.hostname != instance_processes.LOOPBACK:
        return None
    found = processes.find_by_environment_variable(instance_processes.NAME, "kube-apiserver")
    own = [environment for pid, environment in found.items() if processes.is_process_of_our_user(pid)]
    for folder in sorted({environment.get(instance_processes.INSTANCE, "") for environment in own} - {""}):
        instance = instance_dir.InstancePaths(os.path.dirname(folder), os.path.basename(folder))
        ports = process_launch_plan.read_ports(instance)
        if ports.get(process_launch_plan.API_PORT) == url.port and instance.marker() is not None:
            return instance
    return None


def running_processes(instance: InstancePaths) -> dict[str, RunningProcess]:
    """Return name -> process of those of a cluster that run and are ours."""
    from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import instance_processes

    running = instance_processes.list_running_processes(instance.path)
    return {process.name: process for process in running if processes.is_process_of_our_user(process.pid)}


def read_process_state(server: str, kind: str, target: str) -> dict[str, Any]:
    """Return the folder of the cluster and the process, as they are recorded before it fails."""
    instance, process = _find_process(server, kind, target)
    running = running_processes(instance).get(process) if instance is not None else None
    if instance is None or running is None:
        raise InputError(f"process {process} of {server} does not run any more")
    return {"instance": str(instance.path), "pid": running.pid, "ticks": running.ticks}


def inject_process_failure(failure: Mapping[str, Any]) -> None:
    """Do to the process what the row ``inject`` says. Raises ProcessError."""
    if failure["kind"] == CONTROLLER_RESTARTED:
        _kill(failure)
    else:
        _stop(failure)


def undo_process_failure(server: str, failure: Mapping[str, Any]) -> bool:
    """Undo what the row ``inject`` says; return False if there was nothing to undo: the cluster may be gone.

    server: of the cluster that is given back. A row may be a stranger's: only what is in the folder of the cluster that
    runs there is started.
    """
    there, target = _find_process(server, failure["kind"], str(failure["target"]))
    instance = instance_if_recorded(there, failure)
    if instance is None:
        return False
    if not target or Path(target).name != target:  # a path would lead out of the folder of the cluster
        return False
    if failure["kind"] == CONTROLLER_RESTARTED:
        return _start(instance.path, target)
    guarded = failure_guard_processes.end_guard(instance, target)
    reference = processes.ProcessReference(failure["before"]["pid"], failure["before"]["ticks"])
    return processes.continue_stopped_process(reference) or guarded


def instance_in_folder(folder: Path) -> InstancePaths:
    """Return the cluster in a folder, whether or not there is one."""
    from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.instance_dir import (
        InstancePaths,
    )

    return InstancePaths(folder.parent, folder.name)


def _stop(failure: Mapping[str, Any]) -> None:
    """Start the guard of a process, and wait until it has stopped the process."""
    before, target = failure["before"], _process_of(failure)
    instance = instance_in_folder(Path(before["instance"]))
    failure_guard_processes.start_guard_and_await_failure(
        instance,
        target,
        _GUARD,
        failure,
        [before["pid"], *_TURNS[failure["kind"]]],
        lambda: processes.is_stopped(before["pid"]),
    )


def _command_file(instance: InstancePaths, process: str) -> Path:
    return instance.records / f"{process}.restart"


def _kill(failure: Mapping[str, Any]) -> None:
    """Kill a process, after its command was kept where only its user reads it."""
    from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import instance_processes

    before, target = failure["before"], failure["target"]
    instance = instance_in_folder(Path(before["instance"]))
    with instance.lock(_LOCK):
        running = running_processes(instance).get(target)
        record = instance_processes.read_process_record(instance.records, target)
        if running is None or record is None or (running.pid, running.ticks) != (before["pid"], before["ticks"]):
            raise ProcessError(f"{failure['kind']}: {target} (pid {before['pid']}) does not run any more")
        kept = {
            "command": processes.command_line_of_process(running.pid),
            "environment": processes.environment_of(running.pid),
            "recipe": record.recipe,
        }
        files.write_json(_command_file(instance, target), kept)
        instance_processes.stop_instance_processes(instance.path, [running], 0.0)


def _start(folder: Path, process: str) -> bool:
    """Start a process that was killed; return False if it runs, as another one may have started it."""
    from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import instance_processes

    instance = instance_in_folder(folder)
    with instance.lock(_LOCK):
        path = _command_file(instance, process)
        if not path.exists() or process in running_processes(instance):
            path.unlink(missing_ok=True)
            return False
        kept = files.read_json(path)
        with processes.children_at_usual_priority():  # the load has raised its own
            instance_processes.start_instance_process(
                folder,
                instance.records,
                process,
                kept["command"],
                kept["environment"],
                instance.log_of(process),
                kept["recipe"],
            )
        path.unlink()
    return True
