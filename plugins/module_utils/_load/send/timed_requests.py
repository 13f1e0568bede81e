# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests at their own times beside the senders of a load, and the first use of them: the end of workloads' lifetimes.

Workloads that run until somebody stops them, such as notebooks, are deleted when their lifetime is over. It is drawn
per workload from a distribution, and counts from when the sampler saw the workload complete. A row ``stop`` in the
ledger records each deletion, so that a resumed load stops only the others, and those that are overdue at once.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import SignalBlockingThread
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_errors import api_error, status_of_api_server
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import JSON, ApiReply, Broken

from ..plan.random_draws import draw_number_for_workload
from . import creation_ledger
from .object_creator import TRANSIENT, SenderSettings


class RequestThread:
    """Base class: a subclass calls _begin(), which runs its _serve() in the thread."""

    def __init__(self, settings: SenderSettings, name: str) -> None:
        self._settings = settings
        self._title = name
        self._client = Client(settings.access, settings.request_timeout)
        self._changed = threading.Condition()
        self._halt = False
        self._error: Exception | None = None
        self._thread: SignalBlockingThread | None = None

    def check(self) -> None:
        """Raise the error that ended the thread, if any."""
        if self._error is not None:
            raise self._error

    def close(self, patience: float) -> None:
        """Send nothing more; wait up to ``patience`` seconds for a request in flight."""
        with self._changed:
            self._halt = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(patience)
        self._client.close()

    def _begin(self) -> None:
        self._thread = SignalBlockingThread(target=self._run, name=self._title, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._serve()
        except Exception as error:
            if not self._halt:
                self._error = error

    def _serve(self) -> None:
        raise NotImplementedError

    def _may_repeat(self, status: int, seconds: float) -> bool:
        """Return whether a request that was first sent ``seconds`` ago may succeed later. status: 0 without a reply."""
        return (not status or status in TRANSIENT) and seconds <= self._settings.retry_time

    def _failure(self, what: str, reply: ApiReply | None, broken: str) -> Exception:
        """Return the error of a request that is not repeated. broken: why there is no reply."""
        if reply is None:
            return AccessError(f"{what}: {broken}; tried for {self._settings.retry_time:g} s")
        return api_error(reply, what, self._settings.access)

    def _record(self, row: dict[str, Any], intended: float, sent: float, answered: float) -> None:
        """Write a row of the ledger with these moments (time.monotonic())."""
        for key, moment in (("intended", intended), ("sent", sent), ("answered", answered)):
            row[key] = round(self._settings.clock.from_monotonic(moment), 6)
        self._settings.write(files.encode(row))


#: Distinguishes a lifetime from the other random numbers of a workload.
LIFETIME_STREAM = "lifetime"
#: Pause before another attempt after an error, seconds.
_PAUSE = 1.0
#: The garbage collector deletes the pods, as for a deletion with kubectl.
_OPTIONS = b'{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}'

#: Index of a workload -> (kind, path of its object, name).
Find = Callable[[int], tuple[str, str, str]]


class WorkloadLifetimeStopper(RequestThread):
    """Stops workloads on time. One thread calls note() and check(); a second thread sends."""

    def __init__(
        self, settings: SenderSettings, lifetime: Mapping[str, Any], seed: int, find: Find, stopped: Iterable[int] = ()
    ) -> None:
        """``lifetime``: a distribution as of the filter drawn. ``stopped``: workloads that earlier sessions stopped."""
        super().__init__(settings, "lifetimes")
        self.stopped = set(stopped)
        self._lifetime, self._seed, self._find = lifetime, seed, find
        self._noted: set[int] = set(self.stopped)
        self._due: list[tuple[float, int]] = []  # heap of (time.monotonic(), index)

    @property
    def left(self) -> int:
        """Number of workloads that are complete and still there."""
        return len(self._noted) - len(self.stopped)

    def note(self, completed: Iterable[tuple[int, float]]) -> None:
        """Take workloads that are complete: (index, since when, on the point's clock)."""
        clock: MonotonicWallClock = self._settings.clock
        with self._changed:
            for index, since in completed:
                if index not in self._noted:
                    self._noted.add(index)
                    lasts = draw_number_for_workload(index, self._lifetime, self._seed, LIFETIME_STREAM)
                    heapq.heappush(self._due, (since - clock.wall + clock.monotonic + lasts, index))
            if self._due and self._thread is None:
                self._begin()
            self._changed.notify()

    def _serve(self) -> None:
        while (taken := self._next()) is not None:
            self._stop(*taken)
            self.stopped.add(taken[1])

    def _next(self) -> tuple[float, int] | None:
        """Wait for the next workload that is due; None when there is nothing more to do."""
        with self._changed:
            while not self._halt:
                wait = self._due[0][0] - time.monotonic() if self._due else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._due)
                self._changed.wait(wait)
        return None

    def _stop(self, due: float, index: int) -> None:
        """Delete the object of a workload. Raises AccessError, ApiError after ``retry_time`` seconds of failures."""
        kind, path, name = self._find(index)
        began = time.monotonic()
        while True:
            sent, reply, broken = time.monotonic(), None, ""
            try:
                reply = self._client.raw("DELETE", f"{path}/{name}", _OPTIONS, JSON)
            except Broken as error:
                broken = str(error)
            status = status_of_api_server(reply) if reply is not None else 0
            row = {"type": "stop", "index": index, "name": name, "kind": kind, "status": status}
            self._record(row, due, sent, time.monotonic())
            # 404: somebody else was faster, or a reply was lost.
            if status in creation_ledger.STOPPED:
                return
            if not self._may_repeat(status, time.monotonic() - began):
                raise self._failure(f"DELETE {path}/{name}", reply, broken)
            with self._changed:
                if self._changed.wait_for(lambda: self._halt, _PAUSE):
                    raise AccessError("the load is being stopped")
