# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An action that runs a module, shows its progress, and ends it when the task ends.

The module appends lines to its ``progress_file``. The action prints them at once, to a terminal, a pipe and Ansible's
log alike. If the task ends before the module does (Ctrl-C, ``timeout:``, the main process was killed), the module gets
SIGTERM, upon which it writes its results so far and exits.
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
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import Thread

from .in_place_module import InPlaceAction

#: Seconds between two reads of the file; a line is shown at most this long after it was written.
INTERVAL = 0.2


class ProgressAction(InPlaceAction):
    """Base of ``ActionModule``; override ``prepare`` to change the module's arguments beforehand."""

    PROGRESS = True
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
    """Yield the progress file, empty; for a module on another machine that of the arguments, if any."""
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
    """Show each complete line appended to ``path`` while the body runs; end our process group if the body raises."""
    over = threading.Event()
    follower = Thread(target=_follow, args=(path, show, over), daemon=True)
    follower.start()
    try:
        yield
    except BaseException:
        # Ctrl-C or the task's timeout reached only this process: pass it on to the module.
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
            # The main process has exited: only this thread can end the module now.
            end_group()
            return
        for line in tail.lines():
            show(line)
    for line in tail.lines():
        show(line)


class ProgressTail:
    """Reads the complete lines that were appended to a file since the last read. A missing file counts as empty."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._offset = 0

    def lines(self) -> list[str]:
        """Return the new lines without line ends; an incomplete line is left for the next call."""
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
    """Send SIGTERM to the other processes of our group: the module and its children.

    Each of Ansible's workers leads a process group. A process that does not lead its group sends nothing.
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
