# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The numbered directory of a role call: log, timings, manifests; and the progress lines of a long call.

An action based on plugin_utils/actions/module_actions.py shows the progress lines.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import files
from .untrusted_input import escape_control_characters

#: Copy of Ansible's output in the run directory; plugin_utils/run/terminal_output.py writes it.
ANSIBLE_LOG = "ansible.log"
#: What modules write into the directory of a role call, also on another machine.
LOG, TIMING = STEP_FILES = "log", "timing.json"


def format_utc_timestamp(moment: float | None = None) -> str:
    """Format a moment (seconds since the epoch; now if None) in UTC: 2026-11-21T04:41:18.123Z."""
    at = datetime.now(UTC) if moment is None else datetime.fromtimestamp(moment, UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


class StepDirectory:
    """The directory NNN__role__entry of one role call; without a path (a module outside of a run) it does nothing.

    Nothing is raised if the disk is full: the call matters more than what is recorded of it.
    """

    def __init__(self, path: str | None) -> None:
        self.path = Path(path) if path else None

    def log(self, text: str) -> None:
        """Append a line to ``log``."""
        if self.path is not None:
            with suppress(OSError), open(self.path / LOG, "a", encoding="utf-8") as stream:
                stream.write(f"{format_utc_timestamp()} {escape_control_characters(text)}\n")

    def reporter(self, progress_file: str | None, who: str) -> Callable[[str], None]:
        """Return a function that logs a line and appends it to the file that the action plugin follows."""

        def say(text: str) -> None:
            self.log(text)
            if progress_file:
                # After Ctrl-C the directory of the file is deleted while a module may still release resources.
                with suppress(OSError), open(progress_file, "a", encoding="utf-8") as stream:
                    stream.write(escape_control_characters(f"{who}: {text}\n"))

        return say

    def timing(self, category: str, seconds: float, what: str = "") -> None:
        """Record ``seconds`` spent in ``category``: cluster, load, wait, cleanup, results, logs or other."""
        if self.path is not None:
            record: dict[str, Any] = {"category": category, "seconds": round(max(seconds, 0.0), 3)}
            if what:
                record["what"] = what
            with suppress(OSError), open(self.path / TIMING, "ab") as stream:
                stream.write(files.encode_json_line(record, "timing/1"))

    @contextmanager
    def timed(self, category: str, what: str = "") -> Iterator[None]:
        """Record the duration of the body in ``category``, also if it fails."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.timing(category, time.monotonic() - began, what)

    def manifest(self, name: str, objects: list[dict[str, Any]]) -> None:
        """Save applied objects as src/<name>.yml."""
        if self.path is not None:
            import yaml

            source = self.path / "src"
            text = yaml.safe_dump_all([files.to_plain_types(manifest) for manifest in objects], sort_keys=False)
            with suppress(OSError):
                source.mkdir(exist_ok=True)
                files.replace_text(source / f"{name}.yml", "---\n" + text)


def log_summary_and_warnings(
    step: StepDirectory, warn: Callable[[str], None], result: dict[str, Any]
) -> dict[str, Any]:
    """Log the summary and the warnings, show warnings with ``warn``, and return the result without them."""
    step.log(result["summary"])
    for warning in result.pop("warnings"):
        step.log(f"warning: {warning}")
        warn(escape_control_characters(warning))
    return result


#: Minimum interval between two lines after a change, and maximum interval without one, seconds.
SOON = 1.0
LATEST = 10.0


class ProgressLog:
    """Appends lines to ``path`` (None: nowhere), and fewer of them to the log of the step."""

    def __init__(self, path: str | None, step: StepDirectory | None = None) -> None:
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
        with suppress(OSError):
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, escape_control_characters(line).encode() + b"\n")
            finally:
                os.close(handle)

    def _log(self, line: str) -> None:
        self._logged = time.monotonic()
        if self._step is not None:
            self._step.log(line)
