# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the workload of an object without our labels: by its owner references, or by the order of appearance.

Each kind has its own watch, so an object can be seen before its owner. Its events then wait, in order, until the owner
is known, or until so much time has passed that the object cannot be part of the load. The workloads of a load that
others submit get their indices in the order in which they are seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files

#: How long an event waits for its owner, seconds; maximum number of waiting events.
OWNER_TIMEOUT = 30.0
MAX_WAITING = 5000


class OwnerIndex:
    """Index of the workload by uid, for all watched kinds."""

    def __init__(self) -> None:
        self.dropped = 0  # events that were dropped for newer ones before PATIENCE had passed
        self._index: dict[str, int] = {}
        self._waiting: dict[str, list[Callable[[], None]]] = {}  # uid of an owner -> calls for when it is known
        self._queue: deque[tuple[float, str]] = deque()  # (since, uid of the owner)
        self._resuming: deque[Callable[[], None]] | None = None  # while calls are made, which may add objects

    def index_of(self, owners: list[str]) -> int | None:
        """Return the index of the workload that one of ``owners`` belongs to."""
        for uid in owners:
            index = self._index.get(uid)
            if index is not None:
                return index
        return None

    def add(self, uid: str, index: int) -> None:
        """Record that an object belongs to a workload, and process the events that waited for it."""
        if uid in self._index:
            return
        self._index[uid] = index
        waiting = self._waiting.pop(uid, ())
        if self._resuming is not None:
            # No recursion: a chain of owners has any length.
            self._resuming.extend(waiting)
            return
        self._resuming = deque(waiting)
        try:
            while self._resuming:
                self._resuming.popleft()()
        finally:
            self._resuming = None

    def wait(self, at: float, owners: list[str], resume: Callable[[], None]) -> None:
        """Call ``resume`` when one of ``owners`` becomes known; ``at``: now, seconds."""
        self._expire(at)
        # One of several owners is enough; with each further one the event would be processed again.
        once = _call_only_once(resume) if len(owners) > 1 else resume
        for uid in owners:
            self._waiting.setdefault(uid, []).append(once)
            self._queue.append((at, uid))

    def _expire(self, now: float) -> None:
        while self._queue and (self._queue[0][0] < now - OWNER_TIMEOUT or len(self._queue) > MAX_WAITING):
            since, uid = self._queue.popleft()
            waiting = self._waiting.get(uid)
            if waiting:
                waiting.pop(0)
                self.dropped += since >= now - OWNER_TIMEOUT
                if not waiting:
                    del self._waiting[uid]


def _call_only_once(work: Callable[[], None]) -> Callable[[], None]:
    done: list[Any] = []

    def call() -> None:
        if not done:
            done.append(True)
            work()

    return call


#: Types of the rows of observations.jsonl that record a workload, and an object from before the load.
WORKLOAD, EARLIER = "workload", "earlier"


class AdoptedWorkloads:
    """The workloads by uid. ``write`` gets rows as JSON, before those of the workload's events.

    kind: of the workloads. kinds: all sampled ones; an object that one of them owns is part of a workload, and not one
    itself. existing: whether objects of the first list are workloads.
    """

    def __init__(self, kind: str, kinds: Collection[str], existing: bool, write: Callable[[str], None]) -> None:
        self._kind = kind
        self._kinds = frozenset(kinds)
        self._existing = existing
        self._write = write
        self._index: dict[str, int] = {}
        self._earlier: set[str] = set()
        self._resumed = False

    def recall(self, record: dict[str, Any]) -> None:
        """Read a row of an earlier session. What is new since its first list belongs to the load."""
        if record["type"] == "watching" and record["kind"] == self._kind:
            self._resumed = True
        elif record["type"] == WORKLOAD:
            self._index[record["uid"]] = record["index"]
        elif record["type"] == EARLIER:
            self._earlier.add(record["uid"])

    def take_all(self) -> None:
        """Take all objects that are listed from now on: their kind did not exist before the load."""
        self._resumed = True

    def index_of(self, first: bool, metadata: dict[str, Any]) -> int | None:
        """Return the index of an object of the workloads' kind, None for one that is no workload.

        first: whether the first list of this session returned the object.
        """
        uid = metadata["uid"]
        index = self._index.get(uid)
        if index is not None or uid in self._earlier:
            return index
        if any(owner_reference.get("kind") in self._kinds for owner_reference in metadata.get("ownerReferences") or ()):
            return None
        if first and not self._existing and not self._resumed:
            self._earlier.add(uid)
            self._write(files.encode({"type": EARLIER, "uid": uid}))
            return None
        index = self._index[uid] = len(self._index)
        place = {"kind": self._kind, "namespace": metadata.get("namespace") or "", "name": metadata["name"], "uid": uid}
        self._write(files.encode({"type": WORKLOAD, "index": index, **place}))
        return index
