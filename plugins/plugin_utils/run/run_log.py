# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A log of everything that Ansible displays, in the directory of the run.

It is a handler of the logger that Ansible uses for ``log_path``. It therefore receives everything that is displayed,
also with ``log_only``. Messages are buffered in memory until the run has a directory.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from pathlib import Path
from typing import Any, TextIO

from ansible.utils import display as displays
from ansible.utils.display import Display
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import ANSIBLE_LOG

#: Maximum number of buffered messages; the oldest are dropped.
WAITING = 10_000


class RunLog(logging.Handler):
    """Keeps messages until ``open`` names a directory, then appends them to ``ansible.log`` there."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        form = logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        form.converter = time.gmtime
        self.setFormatter(form)
        self.path: Path | None = None
        self._stream: TextIO | None = None
        self._waiting: deque[str] = deque(maxlen=WAITING)

    def open(self, directory: Path) -> None:
        """Append the buffered messages and all later ones to the log of this directory. Raises OSError."""
        path = directory / ANSIBLE_LOG
        if path == self.path:
            return
        stream = open(path, "a", encoding="utf-8", errors="backslashreplace", buffering=1)  # noqa: SIM115, kept open
        self.close()
        self.path, self._stream = path, stream
        while self._waiting:
            stream.write(self._waiting.popleft())

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message. A full disk must not end the run."""
        try:
            text = self.format(record) + "\n"
            if self._stream is None:
                self._waiting.append(text)
            else:
                self._stream.write(text)
        except (OSError, ValueError):
            pass

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        super().close()


def attach() -> RunLog:
    """Return the only log of this process; it receives everything that Ansible displays from now on."""
    logger = logging.getLogger("ansible")
    found = next((one for one in logger.handlers if isinstance(one, RunLog)), None)
    if found is None:
        found = RunLog()
        logger.addHandler(found)
    if logger.getEffectiveLevel() > logging.INFO:
        logger.setLevel(logging.INFO)
    if displays.logger is None:  # no log_path is set
        displays.logger = logger
    return found


class LogOnly:
    """A Display whose banners, results and errors go only to the log; warnings still reach the screen."""

    banner = Display.banner
    _error = Display._error

    def __init__(self, screen: Display) -> None:
        self._screen = screen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._screen, name)

    def display(self, msg: str, color: str | None = None, screen_only: bool = False, **more: Any) -> None:
        """Write ``msg`` to the log, unless it is for the screen only."""
        if not screen_only:
            self._screen.display(msg, color=color, log_only=True, caplevel=more.get("caplevel"))
