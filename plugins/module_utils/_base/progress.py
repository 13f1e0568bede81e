# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Progress lines of a long call, which an action based on plugin_utils/actions/progress_action.py shows."""

from __future__ import annotations

import os
import time

from .step_files import Step

#: Minimum interval between two lines after a change, and maximum interval without one, seconds.
SOON = 1.0
LATEST = 10.0


class Progress:
    """Appends lines to ``path`` (None: nowhere), and fewer of them to the log of the step."""

    def __init__(self, path: str | None, step: Step | None = None) -> None:
        self._path = path
        self._step = step
        self._last = ""
        self._shown = float("-inf")
        self._logged = float("-inf")

    def say(self, line: str) -> None:
        """Show and log ``line`` now."""
        self._show(line)
        self._log(line)

    def update(self, state: str, line: str) -> bool:
        """Show ``line`` SOON after ``state`` changed, else LATEST after the last line; return whether it was shown."""
        now = time.monotonic()
        waited = now - self._shown
        if waited < SOON or (state == self._last and waited < LATEST):
            return False
        self._last = state
        self._shown = now
        self._show(line)
        if now - self._logged >= LATEST:
            self._log(line)
        return True

    def _show(self, line: str) -> None:
        if self._path is None:
            return
        # One write, so that lines of several processes never mix.
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line.encode() + b"\n")
        finally:
            os.close(handle)

    def _log(self, line: str) -> None:
        self._logged = time.monotonic()
        if self._step is not None:
            self._step.log(line)
