# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which workload an object belongs to when it does not carry our labels: the one that its owners lead to.

Each kind has its own watch, so an object can be seen before its owner is. What is seen of it then waits, in order,
until the owner is known or so much time has passed that it must be somebody else's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

#: Seconds that an object waits for its owner, and events that wait at most.
PATIENCE = 30.0
MOST = 5000


class OwnerIndex:
    """Index of the workload by uid, for all kinds that are watched."""

    def __init__(self) -> None:
        self.dropped = 0  # events that gave way to newer ones before their time was over
        self._index: dict[str, int] = {}
        self._waiting: dict[str, list[Callable[[], None]]] = {}  # uid of an owner -> what to do when it is known
        self._order: deque[tuple[float, str]] = deque()  # since when, for whom

    def index_of(self, owners: list[str]) -> int | None:
        """Return the index of the workload that one of ``owners`` belongs to."""
        for uid in owners:
            index = self._index.get(uid)
            if index is not None:
                return index
        return None

    def add(self, uid: str, index: int) -> None:
        """Take note that an object belongs to a workload, and do what waited for that."""
        if uid in self._index:
            return
        self._index[uid] = index
        for resume in self._waiting.pop(uid, ()):
            resume()

    def wait(self, at: float, owners: list[str], resume: Callable[[], None]) -> None:
        """Call ``resume`` when one of ``owners`` becomes known; ``at``: now, seconds."""
        self._expire(at)
        # One of several owners is enough; the rest would see it twice.
        once = _once(resume) if len(owners) > 1 else resume
        for uid in owners:
            self._waiting.setdefault(uid, []).append(once)
            self._order.append((at, uid))

    def _expire(self, now: float) -> None:
        while self._order and (self._order[0][0] < now - PATIENCE or len(self._order) > MOST):
            since, uid = self._order.popleft()
            waiting = self._waiting.get(uid)
            if waiting:
                waiting.pop(0)
                self.dropped += since >= now - PATIENCE
                if not waiting:
                    del self._waiting[uid]


def _once(work: Callable[[], None]) -> Callable[[], None]:
    done: list[Any] = []

    def call() -> None:
        if not done:
            done.append(True)
            work()

    return call
