# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An action that runs the module of its own name, shows what it says meanwhile, and never leaves it behind.

The module appends lines to its ``progress_file``; they are printed as they come, at a terminal, into a pipe and
into Ansible's log alike. When the run ends before the module does (Ctrl-C, a ``timeout:``, the main process
killed), the module gets SIGTERM, on which it writes what it knows and ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.utils.display import Display
from ansible_collections.perfscale.seatrial.plugins.module_utils._threads import Thread
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.in_place_module import InPlaceAction

#: How often (seconds) the file is looked at. A line is shown at most this much after it was written.
INTERVAL = 0.2


class ProgressAction(InPlaceAction):
    """Base of ``ActionModule``; override ``prepare`` to change the module's arguments beforehand."""

    _supports_async = False

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Run the module, show its progress, and return its result."""
        with (
            _progress_file(arguments, self._connection.transport) as path,
            following(path, lambda line: Display().display(line, stderr=True)),
        ):
            return super().execute({**arguments, "progress_file": path}, task_vars)


@contextlib.contextmanager
def _progress_file(arguments: dict[str, Any], transport: str) -> Iterator[str | None]:
    """The file that is followed: empty at the start. None where the module runs on another machine."""
    if transport != "local":
        yield arguments.get("progress_file")
        return
    given = arguments.get("progress_file")
    if given:
        Path(given).unlink(missing_ok=True)
        yield str(given)
        return
    handle, path = tempfile.mkstemp(prefix="seatrial-progress-", dir=constants.DEFAULT_LOCAL_TMP)
    os.close(handle)
    try:
        yield path
    finally:
        Path(path).unlink(missing_ok=True)


@contextlib.contextmanager
def following(path: str | None, show: Callable[[str], None]) -> Iterator[None]:
    """Show each whole line appended to ``path`` while the body runs; end our process group if it is cut short."""
    over = threading.Event()
    follower = Thread(target=_follow, args=(path, show, over), daemon=True)
    follower.start()
    try:
        yield
    except BaseException:
        # Ctrl-C or the task's timeout reached this process only: pass it on to the module.
        end_group()
        raise
    finally:
        over.set()
        follower.join(timeout=5)


def _follow(path: str | None, show: Callable[[str], None], over: threading.Event) -> None:
    parent = os.getppid()
    tail = ProgressTail(path)
    while not over.wait(INTERVAL):
        if os.getppid() != parent:
            # The main process is gone: nobody is left to show lines to, or to end the module but us.
            end_group()
            return
        for line in tail.lines():
            show(line)
    for line in tail.lines():
        show(line)


class ProgressTail:
    """Reads the whole lines that were appended to a file since the last look. A file that is not there is empty."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._offset = 0

    def lines(self) -> list[str]:
        """Return the new lines without their ends; a line that is still being written waits."""
        if self._path is None:
            return []
        try:
            with open(self._path, "rb") as stream:
                stream.seek(self._offset)
                data = stream.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.decode("utf-8", "replace").splitlines()


def end_group() -> None:
    """Send SIGTERM to the other processes of our group: the module and what it started.

    Ansible makes each of its workers the leader of a group; where that is not so, nothing is sent.
    """
    if os.getpgrp() != os.getpid():
        return
    before = None
    if threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.killpg(os.getpgrp(), signal.SIGTERM)
    if before is not None:
        signal.signal(signal.SIGTERM, before)
