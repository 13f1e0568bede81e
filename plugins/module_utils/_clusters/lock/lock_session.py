# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait for the lock of a cluster, acquire, renew and release it, list its queue: the work of module cluster_lock.

The module that acquired the lock forks the process that renews it into a separate session, so that Ctrl-C and the end
of the module do not end it. It ends when the process of the run ends, at SIGTERM (its pid is in the lock file of the
run), or when the lock is lost. After a kill of the run, only a Lease is left, which expires.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes, signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    ApiError,
    InputError,
    ProcessError,
    SeatrialError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import boot_id
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.processes import ProcessReference
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import SignalEvent
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import ChangeReporter, Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from ..cluster_properties import api_host_without_usual_port
from . import lock_protocol, lock_records

#: Interval of checking whether the run is still alive, in seconds.
CHECK_INTERVAL = 0.5


@dataclass(frozen=True)
class RenewalTask:
    """The lock to renew. ``caller``: the run's process. ``waited``: seconds spent in the queue."""

    kubeconfig: str
    context: str
    namespace: str
    cluster: str
    who: lock_protocol.LockIdentity
    path: Path
    caller: ProcessReference
    waited: float

    def record(
        self, holding: lock_protocol.HeldLock, renewer: ProcessReference, state: str, lost: str = ""
    ) -> dict[str, Any]:
        """Return the lock file's content."""
        entry = holding.entry
        return {
            "schema": lock_records.SCHEMA,
            "state": state,
            "cluster": self.cluster,
            "namespace": self.namespace,
            "run": self.who.run,
            "owner": self.who.owner,
            "purpose": self.who.purpose,
            "waited": round(self.waited, 1),
            "duration": entry.duration,
            "since": lock_records.format_utc_seconds(entry.acquired),
            "renewed": lock_records.format_utc_seconds(entry.renewed),
            "until": lock_records.format_utc_seconds(entry.until),
            "deadline": round(holding.deadline, 3),
            "boot": boot_id(),
            "keeper": renewer.record(),
            "caller": self.caller.record(),
            "lost": lost,
        }


def find_running_lock_renewer(record: dict[str, Any] | None) -> ProcessReference | None:
    """Return the renewer that a lock file names, if it runs on this machine."""
    if record is None or record["boot"] != boot_id():
        return None
    renewer = ProcessReference(**record["keeper"])
    return renewer if renewer.lives() else None


def start_lock_renewer(task: RenewalTask, holding: lock_protocol.HeldLock) -> ProcessReference:
    """Fork the renewer and return it when it has written the lock file. An earlier one of this run is stopped first.

    Raises ProcessError if it can't start.
    """
    stop_renewer(lock_records.read_lock_record(task.path))
    ready_in, ready_out = os.pipe()
    between = os.fork()
    if between == 0:
        status = 1
        try:
            os.close(ready_in)
            os.setsid()
            if os.fork() == 0:
                _run_renewer_process(task, holding, ready_out)
            status = 0
        finally:
            os._exit(status)
    os.close(ready_out)
    os.waitpid(between, 0)
    with open(ready_in, encoding="utf-8") as stream:
        reply = stream.read()
    if not reply.startswith("pid "):
        raise ProcessError(f"the process that renews the lock did not start: {reply or 'it ended at once'}")
    return ProcessReference.of(int(reply.split()[1]))


def stop_renewer(record: dict[str, Any] | None, patience: float = 10.0) -> bool:
    """Stop the renewer that a lock file names and wait until it has ended; return whether it was running."""
    renewer = find_running_lock_renewer(record)
    if renewer is None:
        return False
    if processes.terminate_processes([renewer], patience):
        raise ProcessError(f"process {renewer.pid}, which renews the lock, does not end")
    return True


