# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signals that end us: which thread receives them, how they are recorded, and how we end with our parent.

The kernel delivers a signal of the process to any thread that does not block it. Delivered to another thread, it does
not wake the main thread, which alone runs Python's signal handlers and stays in its system call: Ctrl-C seems lost. So
every thread that we start blocks the signals that end us, from its first instruction on, because it inherits the signal
mask of the thread that starts it.

Python calls a signal handler between two instructions of the main thread, also between two of another handler. So a
handler may only use what is reentrant, such as SignalEvent.

Ansible's worker passes Ctrl-C on to the module that it runs. A worker that is killed passes nothing on, and its module
would continue to create objects or lease machines for a run that has ended. Therefore a module checks its parent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from queue import Empty, SimpleQueue
from typing import Any

from .errors import SeatrialError

#: The signals by which a terminal, a CI system or Ansible ends us.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Block the signals that end us in this thread while the body runs; threads started in it keep them blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def unblock_signals() -> None:
    """Unblock the signals that end us.

    The ``preexec_fn`` of each program that a thread of ours starts: otherwise it would inherit the thread's mask, and
    only SIGKILL could end it.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


class SignalBlockingThread(threading.Thread):
    """A thread that blocks the signals that end us."""

    def start(self) -> None:
        """Start the thread."""
        with signals_blocked():
            super().start()


class ThreadPool(ThreadPoolExecutor):
    """A pool of threads that block the signals that end us."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call ``fn`` on a thread of the pool, starting one if necessary."""
        with signals_blocked():
            return super().submit(fn, *args, **kwargs)


class ProcessPool(ProcessPoolExecutor):
    """A pool of forked processes that receive signals; the threads that serve it here block them."""

    def __init__(self, workers: int) -> None:
        """``workers``: number of processes."""
        super().__init__(workers, mp_context=get_context("fork"), initializer=unblock_signals)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call ``fn`` in a process of the pool; the first call starts all of them."""
        with signals_blocked():
            return super().submit(fn, *args, **kwargs)


class SignalEvent:
    """An event like threading.Event, without clear(), whose set() is reentrant.

    ``threading.Event.set`` holds a lock that is not reentrant. A handler that interrupts it (or ``wait``) and sets the
    same event waits for that lock for ever: the second of two signals that arrive together made the process deaf to
    both.
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
def record_termination_signals(guard: Callable[[], str] | None = None) -> Iterator[Interrupt]:
    """Record SIGINT, SIGTERM and SIGHUP while the body runs. For the main thread."""
    interrupt = Interrupt(guard)
    before = {number: signal.signal(number, interrupt.note) for number in ENDING}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


#: Interval between two checks, seconds.
INTERVAL = 1.0


@contextmanager
def exit_with_parent(interval: float = INTERVAL) -> Iterator[None]:
    """Send SIGTERM to this process if its parent or its process group leader dies while the body runs.

    Ansible makes each of its workers the leader of a group. Where we lead our own group, only the parent counts.
    """
    parent, leader = os.getppid(), os.getpgrp()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(interval):
            if os.getppid() != parent or not does_process_exist(leader):
                os.kill(os.getpid(), signal.SIGTERM)
                return

    watcher = SignalBlockingThread(target=watch, name="caller", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        with contextlib.suppress(RuntimeError):
            watcher.join()


def does_process_exist(pid: int) -> bool:
    """Return whether a process with this id exists, of any owner."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
