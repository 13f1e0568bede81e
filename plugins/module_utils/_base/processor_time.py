# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A limit of processor time for templates, and what regular expressions of the user do with texts of others."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import InputError

#: Why a regular expression takes long.
HINT = "; a repeat in a repeat, as in (a+)+, takes for ever"


@contextmanager
def limit_processor_time(seconds: float, what: str, hint: str = HINT) -> Iterator[None]:
    """Raise InputError in a block that has used ``seconds`` of the process's processor time.

    what: begin of the sentence that says what took too long. hint: its end. Only the main thread of a process can be
    interrupted, and elsewhere the block has no limit. Python's regular expressions look for signals while they search.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: object) -> None:
        raise InputError(f"{what} took more than {seconds:g} s of processor time{hint}")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