def _run_renewer_process(task: RenewalTask, holding: lock_protocol.HeldLock, ready: int) -> None:
    """Run as the renewer; never returns. Imports nothing, because Ansible soon deletes the files of the module."""
    try:
        over = SignalEvent()
        signal.signal(signal.SIGTERM, lambda _number, _frame: over.set())
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        _close_others(ready)
        gc.freeze()
        me = ProcessReference.of(os.getpid())
        patience = max(1.0, task.who.duration / 6)
        with Client.from_kubeconfig(task.kubeconfig, task.context, patience) as client:
            holding.store = lock_records.ServerStore(client, task.namespace)
            lock_records.write_lock_record(task.path, task.record(holding, me, lock_records.HELD))
            os.write(ready, f"pid {me.pid}".encode())
            os.close(ready)
            _renew_until_end(task, holding, me, over)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(ready, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(0)


def _close_others(kept: int) -> None:
    """Close the files of the module, because Ansible waits for the end of its output."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _renew_until_end(
    task: RenewalTask, holding: lock_protocol.HeldLock, me: ProcessReference, over: SignalEvent
) -> None:
    """Renew until SIGTERM, until the run has ended, or until the lock is lost."""
    retry = 0.0
    while not over.wait(CHECK_INTERVAL):
        if not task.caller.lives():
            return
        now = time.monotonic()
        if (holding.clock() < holding.due or now < retry) and holding.clock() <= holding.deadline:
            continue
        try:
            holding.renew()
            lock_records.write_lock_record(task.path, task.record(holding, me, lock_records.HELD))
        except lock_protocol.LockLost as error:
            lock_records.write_lock_record(task.path, task.record(holding, me, lock_records.LOST, str(error)))
            # Release what is still ours, because others wait for it.
            with contextlib.suppress(SeatrialError):
                holding.release()
            return
        except SeatrialError:
            retry = now + min(2.0, task.who.duration / 10)


#: Longest interval between two queries of the queue, in seconds.
PAUSE = 1.0
#: Shortest duration of a lock, in seconds: a shorter one would be lost when an API server is briefly slow.
SHORTEST = 3


@dataclass(frozen=True)
class LockSpec:
    """The parameters of module cluster_lock. Times in seconds. ``caller``: pid of the run's process."""

    kubeconfig: str
    context: str
    namespace: str
    path: Path
    who: lock_protocol.LockIdentity
    timeout: float
    caller: int

    @classmethod
    def of(cls, params: Mapping[str, Any], parent: int) -> LockSpec:
        """Read the module's parameters. Raises InputError."""
        if params["duration"] < SHORTEST:
            raise InputError(f"duration is {params['duration']}, it must be {SHORTEST} or more seconds")
        if params["timeout"] < 0:
            raise InputError(f"timeout is {params['timeout']:g}, it must be 0 or more seconds")
        who = lock_protocol.LockIdentity(params["run_id"], params["owner"], params["purpose"], params["duration"])
        return cls(
            params["kubeconfig"],
            params["context"],
            params["namespace"],
            Path(params["lock_file"]).absolute(),
            who,
            params["timeout"],
            params["caller_pid"] or parent,
        )


def acquire_cluster_lock(spec: LockSpec, step: StepDirectory, say: Say, check: bool = False) -> dict[str, Any]:
    """Wait for the lock, acquire it and start its renewer. Safe to repeat by the session that holds it.

    Raises WaitTimeout naming the holder, AccessError, ApiError, Interrupted.
    """
    known = lock_records.read_lock_record(spec.path)
    caller = ProcessReference.of(spec.caller)
    if _is_held(known, caller):
        return {"changed": False, "waited": 0.0, "lock": known, "msg": f"run {spec.who.run} already holds the lock"}
    with Client.from_kubeconfig(spec.kubeconfig, spec.context, timeout=30) as client:
        where = api_host_without_usual_port(client.access)
        contender = lock_protocol.LockContender(lock_records.ServerStore(client, spec.namespace), spec.who)
        if check:
            message = lock_protocol.describe_place_in_queue(contender.look(), spec.who.run, where)
            return {"changed": True, "waited": 0.0, "lock": None, "msg": message}
        began = time.monotonic()
        with signals.record_termination_signals() as stop:
            try:
                holding = _wait_for_lock(contender, spec, where, say, stop)
            finally:
                with suppress(SeatrialError):
                    contender.leave()
        waited = time.monotonic() - began
        step.timing("cluster", waited, "waiting for the lock")
        task = RenewalTask(spec.kubeconfig, spec.context, spec.namespace, where, spec.who, spec.path, caller, waited)
        try:
            start_lock_renewer(task, holding)
        except SeatrialError:
            with suppress(SeatrialError):
                holding.release()
            raise
    message = f"run {spec.who.run} holds the lock on {where}" + (f" after {waited:.0f} s" if waited >= 1 else "")
    say(message)
    return {
        "changed": True,
        "waited": round(waited, 1),
        "lock": lock_records.read_lock_record(spec.path),
        "msg": message,
    }


def _is_held(record: dict[str, Any] | None, caller: ProcessReference) -> bool:
    """Return whether a renewer of this session holds the lock."""
    return (
        record is not None
        and record["state"] == lock_records.HELD
        and record["caller"] == caller.record()
        and find_running_lock_renewer(record) is not None
    )


def _wait_for_lock(
    contender: lock_protocol.LockContender, spec: LockSpec, where: str, say: Say, stop: signals.Interrupt
) -> lock_protocol.HeldLock:
    deadline = time.monotonic() + spec.timeout
    progress, trouble = ChangeReporter(say), ChangeReporter(say)
    view: lock_protocol.LockView | None = None
    pause = min(PAUSE, spec.who.duration / 6)
    while True:
        stop.check()
        try:
            view = contender.look()
            holding = contender.act(view)
        except (AccessError, ApiError) as error:
            # Tolerate a restart of the API server during a long wait. An error of the first query is raised.
            if view is None or error.permanent or time.monotonic() >= deadline:
                raise
            trouble.report(partial(str, error), "trouble")
            holding = None
        if holding is not None:
            return holding
        now = time.monotonic()
        state = (view.position(spec.who.run), view.lock and view.lock.run, view.expired)
        if now >= deadline:
            raise WaitTimeout(
                f"the lock on {where} was not free within {spec.timeout:g} s (cluster_lock_timeout): "
                f"{lock_protocol.describe_place_in_queue(view, spec.who.run, where)}"
            )
        # A free lock needs no line.
        if view.lock is not None:
            progress.report(partial(lock_protocol.describe_place_in_queue, view, spec.who.run, where), state)
        stop.event.wait(min(pause * random.uniform(0.8, 1.2), max(deadline - now, 0.05)))


def release_cluster_lock(spec: LockSpec, check: bool = False, server_required: bool = True) -> dict[str, Any]:
    """Stop the renewer and delete the Leases of the run. Safe to repeat, also on another machine.

    The lock file becomes ``released`` only after the server has confirmed the deletion. If the server can't be
    reached, or a Lease is still there, AccessError is raised, or without ``server_required`` the result has a
    ``warning``: the lock expires by itself.
    """
    known = lock_records.read_lock_record(spec.path)
    state = known["state"] if known is not None else ""
    if check:
        return {"changed": state == lock_records.HELD, "lock": known, "msg": "", "warning": ""}
    stopped = stop_renewer(known)
    if state == lock_records.RELEASED and not stopped:
        return {
            "changed": False,
            "lock": known,
            "msg": f"run {spec.who.run} has already released the lock",
            "warning": "",
        }
    try:
        with Client.from_kubeconfig(spec.kubeconfig, spec.context, timeout=10) as client:
            deleted = lock_protocol.delete_leases_of_run(lock_records.ServerStore(client, spec.namespace), spec.who.run)
    except SeatrialError as error:
        until = f", {known['until']} at the latest" if known is not None else ""
        unknown = "" if isinstance(error, WaitTimeout) else "it is unknown whether "
        text = f"{unknown}run {spec.who.run} still holds its lock, which expires by itself{until}: {error}"
        if server_required:
            raise AccessError(text) from error
        return {"changed": stopped, "lock": known, "msg": "", "warning": text}
    # The renewer may have written the file once more before it ended.
    known = lock_records.read_lock_record(spec.path)
    if known is not None and known["state"] != lock_records.RELEASED:
        known = {**known, "state": lock_records.RELEASED}
        lock_records.write_lock_record(spec.path, known)
    held = any(lease.role == lock_records.HOLDER for lease in deleted)
    message = f"run {spec.who.run} released the lock" if held else f"run {spec.who.run} holds no lock"
    return {"changed": stopped or bool(deleted), "lock": known, "msg": message, "warning": ""}


def lock_holder_and_queue(kubeconfig: str, context: str, namespace: str) -> dict[str, Any]:
    """Return the holder of a cluster's lock and the waiting runs; changes nothing."""
    with Client.from_kubeconfig(kubeconfig, context, timeout=30) as client:
        holding, waiting = lock_protocol.split_holder_and_waiters(lock_records.ServerStore(client, namespace).look())
        where = api_host_without_usual_port(client.access)
    lines = [f"{where}: {lock_protocol.describe_lock_holder(holding)}" if holding else f"{where}: the lock is free"]
    lines += [
        f"  place {place}: run {waiter.run}{f' ({waiter.owner})' if waiter.owner not in ('', waiter.run) else ''}"
        f"{f' for {waiter.purpose}' if waiter.purpose else ''}, waiting since"
        f" {lock_records.format_utc_seconds(waiter.acquired)}"
        for place, waiter in enumerate(waiting, start=1)
    ]
    return {
        "changed": False,
        "holder": holding.summary() if holding else None,
        "waiting": [waiter.summary() for waiter in waiting],
        "lines": lines,
    }
