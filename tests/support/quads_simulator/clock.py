"""The simulated server's clock: it is stopped and advanced explicitly, or runs with real time at any speed."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable

WEEK = 7 * 86400.0


def coming_saturday() -> float:
    """Return the start of the coming Saturday (s): a lab's week ends on Sunday evening, and leases end with it.

    It is 18 seconds before midnight UTC. A lease that begins then is not over by the clock of this machine either.
    """
    friday = 1_795_219_182.0
    return friday + math.ceil((time.time() - friday) / WEEK) * WEEK


class Clock:
    """Seconds since the epoch, UTC. ``speed`` 0: moves only on demand; 1: as fast as real time."""

    def __init__(self, now: float, speed: float = 0.0) -> None:
        self._base = now
        self._began = time.monotonic()
        self.speed = speed
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def now(self) -> float:
        """Return the server's time."""
        return self._base + (time.monotonic() - self._began) * self.speed

    def set(self, now: float) -> None:
        """Set the time, forwards or backwards; events that are due until then happen first."""
        self._run_until(now)
        self._base, self._began = now, time.monotonic()

    def advance(self, seconds: float) -> None:
        """Let time pass; due events happen at their times."""
        self.set(self.now() + seconds)

    def at(self, when: float, do: Callable[[], None]) -> None:
        """Let ``do`` happen at ``when``."""
        heapq.heappush(self._events, (when, next(self._numbers), do))

    def _run_until(self, moment: float) -> None:
        while self._events and self._events[0][0] <= moment:
            when, _, do = heapq.heappop(self._events)
            self._base, self._began = max(when, self._base), time.monotonic()
            do()
