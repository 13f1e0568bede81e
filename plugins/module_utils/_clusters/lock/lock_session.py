# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait for the lock of a cluster, acquire and release it, list its queue: the work of module cluster_lock."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    ApiError,
    InputError,
    SeatrialError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.processes import Process
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import ChangeReporter, Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from ..describe_cluster import api_host
from . import held_lock_file, lock_lease, lock_protocol, lock_renewer

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
    def of(cls, given: Mapping[str, Any], parent: int) -> LockSpec:
        """Read the module's parameters. Raises InputError."""
        if given["duration"] < SHORTEST:
            raise InputError(f"duration is {given['duration']}, it must be {SHORTEST} or more seconds")
        if given["timeout"] < 0:
            raise InputError(f"timeout is {given['timeout']:g}, it must be 0 or more seconds")
        who = lock_protocol.LockIdentity(given["run_id"], given["owner"], given["purpose"], given["duration"])
        return cls(
            given["kubeconfig"],
            given["context"],
            given["namespace"],
            Path(given["lock_file"]).absolute(),
            who,
            given["timeout"],
            given["caller_pid"] or parent,
        )


def take(spec: LockSpec, step: Step, say: Say, check: bool = False) -> dict[str, Any]:
    """Wait for the lock, acquire it and start its renewer. Safe to repeat by the session that holds it.

    Raises WaitTimeout naming the holder, AccessError, ApiError, Interrupted.
    """
    known = held_lock_file.read(spec.path)
    caller = Process.of(spec.caller)
    if _is_held(known, caller):
        return {"changed": False, "waited": 0.0, "lock": known, "msg": f"run {spec.who.run} already holds the lock"}
    with Client.from_kubeconfig(spec.kubeconfig, spec.context, timeout=30) as client:
        where = api_host(client.access)
        contender = lock_protocol.LockContender(lock_lease.ServerStore(client, spec.namespace), spec.who)
        if check:
            message = lock_protocol.queue_text(contender.look(), spec.who.run, where)
            return {"changed": True, "waited": 0.0, "lock": None, "msg": message}
        began = time.monotonic()
        with signals.interrupt_recorded() as stop:
            try:
                holding = _wait(contender, spec, where, say, stop)
            finally:
                with suppress(SeatrialError):
                    contender.leave()
        waited = time.monotonic() - began
        step.timing("cluster", waited, "waiting for the lock")
        task = lock_renewer.RenewalTask(
            spec.kubeconfig, spec.context, spec.namespace, where, spec.who, spec.path, caller, waited
        )
        try:
            lock_renewer.start(task, holding)
        except SeatrialError:
            holding.release()
            raise
    message = f"run {spec.who.run} holds the lock on {where}" + (f" after {waited:.0f} s" if waited >= 1 else "")
    say(message)
    return {"changed": True, "waited": round(waited, 1), "lock": held_lock_file.read(spec.path), "msg": message}


def _is_held(record: dict[str, Any] | None, caller: Process) -> bool:
    """Return whether a renewer of this session holds the lock."""
    return (
        record is not None
        and record["state"] == held_lock_file.HELD
        and record["caller"] == caller.record()
        and lock_renewer.running(record) is not None
    )


def _wait(
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
                f"{lock_protocol.queue_text(view, spec.who.run, where)}"
            )
        # A free lock needs no line.
        if view.lock is not None:
            progress.report(partial(lock_protocol.queue_text, view, spec.who.run, where), state)
        stop.event.wait(min(pause * random.uniform(0.8, 1.2), max(deadline - now, 0.05)))


def release(spec: LockSpec, check: bool = False, must: bool = True) -> dict[str, Any]:
    """Stop the renewer and delete the Leases of the run. Safe to repeat, also on another machine.

    The lock file becomes ``released`` only after the server has confirmed the deletion. If the server can't be
    reached, AccessError is raised, or without ``must`` the result has a ``warning``: the lock expires by itself.
    """
    known = held_lock_file.read(spec.path)
    state = known["state"] if known is not None else ""
    if check:
        return {"changed": state == held_lock_file.HELD, "lock": known, "msg": "", "warning": ""}
    stopped = lock_renewer.stop(known)
    if state == held_lock_file.RELEASED and not stopped:
        return {
            "changed": False,
            "lock": known,
            "msg": f"run {spec.who.run} has already released the lock",
            "warning": "",
        }
    try:
        with Client.from_kubeconfig(spec.kubeconfig, spec.context, timeout=10) as client:
            deleted = lock_protocol.release(lock_lease.ServerStore(client, spec.namespace), spec.who.run)
    except SeatrialError as error:
        until = f", {known['until']} at the latest" if known is not None else ""
        text = f"it is unknown whether run {spec.who.run} still holds its lock, which expires by itself{until}: {error}"
        if must:
            raise AccessError(text) from error
        return {"changed": stopped, "lock": known, "msg": "", "warning": text}
    # The renewer may have written the file once more before it ended.
    known = held_lock_file.read(spec.path)
    if known is not None and known["state"] != held_lock_file.RELEASED:
        known = {**known, "state": held_lock_file.RELEASED}
        held_lock_file.write(spec.path, known)
    held = any(one.role == lock_lease.HOLDER for one in deleted)
    message = f"run {spec.who.run} released the lock" if held else f"run {spec.who.run} holds no lock"
    return {"changed": stopped or bool(deleted), "lock": known, "msg": message, "warning": ""}


def lock_info(kubeconfig: str, context: str, namespace: str) -> dict[str, Any]:
    """Return the holder of a cluster's lock and the waiting runs; changes nothing."""
    with Client.from_kubeconfig(kubeconfig, context, timeout=30) as client:
        holding, waiting = lock_protocol.parted(lock_lease.ServerStore(client, namespace).look())
        where = api_host(client.access)
    lines = [f"{where}: {lock_protocol.holder_text(holding)}" if holding else f"{where}: the lock is free"]
    lines += [
        f"  place {place}: run {one.run}{f' ({one.owner})' if one.owner not in ('', one.run) else ''}"
        f"{f' for {one.purpose}' if one.purpose else ''}, waiting since {lock_lease.shown(one.acquired)}"
        for place, one in enumerate(waiting, start=1)
    ]
    return {
        "changed": False,
        "holder": holding.summary() if holding else None,
        "waiting": [one.summary() for one in waiting],
        "lines": lines,
    }
