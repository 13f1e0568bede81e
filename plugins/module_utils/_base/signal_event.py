# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An event that a signal handler may set.

Python calls a signal handler between two instructions of the main thread, also between two of another handler.
``threading.Event.set`` holds a lock that is not reentrant. A handler that interrupts it (or ``wait``) and sets the same
event waits for that lock for ever: the second of two signals that arrive together made the process deaf to both.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue


class SignalEvent:
    """An event like threading.Event, without clear(), whose set() is reentrant.

    The documentation of queue.SimpleQueue promises that its put() may interrupt a put() or get() of the same thread.
    """

    def __init__(self) -> None:
        self._set = False
        self._wake: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        """Return whether the event was set."""
        return self._set

    def set(self) -> None:
        """Set the event and wake all threads that wait for it."""
        self._set = True
        self._wake.put(None)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait at most ``timeout`` seconds (None: for ever) for the event; return whether it is set."""
        if not self._set:
            try:
                self._wake.get(timeout=timeout)
            except Empty:
                return self._set
            self._wake.put(None)  # for the next thread that waits
        return True
