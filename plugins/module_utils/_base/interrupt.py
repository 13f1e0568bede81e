# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records signals (Ctrl-C, kill, closed terminal) and a lost lock, so that a load can end in order."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .errors import SeatrialError
from .signal_blocking_threads import ENDING
from .signal_event import SignalEvent


class Interrupted(SeatrialError):
    """The call was interrupted; everything it did is recorded."""


class Interrupt:
    """The name of the first signal that was received, or an empty string.

    guard: returns why the call must stop, or an empty string; called by every check().
    """

    def __init__(self, guard: Callable[[], str] | None = None) -> None:
        self.name = ""
        self.guard = guard
        self.event = SignalEvent()

    def note(self, number: int, _frame: Any) -> None:
        """Handle a signal."""
        self.name = self.name or signal.Signals(number).name
        self.event.set()

    def check(self) -> None:
        """Raise Interrupted after a signal, or if the guard returns a reason."""
        if self.name:
            raise Interrupted(f"interrupted by {self.name}")
        reason = self.guard() if self.guard is not None else ""
        if reason:
            raise Interrupted(f"stopped, because {reason}")


@contextmanager
def noticed(guard: Callable[[], str] | None = None) -> Iterator[Interrupt]:
    """Record SIGINT, SIGTERM and SIGHUP while the body runs. For the main thread."""
    interrupt = Interrupt(guard)
    before = {number: signal.signal(number, interrupt.note) for number in ENDING}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
