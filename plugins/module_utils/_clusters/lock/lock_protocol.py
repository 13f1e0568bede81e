# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The protocol of the lock: who may acquire it, when it counts as expired, when its holder must stop.

**Clocks.** The clocks of two machines differ, so a holder's renewTime can't be compared with our time. As in
client-go's leader election (tools/leaderelection), times of two machines are never compared: a lock has expired when
*we* have watched it for its whole duration, on our own monotonic clock, and its version did not change. A run that
finds an abandoned lock therefore waits one duration before it takes the lock over. The holder counts from *before* it
sent its last successful renewal, which is earlier than any time at which another run can have seen that renewal, and
stops after two thirds of the duration. When the lock is taken over, its holder has therefore stopped, provided that
clocks run equally fast to within a third, and however slow the network is.

A holder's clock must continue while its machine is suspended (CLOCK_BOOTTIME). A waiter's clock must not
(CLOCK_MONOTONIC), because a suspended waiter does not watch the lock.

**The queue.** Each waiter has a Lease, which it renews while it waits and which otherwise expires. The order is that of
the server's creationTimestamp, then of the name. Only the first live waiter may acquire the lock. The queue provides
fairness only; mutual exclusion comes from the version of the holder's Lease.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError, WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import boot_clock

from . import lock_records
from .lock_records import LeaseConflictError, LockLease, LockLeaseStore

#: Part of the duration after its last renewal for which a holder may assume that it holds the lock.
BELIEVE = 2 / 3
#: Part of the duration after which holders and waiters renew.
RENEW = 1 / 4
#: How often the Leases of a run are read and deleted, if another process renews them at the same moment.
_DELETIONS = 5


class LockLost(SeatrialError):
    """The lock is no longer ours, or it is unknown whether it is."""


@dataclass(frozen=True)
class LockIdentity:
    """The run that wants the lock. ``duration``: of its Leases, in whole seconds."""

    run: str
    owner: str = ""
    purpose: str = ""
    duration: int = 60

    def entry(self, role: str, now: float) -> LockLease:
        """Return our Lease before it is on the server."""
        name = lock_records.NAME if role == lock_records.HOLDER else lock_records.waiter_lease_name(self.run)
        return LockLease(name, role, self.run, self.duration, self.purpose, self.owner, acquired=now, renewed=now)


@dataclass(frozen=True)
class LockView:
    """The state that one query returned.

    queue: live waiters in order. dead: waiters whose Leases have expired. at: our clock after the response.
    """

    lock: LockLease | None
    expired: bool
    queue: tuple[LockLease, ...]
    dead: tuple[LockLease, ...]
    at: float

    def position(self, run: str) -> int:
        """Return the place in the queue, from 1; a run that is not in it yet comes last."""
        places = [waiter.run for waiter in self.queue]
        return places.index(run) + 1 if run in places else len(places) + 1

    def free_for(self, run: str) -> bool:
        """Return whether this run may acquire the lock now."""
        if self.lock is not None and self.lock.run == run:
            return True
        return (self.lock is None or self.expired) and self.position(run) == 1


def split_holder_and_waiters(entries: list[LockLease]) -> tuple[LockLease | None, list[LockLease]]:
    """Return the holder's Lease, if there is one, and those of the waiters in the order of the queue."""
    lock = next(
        (entry for entry in entries if entry.role == lock_records.HOLDER and entry.name == lock_records.NAME), None
    )
    waiting = sorted(
        (entry for entry in entries if entry.role == lock_records.WAITER),
        key=lambda waiter: (waiter.created, waiter.name),
    )
    return lock, waiting


@dataclass
class LeaseChanges:
    """The time, on our clock, since which each Lease has not changed."""

    since: dict[str, tuple[str, str, float]] = field(default_factory=dict)

    def note(self, entries: list[LockLease], at: float) -> None:
        """Note the Leases of a response. ``at``: after the response, so that no Lease expires early."""
        before, self.since = self.since, {}
        for entry in entries:
            uid, version, moment = before.get(entry.name, ("", "", at))
            self.since[entry.name] = (
                entry.uid,
                entry.version,
                moment if (uid, version) == (entry.uid, entry.version) else at,
            )

    def expired(self, entry: LockLease, at: float) -> bool:
        """Return whether a Lease has not changed for its whole duration, or for as long as a waiter may be silent."""
        return at - self.since[entry.name][2] > entry.longest_silence


