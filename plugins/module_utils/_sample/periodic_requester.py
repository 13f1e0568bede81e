# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The times at which marks for the ruler are made: steady, and never in step with a load for long; what makes them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_credentials import Access
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import Connection
from ansible_collections.perfscale.seatrial.plugins.module_utils._quantiles import summary
from ansible_collections.perfscale.seatrial.plugins.module_utils._threads import Thread

#: Seconds to wait for the answer to one request.
_TIMEOUT = 10.0
#: Beats from one end to the other through all phases of the period.
_SWEEP = 40


def phase_jitter(beat: int) -> float:
    """Return by how much of a period a beat comes later than an even clock would have it, 0 to 1.

    A load at the canary's own rate, or a multiple of it, would meet an even clock at the same phase for the whole run:
    in the worst case both write at once and nothing is dated in between. So the phase goes evenly to and fro; the rate
    stays what it is.
    """
    return 1.0 - abs(beat % (2 * _SWEEP) / _SWEEP - 1.0)


def probe_times(over: threading.Event, rate: float, begin: float) -> Iterator[int]:
    """Yield 0, 1, 2, … at ``rate`` a second from ``begin`` (time.monotonic()) on, until ``over`` is set.

    An absolute schedule; what is late by more than a period is not made up for.
    """
    period = 1.0 / rate
    even = due = begin
    beat = 0
    while not over.wait(max(0.0, due - time.monotonic())):
        yield beat
        now = time.monotonic()
        beat, even = beat + 1, max(even + period, now - period)
        due = max(even + period * phase_jitter(beat), now)


class PeriodicRequester(Thread):
    """Sends a request at each beat, over a connection of its own, from begin() until stop()."""

    def __init__(self, name: str, access: Access, rate: float) -> None:
        super().__init__(name=name, daemon=True)
        self.failure = ""  # what a user should know
        self._access = access
        self._rate = rate
        self._begin = 0.0
        self._over = threading.Event()
        self._took: deque[float] = deque(maxlen=100_000)  # seconds from sending to the answer
        self._cpu = 0.0  # seconds of processor time

    def begin(self, at: float) -> None:
        """Start to send, from ``at`` (time.monotonic()) on."""
        self._begin = at
        self.start()

    def run(self) -> None:
        """Send at each beat."""
        began = time.thread_time()
        connection = Connection(self._access, _TIMEOUT)
        for beat in probe_times(self._over, self._rate, self._begin):
            self._send(connection, beat)
        self._cpu = time.thread_time() - began
        connection.close()

    def _send(self, connection: Connection, beat: int) -> None:
        """Send the request of one beat and take its answer."""
        raise NotImplementedError

    def stop(self, patience: float) -> None:
        """Send nothing more, whether it has begun or not."""
        self._over.set()
        if self.ident is not None:
            self.join(patience)

    def cost_of(self, what: str) -> dict[str, Any]:
        """Return how many answers came (under ``what``), how long they took, our processor time; seconds."""
        found = summary(list(self._took))
        return {what: len(self._took), "took": found, "cpu": round(self._cpu, 6)} if found else {}
