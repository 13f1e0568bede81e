# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taking turns on a cluster: who may take its lock, when a lock counts as expired, when its holder must stop.

**Whose clock.** Machines disagree about the time, and a holder's own renewTime says nothing to us. So, as client-go's
leader election does (tools/leaderelection), nobody compares times of two machines: a lock is expired when *we* have
watched it for its whole duration, on our own monotonic clock, and its version did not change. Whoever comes to a lock
that was abandoned long ago therefore waits one duration before breaking it. The holder in turn counts from the moment
*before* its last successful renewal was sent, which is earlier than any moment at which somebody can have seen that
renewal, and gives up after two thirds of the duration. So when it is broken its holder has stopped, as long as clocks
run equally fast to within a third, and however slow the network is.

A holder's clock must go on while its machine sleeps (CLOCK_BOOTTIME), a waiter's must not (CLOCK_MONOTONIC): what it
did not watch, it does not count.

**The queue.** One Lease per waiter, renewed while it waits and so expiring by itself; ordered by the server's
creationTimestamp, then by name. Only the first of those that live may take the lock. The order is a courtesy, the
versions of the lock's own Lease are what keeps two from holding it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ansible_collections.perfscale.seatrial.plugins.module_utils._clock import boot_clock
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._lock import lock_lease
from ansible_collections.perfscale.seatrial.plugins.module_utils._lock.lock_lease import (
    Conflict,
    LockLease,
    LockLeaseStore,
)

#: Part of the duration after its last renewal within which a holder may believe that it holds.
BELIEVE = 2 / 3
#: Part of the duration after which holders and waiters renew.
RENEW = 1 / 4


class LockLost(SeatrialError):
    """The lock is no longer ours, or nobody can say so any more."""


@dataclass(frozen=True)
class LockIdentity:
    """Who asks. ``duration``: of what we hold and of our place in the queue, in whole seconds."""

    run: str
    owner: str = ""
    purpose: str = ""
    duration: int = 60

    def entry(self, role: str, now: float) -> LockLease:
        """Return a Lease of ours that is not on the server yet."""
        name = lock_lease.NAME if role == lock_lease.HOLDER else lock_lease.waiter_name(self.run)
        return LockLease(name, role, self.run, self.duration, self.purpose, self.owner, acquired=now, renewed=now)


@dataclass(frozen=True)
class LockView:
    """What one look has shown. ``queue``: those who wait and live, the first first. ``at``: our clock, after it."""

    lock: LockLease | None
    expired: bool
    queue: tuple[LockLease, ...]
    dead: tuple[LockLease, ...]
    at: float

    def position(self, run: str) -> int:
        """Return the place in the queue, from 1; behind the last for whoever is not in it yet."""
        places = [one.run for one in self.queue]
        return places.index(run) + 1 if run in places else len(places) + 1

    def free_for(self, run: str) -> bool:
        """Tell whether this run may take the lock now."""
        if self.lock is not None and self.lock.run == run:
            return True
        return (self.lock is None or self.expired) and self.position(run) == 1


def parted(entries: list[LockLease]) -> tuple[LockLease | None, list[LockLease]]:
    """Return the lock's own entry, if there is one, and those who wait in the order in which it is their turn."""
    lock = next((one for one in entries if one.role == lock_lease.HOLDER and one.name == lock_lease.NAME), None)
    waiting = sorted((one for one in entries if one.role == lock_lease.WAITER), key=lambda one: (one.created, one.name))
    return lock, waiting


@dataclass
class LeaseChanges:
    """Since when, on our clock, each Lease has not changed."""

    since: dict[str, tuple[str, str, float]] = field(default_factory=dict)

    def note(self, entries: list[LockLease], at: float) -> None:
        """Take what a look has shown. ``at``: after the answer, so that nothing expires early."""
        before, self.since = self.since, {}
        for one in entries:
            uid, version, moment = before.get(one.name, ("", "", at))
            self.since[one.name] = (one.uid, one.version, moment if (uid, version) == (one.uid, one.version) else at)

    def expired(self, entry: LockLease, at: float) -> bool:
        """Tell whether it has stood unchanged for its whole duration."""
        return at - self.since[entry.name][2] > entry.duration