class LockContender:
    """A run that wants the lock: call look(), then act(), until act() returns the lock."""

    def __init__(
        self,
        store: LockLeaseStore,
        who: LockIdentity,
        clock: Callable[[], float] = time.monotonic,
        holder_clock: Callable[[], float] = boot_clock,
    ) -> None:
        self.store = store
        self.who = who
        self.clock = clock
        self.holder_clock = holder_clock
        self.watched = LeaseChanges()
        self._renewed = 0.0  # when our place in the queue was renewed, on our clock

    def look(self) -> LockView:
        """Query the holder and the waiters once."""
        entries = self.store.look()
        at = self.clock()
        self.watched.note(entries, at)
        lock, waiting = split_holder_and_waiters(entries)
        # We never expire our own place, however slow we are.
        dead = tuple(waiter for waiter in waiting if waiter.run != self.who.run and self.watched.expired(waiter, at))
        queue = tuple(waiter for waiter in waiting if waiter not in dead)
        return LockView(lock, lock is not None and self.watched.expired(lock, at), queue, dead, at)

    def act(self, view: LockView) -> HeldLock | None:
        """Acquire the lock if we are next, else keep our place in the queue. Return the lock once it is ours."""
        held = self._take(view) if view.free_for(self.who.run) else None
        if held is None:
            self._queue(view)
            self._sweep(view)
        return held

    def _take(self, view: LockView) -> HeldLock | None:
        now = self.store.approximate_server_time()
        wanted = self.who.entry(lock_records.HOLDER, now)
        if view.lock is not None:
            # It has expired, or it is ours with an unknown time of renewal: replace exactly this version.
            since = view.lock.acquired if view.lock.run == self.who.run else now
            moved = view.lock.transitions + (view.lock.run != self.who.run)
            wanted = replace(wanted, uid=view.lock.uid, version=view.lock.version, acquired=since, transitions=moved)
        sent = self.holder_clock()
        try:
            return HeldLock(self.store, self.who, self.store.put(wanted), sent, self.holder_clock)
        except LeaseConflictError:
            return None

    def _queue(self, view: LockView) -> None:
        mine = next((waiter for waiter in view.queue if waiter.run == self.who.run), None)
        if mine is not None and self.clock() - self._renewed < mine.longest_silence * RENEW:
            return
        now = self.store.approximate_server_time()
        wanted = (
            lock_records.with_renewal_time(mine, now) if mine is not None else self.who.entry(lock_records.WAITER, now)
        )
        began = self.clock()
        try:
            self.store.put(wanted)
            self._renewed = began
        except LeaseConflictError:
            pass  # the next look() reads the current version

    def _sweep(self, view: LockView) -> None:
        for waiter in view.dead:
            try:
                self.store.remove(waiter)
            except LeaseConflictError:
                pass  # it was renewed

    def leave(self) -> None:
        """Leave the queue."""
        lease = self.store.named(lock_records.waiter_lease_name(self.who.run))
        if lease is not None and lease.run == self.who.run:
            with suppress(LeaseConflictError):
                self.store.remove(lease)


class HeldLock:
    """A lock that we hold as long as we renew it. ``at`` and ``deadline`` are readings of ``clock``."""

    def __init__(
        self, store: LockLeaseStore, who: LockIdentity, entry: LockLease, at: float, clock: Callable[[], float]
    ) -> None:
        self.store = store
        self.who = who
        self.entry = entry
        self.at = at
        self.clock = clock

    @property
    def deadline(self) -> float:
        """Until when we may assume that we hold it."""
        return self.at + self.entry.duration * BELIEVE

    @property
    def due(self) -> float:
        """When to renew it."""
        return self.at + self.entry.duration * RENEW

    def renew(self) -> None:
        """Renew it. Raises LockLost. After an error of the client, the renewal may be retried until the deadline."""
        self.check()
        sent = self.clock()
        try:
            after = self.store.put(lock_records.with_renewal_time(self.entry, self.store.approximate_server_time()))
        except LeaseConflictError:
            self.entry = self._ours()
            return
        # If the response was late, the load has already stopped at the deadline.
        self.check()
        self.entry, self.at = after, sent

    def check(self) -> None:
        """Raise LockLost if the deadline has passed."""
        if self.clock() > self.deadline:
            raise LockLost(
                f"it could not be renewed for {self.clock() - self.at:.0f} s, and after {self.entry.duration} s "
                "another run may take it"
            )

    def _ours(self) -> LockLease:
        """Return the current Lease, which another process of this run changed, to renew it again. Raises LockLost."""
        lease = next((entry for entry in self.store.look() if entry.name == lock_records.NAME), None)
        if lease is None:
            raise LockLost("its Lease was deleted")
        if lease.run != self.who.run:
            raise LockLost(f"run {lease.run} holds it since {lock_records.format_utc_seconds(lease.acquired)}")
        return lease

    def release(self) -> None:
        """Release it, if it is still ours."""
        delete_leases_of_run(self.store, self.who.run)


def _leases_of_run(store: LockLeaseStore, run: str) -> list[LockLease]:
    """Return the Leases of this run, also those that have lost the label by which they are listed."""
    leases = {lease.name: lease for lease in store.look()}
    for name in {lock_records.NAME, lock_records.waiter_lease_name(run)} - {*leases}:
        lease = store.named(name)
        if lease is not None:
            leases[name] = lease
    return [lease for lease in leases.values() if lease.run == run]


def delete_leases_of_run(store: LockLeaseStore, run: str) -> list[LockLease]:
    """Delete the Leases of this run, also those of its other processes; return them.

    Raises WaitTimeout if one is still there after several attempts.
    """
    deleted: list[LockLease] = []
    for _attempt in range(_DELETIONS):
        mine = _leases_of_run(store, run)
        if not mine:
            return deleted
        for lease in mine:
            try:
                store.remove(lease)
                deleted.append(lease)
            except LeaseConflictError:
                pass  # it was just renewed: read it again
    if left := _leases_of_run(store, run):
        raise WaitTimeout(f"Lease {left[0].name} of run {run} is still there after {_DELETIONS} attempts to delete it")
    return deleted


def describe_place_in_queue(view: LockView, run: str, where: str) -> str:
    """Return the place of a waiting run and the state of the lock as text."""
    place = f"place {view.position(run)} of {max(len(view.queue), view.position(run))} in the queue for {where}"
    if view.lock is None:
        first = view.queue[0].run if view.queue else run
        return f"{place}: free, run {first} is next"
    if view.expired:
        return f"{place}: the lock of run {view.lock.run} has expired"
    return f"{place}: {describe_lock_holder(view.lock)}"


def describe_lock_holder(entry: LockLease) -> str:
    """Return who holds a lock, for what purpose, since when and until when, as text."""
    by = f" ({entry.owner})" if entry.owner not in ("", entry.run) else ""
    why = f" for {entry.purpose}" if entry.purpose else ""
    return (
        f"run {entry.run}{by} holds it{why} since {lock_records.format_utc_seconds(entry.acquired)}, "
        f"until {lock_records.format_utc_seconds(entry.until)} unless it is renewed"
    )
