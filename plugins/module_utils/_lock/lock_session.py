# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run's turn on a cluster: waited for, kept, given back. What module cluster_lock does."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _cluster_lock_record, _interrupt
from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster.cluster_identity import api_host
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import (
    AccessError,
    ApiError,
    InputError,
    SeatrialError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._lock import lock_lease, lock_protocol, lock_renewer
from ansible_collections.perfscale.seatrial.plugins.module_utils._processes import Process
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._wait_until import ChangeReporter, Say

#: Longest pause between two looks at the queue, seconds.
PAUSE = 1.0
#: A shorter lock (seconds) would be lost whenever an API server is slow for a moment.
SHORTEST = 3


@dataclass(frozen=True)
class LockSpec:
    """What module cluster_lock was asked. Times in seconds. ``caller``: pid of the run's process."""

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


def take(wish: LockSpec, step: Step, say: Say, check: bool = False) -> dict[str, Any]:
    """Wait for our turn, take the lock and leave a keeper behind. Safe twice: who holds it already goes on.

    Raises WaitTimeout naming who holds it, AccessError, ApiError, Interrupted.
    """
    known = _cluster_lock_record.read(wish.path)
    caller = Process.of(wish.caller)
    if _kept(known, caller):
        return {"changed": False, "waited": 0.0, "lock": known, "msg": f"run {wish.who.run} holds the lock already"}
    with Client.from_kubeconfig(wish.kubeconfig, wish.context, timeout=30) as client:
        where = api_host(client.access)
        contender = lock_protocol.LockContender(lock_lease.ServerStore(client, wish.namespace), wish.who)
        if check:
            said = lock_protocol.words(contender.look(), wish.who.run, where)
            return {"changed": True, "waited": 0.0, "lock": None, "msg": said}
        began = time.monotonic()
        with _interrupt.noticed() as stop:
            try:
                holding = _wait(contender, wish, where, say, stop)
            finally:
                with suppress(SeatrialError):
                    contender.leave()
        waited = time.monotonic() - began
        step.timing("cluster", waited, "waiting for the lock")
        task = lock_renewer.RenewalTask(
            wish.kubeconfig, wish.context, wish.namespace, where, wish.who, wish.path, caller, waited
        )
        try:
            lock_renewer.start(task, holding)
        except SeatrialError:
            holding.release()
            raise
    said = f"run {wish.who.run} holds the lock on {where}" + (f" after {waited:.0f} s" if waited >= 1 else "")
    say(said)
    return {"changed": True, "waited": round(waited, 1), "lock": _cluster_lock_record.read(wish.path), "msg": said}


def _kept(record: dict[str, Any] | None, caller: Process) -> bool:
    """Tell whether a keeper of this very session holds the lock."""
    return (
        record is not None
        and record["state"] == _cluster_lock_record.HELD
        and record["caller"] == caller.record()
        and lock_renewer.running(record) is not None
    )


def _wait(
    contender: lock_protocol.LockContender, wish: LockSpec, where: str, say: Say, stop: _interrupt.Interrupt
) -> lock_protocol.HeldLock:
    deadline = time.monotonic() + wish.timeout
    teller, trouble = ChangeReporter(say), ChangeReporter(say)
    view: lock_protocol.LockView | None = None
    pause = min(PAUSE, wish.who.duration / 6)
    while True:
        stop.check()
        try:
            view = contender.look()
            holding = contender.act(view)
        except (AccessError, ApiError) as error:
            # Whoever waits for an hour meets a restart of the API server; who can't begin is told at once.
            if view is None or not _may_pass(error) or time.monotonic() >= deadline:
                raise
            trouble.tell(partial(str, error), "trouble")
            holding = None
        if holding is not None:
            return holding
        now = time.monotonic()
        state = (view.position(wish.who.run), view.lock and view.lock.run, view.expired)
        if now >= deadline:
            raise WaitTimeout(
                f"{where} was not ours within {wish.timeout:g} s (cluster_lock_timeout): "
                f"{lock_protocol.words(view, wish.who.run, where)}"
            )
        # What nobody had to wait for is not worth a line.
        if view.lock is not None:
            teller.tell(partial(lock_protocol.words, view, wish.who.run, where), state)
        stop.event.wait(min(pause * random.uniform(0.8, 1.2), max(deadline - now, 0.05)))


def _may_pass(error: Exception) -> bool:
    if isinstance(error, ApiError):
        return error.status == 0 or error.busy
    return "is not trusted" not in str(error) and "refuses our credentials" not in str(error)


def give(wish: LockSpec, check: bool = False, must: bool = True) -> dict[str, Any]:
    """End the keeper and delete what the run holds. Safe twice, and from another machine.

    Only the server's answer makes the lock file say ``released``. When it can't be asked AccessError is raised, or,
    without ``must``, the result's ``warning`` says so: the lock expires by itself.
    """
    known = _cluster_lock_record.read(wish.path)
    state = known["state"] if known is not None else ""
    if check:
        return {"changed": state == _cluster_lock_record.HELD, "lock": known, "msg": "", "warning": ""}
    stopped = lock_renewer.stop(known)
    if state == _cluster_lock_record.RELEASED and not stopped:
        return {"changed": False, "lock": known, "msg": f"run {wish.who.run} gave the lock back before", "warning": ""}
    try:
        with Client.from_kubeconfig(wish.kubeconfig, wish.context, timeout=10) as client:
            given = lock_protocol.give_back(lock_lease.ServerStore(client, wish.namespace), wish.who.run)
    except SeatrialError as error:
        until = f", {known['until']} at the latest" if known is not None else ""
        text = f"nobody can say whether run {wish.who.run} still has its lock, which expires by itself{until}: {error}"
        if must:
            raise AccessError(text) from error
        return {"changed": stopped, "lock": known, "msg": "", "warning": text}
    # The keeper may have written once more before it ended.
    known = _cluster_lock_record.read(wish.path)
    if known is not None and known["state"] != _cluster_lock_record.RELEASED:
        known = {**known, "state": _cluster_lock_record.RELEASED}
        _cluster_lock_record.write(wish.path, known)
    held = any(one.role == lock_lease.HOLDER for one in given)
    said = f"run {wish.who.run} gave the lock back" if held else f"run {wish.who.run} holds no lock"
    return {"changed": stopped or bool(given), "lock": known, "msg": said, "warning": ""}


def lock_info(kubeconfig: str, context: str, namespace: str) -> dict[str, Any]:
    """Return who holds a cluster's lock and who waits for it; nothing is changed."""
    with Client.from_kubeconfig(kubeconfig, context, timeout=30) as client:
        holding, waiting = lock_protocol.parted(lock_lease.ServerStore(client, namespace).look())
        where = api_host(client.access)
    lines = [f"{where}: {lock_protocol.holder(holding)}" if holding else f"{where}: nobody holds the lock"]
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
