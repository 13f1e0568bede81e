# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process that renews the lock of a run until the run ends.

The module that acquired the lock forks it into a separate session, so that Ctrl-C and the end of the module do not
end it. It ends when the process of the run ends, at SIGTERM (its pid is in the lock file of the run), or when the lock
is lost. After a kill of the run, only a Lease is left, which expires.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.clock import boot_id
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.processes import Process
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import SignalEvent
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from . import held_lock_file, lock_lease, lock_protocol

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
    caller: Process
    waited: float

    def record(self, holding: lock_protocol.HeldLock, renewer: Process, state: str, lost: str = "") -> dict[str, Any]:
        """Return the lock file's content."""
        entry = holding.entry
        return {
            "schema": held_lock_file.SCHEMA,
            "state": state,
            "cluster": self.cluster,
            "namespace": self.namespace,
            "run": self.who.run,
            "owner": self.who.owner,
            "purpose": self.who.purpose,
            "waited": round(self.waited, 1),
            "duration": entry.duration,
            "since": lock_lease.shown(entry.acquired),
            "renewed": lock_lease.shown(entry.renewed),
            "until": lock_lease.shown(entry.until),
            "deadline": round(holding.deadline, 3),
            "boot": boot_id(),
            "keeper": renewer.record(),
            "caller": self.caller.record(),
            "lost": lost,
        }


def running(record: dict[str, Any] | None) -> Process | None:
    """Return the renewer that a lock file names, if it runs on this machine."""
    if record is None or record["boot"] != boot_id():
        return None
    found = Process(**record["keeper"])
    return found if found.lives() else None


def start(task: RenewalTask, holding: lock_protocol.HeldLock) -> Process:
    """Fork the renewer and return it when it has written the lock file. An earlier one of this run is stopped first.

    Raises ProcessError if it can't start.
    """
    stop(held_lock_file.read(task.path))
    ready_in, ready_out = os.pipe()
    between = os.fork()
    if between == 0:
        status = 1
        try:
            os.close(ready_in)
            os.setsid()
            if os.fork() == 0:
                _live(task, holding, ready_out)
            status = 0
        finally:
            os._exit(status)
    os.close(ready_out)
    os.waitpid(between, 0)
    with open(ready_in, encoding="utf-8") as stream:
        reply = stream.read()
    if not reply.startswith("pid "):
        raise ProcessError(f"the process that renews the lock did not start: {reply or 'it ended at once'}")
    return Process.of(int(reply.split()[1]))


def stop(record: dict[str, Any] | None, patience: float = 10.0) -> bool:
    """Stop the renewer that a lock file names and wait until it has ended; return whether it was running."""
    found = running(record)
    if found is None:
        return False
    if processes.end([found], patience):
        raise ProcessError(f"process {found.pid}, which renews the lock, does not end")
    return True


def _live(task: RenewalTask, holding: lock_protocol.HeldLock, ready: int) -> None:
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
        me = Process.of(os.getpid())
        patience = max(1.0, task.who.duration / 6)
        with Client.from_kubeconfig(task.kubeconfig, task.context, patience) as client:
            holding.store = lock_lease.ServerStore(client, task.namespace)
            held_lock_file.write(task.path, task.record(holding, me, held_lock_file.HELD))
            os.write(ready, f"pid {me.pid}".encode())
            os.close(ready)
            _keep(task, holding, me, over)
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


def _keep(task: RenewalTask, holding: lock_protocol.HeldLock, me: Process, over: SignalEvent) -> None:
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
            held_lock_file.write(task.path, task.record(holding, me, held_lock_file.HELD))
        except lock_protocol.LockLost as error:
            held_lock_file.write(task.path, task.record(holding, me, held_lock_file.LOST, str(error)))
            # Release what is still ours, because others wait for it.
            with contextlib.suppress(SeatrialError):
                holding.release()
            return
        except SeatrialError:
            retry = now + min(2.0, task.who.duration / 10)
