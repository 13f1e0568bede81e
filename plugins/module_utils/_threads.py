# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Threads that leave the signals to the main thread, which alone runs Python's signal handlers.

The kernel gives a signal for the process to any thread that does not block it. Taken by another thread, it does not
wake the main thread, which goes on sleeping in its system call: Ctrl-C seems lost. So every thread that we start blocks
the signals that end us, from its first instruction on, as it inherits the mask under which it is started.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

#: What a terminal, a CI system or Ansible ends us with.
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

    As ``preexec_fn`` of each program that is started from a thread of ours: it would inherit the thread's mask, and
    could be ended by nothing but SIGKILL.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


class Thread(threading.Thread):
    """A thread that takes no signals."""

    def start(self) -> None:
        """Start it."""
        with signals_blocked():
            super().start()


class ThreadPool(ThreadPoolExecutor):
    """A pool of threads that take no signals."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have ``fn`` called on a thread of the pool, which may be started for it."""
        with signals_blocked():
            return super().submit(fn, *args, **kwargs)


class ProcessPool(ProcessPoolExecutor):
    """A pool of forked processes that take signals; the threads here that serve it take none."""

    def __init__(self, workers: int) -> None:
        """``workers``: how many processes."""
        super().__init__(workers, mp_context=get_context("fork"), initializer=unblock_signals)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have ``fn`` called in a process of the pool; the first call starts them all."""
        with signals_blocked():
            return super().submit(fn, *args, **kwargs)