class LockContender:
    """One run that wants the lock: look, then act, again and again until act() returns the lock."""

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
        """Ask once who holds and who waits."""
        entries = self.store.look()
        at = self.clock()
        self.watched.note(entries, at)
        lock, waiting = parted(entries)
        # Our own place never expires for us, however slow we were.
        dead = tuple(one for one in waiting if one.run != self.who.run and self.watched.expired(one, at))
        queue = tuple(one for one in waiting if one not in dead)
        return LockView(lock, lock is not None and self.watched.expired(lock, at), queue, dead, at)

    def act(self, view: LockView) -> HeldLock | None:
        """Take the lock if it is our turn, else keep our place in the queue. Return the lock once it is ours."""
        held = self._take(view) if view.free_for(self.who.run) else None
        if held is None:
            self._queue(view)
            self._sweep(view)
        return held

    def _take(self, view: LockView) -> HeldLock | None:
        now = self.store.now()
        wanted = self.who.entry(lock_lease.HOLDER, now)
        if view.lock is not None:
            # An expired one, or our own of which we don't know when it was renewed: either way exactly this version.
            since = view.lock.acquired if view.lock.run == self.who.run else now
            moved = view.lock.transitions + (view.lock.run != self.who.run)
            wanted = replace(wanted, uid=view.lock.uid, version=view.lock.version, acquired=since, transitions=moved)
        sent = self.holder_clock()
        try:
            return HeldLock(self.store, self.who, self.store.put(wanted), sent, self.holder_clock)
        except Conflict:
            return None

    def _queue(self, view: LockView) -> None:
        mine = next((one for one in view.queue if one.run == self.who.run), None)
        if mine is not None and self.clock() - self._renewed < self.who.duration * RENEW:
            return
        now = self.store.now()
        wanted = lock_lease.renewed(mine, now) if mine is not None else self.who.entry(lock_lease.WAITER, now)
        began = self.clock()
        try:
            self.store.put(wanted)
            self._renewed = began
        except Conflict:
            pass  # the next look shows what it is now

    def _sweep(self, view: LockView) -> None:
        for one in view.dead:
            try:
                self.store.remove(one)
            except Conflict:
                pass  # it lives after all

    def leave(self) -> None:
        """Give up our place in the queue."""
        for one in self.store.look():
            if one.role == lock_lease.WAITER and one.run == self.who.run:
                try:
                    self.store.remove(one)
                except Conflict:
                    pass


class HeldLock:
    """A lock that we hold as long as we renew it. ``at`` and the deadline are readings of ``clock``."""

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
        """Until when we may believe that we hold it."""
        return self.at + self.entry.duration * BELIEVE

    @property
    def due(self) -> float:
        """When it is to be renewed."""
        return self.at + self.entry.duration * RENEW

    def renew(self) -> None:
        """Renew it. Raises LockLost; errors of the client mean that it may be tried again until the deadline."""
        self.check()
        sent = self.clock()
        try:
            after = self.store.put(lock_lease.renewed(self.entry, self.store.now()))
        except Conflict:
            self.entry = self._ours()
            return
        # Answered too late: whoever watches the deadline has stopped the load already.
        self.check()
        self.entry, self.at = after, sent

    def check(self) -> None:
        """Raise LockLost when the last renewal is too long ago to be sure."""
        if self.clock() > self.deadline:
            raise LockLost(
                f"it could not be renewed for {self.clock() - self.at:.0f} s, and after {self.entry.duration} s "
                "another run may take it"
            )

    def _ours(self) -> LockLease:
        """Return the lock as it is now, changed by another process of this run; to be renewed anew. Raises LockLost."""
        found = next((one for one in self.store.look() if one.name == lock_lease.NAME), None)
        if found is None:
            raise LockLost("its Lease was deleted")
        if found.run != self.who.run:
            raise LockLost(f"run {found.run} holds it since {lock_lease.shown(found.acquired)}")
        return found

    def release(self) -> None:
        """Give it back, if it is still ours."""
        give_back(self.store, self.who.run)


def give_back(store: LockLeaseStore, run: str) -> list[LockLease]:
    """Delete what this run holds and its place in the queue, whoever of its processes took it; return what it was."""
    given: list[LockLease] = []
    for _attempt in range(5):
        mine = [one for one in store.look() if one.run == run]
        if not mine:
            break
        for one in mine:
            try:
                store.remove(one)
                given.append(one)
            except Conflict:
                pass  # renewed this very moment: look again
    return given


def words(view: LockView, run: str, where: str) -> str:
    """Say whose turn it is, for whoever waits."""
    place = f"place {view.position(run)} of {max(len(view.queue), view.position(run))} in the queue for {where}"
    if view.lock is None:
        first = view.queue[0].run if view.queue else run
        return f"{place}: free, run {first} is next"
    if view.expired:
        return f"{place}: the lock of run {view.lock.run} has expired"
    return f"{place}: {holder(view.lock)}"


def holder(entry: LockLease) -> str:
    """Say who holds a lock, for what, since when and until when."""
    by = f" ({entry.owner})" if entry.owner not in ("", entry.run) else ""
    why = f" for {entry.purpose}" if entry.purpose else ""
    return (
        f"run {entry.run}{by} holds it{why} since {lock_lease.shown(entry.acquired)}, "
        f"until {lock_lease.shown(entry.until)} unless it is renewed"
    )
