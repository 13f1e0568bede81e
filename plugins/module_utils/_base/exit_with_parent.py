# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exit when the parent process dies, even if it could not signal us.

Ansible's worker passes Ctrl-C on to the module that it runs. A worker that is killed passes nothing on, and its module
would continue to create objects or lease machines for a run that has ended. Therefore the module checks its parent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .signal_blocking_threads import Thread

#: Interval between two checks, seconds.
INTERVAL = 1.0


@contextmanager
def ended_with_parent(interval: float = INTERVAL) -> Iterator[None]:
    """Send SIGTERM to this process if its parent or its process group leader dies while the body runs.

    Ansible makes each of its workers the leader of a group. Where we lead our own group, only the parent counts.
    """
    parent, leader = os.getppid(), os.getpgrp()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(interval):
            if os.getppid() != parent or not lives(leader):
                os.kill(os.getpid(), signal.SIGTERM)
                return

    watcher = Thread(target=watch, name="caller", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        with contextlib.suppress(RuntimeError):
            watcher.join()


def lives(pid: int) -> bool:
    """Return whether a process with this id exists, of any owner."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
