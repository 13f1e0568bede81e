# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a terminal and ``ansible.log`` show: the log of everything, results of tasks as text, a reader that went away.

``RunLog`` is a handler of the logger that Ansible uses for ``log_path``. It therefore receives everything that is
displayed, also with ``log_only``. Messages are buffered in memory until the run has a directory.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from ansible import constants
from ansible.utils import display as displays
from ansible.utils.display import Display
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import ANSIBLE_LOG
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import escape_control_characters

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
            text = escape_control_characters(self.format(record)) + "\n"
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


def attach_log_to_display() -> RunLog:
    """Return the only log of this process; it receives everything that Ansible displays from now on."""
    logger = logging.getLogger("ansible")
    run_log = next((handler for handler in logger.handlers if isinstance(handler, RunLog)), None)
    if run_log is None:
        run_log = RunLog()
        logger.addHandler(run_log)
    if logger.getEffectiveLevel() > logging.INFO:
        logger.setLevel(logging.INFO)
    if displays.logger is None:  # no log_path is set
        displays.logger = logger
    displays.color_to_log_level.setdefault(constants.COLOR_HIGHLIGHT, logging.INFO)  # missing in ansible-core 2.16
    return run_log


def show_line(text: str, **more: Any) -> None:
    """Display a line, in which no character controls the terminal: it may quote a server or a run directory."""
    Display().display(escape_control_characters(text), **more)


def show_warning(text: str) -> None:
    """Display a warning as show_line() does a line."""
    Display().warning(escape_control_characters(text))


class LogOnly:
    """A Display whose banners, results and errors go only to the log; warnings still reach the screen."""

    banner = Display.banner
    _error = getattr(Display, "_error", None)  # only ansible-core 2.19 and newer has it, and shows failures with it

    def __init__(self, screen: Display) -> None:
        self._screen = screen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._screen, name)

    def display(self, msg: str, color: str | None = None, screen_only: bool = False, **more: Any) -> None:
        """Write ``msg`` to the log, unless it is for the screen only."""
        if not screen_only:
            kept = {name: more[name] for name in ("caplevel",) if name in more}  # ansible-core 2.16 does not know it
            self._screen.display(msg, color=color, log_only=True, **kept)


#: Maximum number of lines of a program's output that are shown with its failure.
MOST = 20


def output_of_debug_task(result: Mapping[str, Any]) -> list[str]:
    """Return the output of a debug task: the lines of its message, or the variable with its value."""
    if "msg" in result:
        message = result["msg"]
        return [
            line
            for entry in (message if isinstance(message, list) else [message])
            for line in _split_value_lines(entry)
        ]
    shown = {name: value for name, value in result.items() if name not in ("changed", "failed") and name[0] != "_"}
    return [f"{name}: {_text_or_json(value)}" for name, value in shown.items()]


def task_failure_message(result: Mapping[str, Any], origin: str = "") -> list[str]:
    """Return why a task failed: its message, or that of each failed item, and the end of what a program printed."""
    items = [item for item in result.get("results") or () if isinstance(item, Mapping) and item.get("failed")]
    if items:
        return [line for item in items for line in _item_failure_lines(item)]
    return [*_failure_message_lines(result), *_split_value_lines(origin.strip())]


def _item_failure_lines(item: Mapping[str, Any]) -> list[str]:
    label = _text_or_json(item.get("_ansible_item_label", item.get("item", "")))
    first, *rest = _failure_message_lines(item)
    return [f"{label}: {first}", *rest]


def _failure_message_lines(result: Mapping[str, Any]) -> list[str]:
    streams = ("module_stderr", "stderr", "module_stdout", "stdout")
    printed = next((result[name] for name in streams if result.get(name)), "")
    message = _text_or_json(result.get("msg") or "no message").removeprefix("Task failed: ")
    return [*_split_value_lines(message), *_split_value_lines(printed)[-MOST:]]


def _split_value_lines(value: Any) -> list[str]:
    return [line.rstrip() for line in _text_or_json(value).splitlines()] if value not in (None, "") else []


def _text_or_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def ignore_closed_output(display: Any) -> None:
    """Make ``display``, Ansible's, discard what follows once stdout or stderr takes no more output.

    The reader or the terminal is gone, or the disk is full. Ansible's thread of results ends at an OSError, and then
    the play waits for results for ever.
    """
    show = display.display

    @functools.wraps(show)
    def guarded(*args: Any, **more: Any) -> None:
        stream = sys.stderr if more.get("stderr") else sys.stdout
        try:
            show(*args, **more)
            stream.flush()
        except OSError:
            _redirect_to_devnull(2 if more.get("stderr") else 1)

    display.display = guarded


def _redirect_to_devnull(descriptor: int) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)


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
