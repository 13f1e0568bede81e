# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines that tell what a long call is doing; an action built on plugin_utils/progress_action.py shows them."""

from __future__ import annotations

import os
import time

from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step

#: Seconds between two lines: at least, when something changed, and at most, when nothing did.
SOON = 1.0
LATEST = 10.0


class Progress:
    """Appends lines to ``path`` (None: nowhere), and the rarer of them to the step's log."""

    def __init__(self, path: str | None, step: Step | None = None) -> None:
        self._path = path
        self._step = step
        self._last = ""
        self._shown = float("-inf")
        self._logged = float("-inf")

    def say(self, line: str) -> None:
        """Show ``line`` now, and log it."""
        self._show(line)
        self._log(line)

    def update(self, state: str, line: str) -> bool:
        """Show ``line`` if ``state`` changed and a second has passed, or if ten have; return whether it was shown."""
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
        # One write: whoever follows the file never sees half a line of ours mixed with another's.
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line.encode() + b"\n")
        finally:
            os.close(handle)

    def _log(self, line: str) -> None:
        self._logged = time.monotonic()
        if self._step is not None:
            self._step.log(line)
