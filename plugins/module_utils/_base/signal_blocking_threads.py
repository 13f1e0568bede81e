# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Threads that leave signals to the main thread, which alone runs Python's signal handlers.

The kernel delivers a signal of the process to any thread that does not block it. Delivered to another thread, it does
not wake the main thread, which stays in its system call: Ctrl-C seems lost. So every thread that we start blocks the
signals that end us, from its first instruction on, because it inherits the signal mask of the thread that starts it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

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


class Thread(threading.Thread):
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
