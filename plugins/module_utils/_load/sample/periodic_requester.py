# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests at a constant rate with a sweeping phase, so that they never stay synchronous with a load."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.quantiles import summary
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signal_blocking_threads import Thread
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_credentials import Access
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import Connection

#: Timeout for the response to one request, seconds.
_TIMEOUT = 10.0
#: Number of requests in which the phase moves from one end of the period to the other.
_SWEEP = 40


def phase_jitter(number: int) -> float:
    """Return the delay of request ``number`` relative to a constant clock, as a share of the period, 0 to 1.

    A load at the canary's own rate, or a multiple of it, would meet a constant clock at the same phase for the whole
    run. In the worst case both write at the same time and nothing in between is dated. Therefore the phase sweeps
    linearly back and forth; the mean rate does not change.
    """
    return 1.0 - abs(number % (2 * _SWEEP) / _SWEEP - 1.0)


def probe_times(over: threading.Event, rate: float, begin: float) -> Iterator[int]:
    """Yield 0, 1, 2, … at ``rate`` per second from ``begin`` (time.monotonic()) on, until ``over`` is set.

    The schedule is absolute. Requests that are late by more than a period are skipped.
    """
    period = 1.0 / rate
    nominal = due = begin
    number = 0
    while not over.wait(max(0.0, due - time.monotonic())):
        yield number
        now = time.monotonic()
        number, nominal = number + 1, max(nominal + period, now - period)
        due = max(nominal + period * phase_jitter(number), now)


class PeriodicRequester(Thread):
    """Sends requests over its own connection from begin() until stop()."""

    def __init__(self, name: str, access: Access, rate: float) -> None:
        super().__init__(name=name, daemon=True)
        self.failure = ""  # for the user; empty while requests succeed
        self._access = access
        self._rate = rate
        self._begin = 0.0
        self._over = threading.Event()
        self._took: deque[float] = deque(maxlen=100_000)  # seconds from request to response
        self._cpu = 0.0  # seconds of processor time

    def begin(self, at: float) -> None:
        """Start sending at ``at`` (time.monotonic())."""
        self._begin = at
        self.start()

    def run(self) -> None:
        """Send requests on schedule."""
        began = time.thread_time()
        connection = Connection(self._access, _TIMEOUT)
        for number in probe_times(self._over, self._rate, self._begin):
            self._send(connection, number)
        self._cpu = time.thread_time() - began
        connection.close()

    def _send(self, connection: Connection, number: int) -> None:
        """Send request ``number`` and handle its response."""
        raise NotImplementedError

    def stop(self, patience: float) -> None:
        """Send nothing more; safe before begin()."""
        self._over.set()
        if self.ident is not None:
            self.join(patience)

    def cost_of(self, what: str) -> dict[str, Any]:
        """Return the number of responses (under ``what``), quantiles of their duration, our processor time; seconds."""
        found = summary(list(self._took))
        return {what: len(self._took), "took": found, "cpu": round(self._cpu, 6)} if found else {}
