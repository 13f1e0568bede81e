# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The times at which marks for the ruler are made: steady, and never in step with a load for long."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

#: Beats from one end to the other through all phases of the period.
_SWEEP = 40


def sway(beat: int) -> float:
    """Return by how much of a period a beat comes later than an even clock would have it, 0 to 1.

    A load at the canary's own rate, or a multiple of it, would meet an even clock at the same phase for the whole run:
    in the worst case both write at once and nothing is dated in between. So the phase goes evenly to and fro; the rate
    stays what it is.
    """
    return 1.0 - abs(beat % (2 * _SWEEP) / _SWEEP - 1.0)


def beats(over: threading.Event, rate: float, begin: float) -> Iterator[int]:
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
        due = max(even + period * sway(beat), now)
