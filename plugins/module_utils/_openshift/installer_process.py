# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running an installer: waited for with a deadline, or begun and found again by whoever comes later.

Every process that is started here carries SEATRIAL_INSTALL, the folder of its cluster, in its environment, as do its
children. By that they are found and ended, from any later process of this machine.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files, _processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import ProcessError, WaitTimeout

MARK = "SEATRIAL_INSTALL"
PAUSE = 0.2
#: Looks in a row that may find no process of a program before it counts as gone.
UNSEEN = 2

#: Keeps the exit code of a program that nobody waits for.
_KEEPER = """
import json, os, subprocess, sys
code = subprocess.call(sys.argv[2:], stdin=subprocess.DEVNULL)
part = sys.argv[1] + ".part"
with open(part, "w") as stream:
    json.dump({"code": code}, stream)
os.rename(part, sys.argv[1])
"""


def marked(folder: Path) -> list[int]:
    """Return the living processes that were started for this folder, except ourselves."""
    return [pid for pid in _processes.pids() if pid != os.getpid() and _is_marked(pid, folder)]


def _is_marked(pid: int, folder: Path) -> bool:
    return _processes.ticks_of(pid) is not None and _processes.environment_of(pid).get(MARK) == str(folder)


def stop(folder: Path, grace: float = 10.0) -> list[int]:
    """End what was started for this folder: SIGINT, on which an installer tidies up, then SIGKILL. Return the pids."""
    pids = marked(folder)
    for number, patience in ((signal.SIGINT, grace), (signal.SIGKILL, 5.0)):
        left = marked(folder)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        end = time.monotonic() + patience
        while left and time.monotonic() < end:
            time.sleep(PAUSE)
            left = marked(folder)
        if not left:
            return pids
    raise ProcessError(f"the processes {marked(folder)} of {folder} can't be ended")


def begin(command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    """Start a program that goes on without us; its output is appended to output.log, its end to exit.json."""
    (folder / "exit.json").unlink(missing_ok=True)
    keeper = [sys.executable, "-c", _KEEPER, str(folder / "exit.json"), *command]
    with open(folder / "output.log", "ab") as stream:
        try:
            subprocess.Popen(
                keeper,
                env=environment_for(folder, environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        except OSError as error:
            raise ProcessError(f"{command[0]} can't be started: {error.strerror}") from error


def await_end(folder: Path, timeout: float, what: str, follow: Callable[[], None]) -> int:
    """Wait for a program that begin() has started; return its exit code. follow: called while it runs.

    Raises WaitTimeout, and ProcessError when it was killed.
    """
    deadline = time.monotonic() + timeout
    unseen = 0
    while not (folder / "exit.json").exists():
        follow()
        # In the middle of its start (execve(2)) a process has no environment to be known by.
        unseen = 0 if marked(folder) else unseen + 1
        if unseen > UNSEEN and not (folder / "exit.json").exists():
            raise ProcessError(f"{what} is not running any more and did not end by itself")
        if time.monotonic() > deadline:
            raise WaitTimeout(f"{what} has not ended after {timeout:g} s")
        time.sleep(PAUSE)
    follow()
    return int(_files.read_json(folder / "exit.json")["code"])


def run(
    command: list[str],
    folder: Path,
    environment: Mapping[str, str],
    timeout: float,
    follow: Callable[[], None] = lambda: None,
) -> int:
    """Run a program to its end, or end it when time is over or we are; return its exit code."""
    with open(folder / "output.log", "ab") as stream:
        try:
            child = subprocess.Popen(
                command,
                env=environment_for(folder, environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        except OSError as error:
            raise ProcessError(f"{command[0]} can't be started: {error.strerror}") from error
    deadline = time.monotonic() + timeout
    try:
        with _ended_with_us():
            while child.poll() is None:
                follow()
                if time.monotonic() > deadline:
                    words = " ".join(command[1:4])
                    raise WaitTimeout(f"{Path(command[0]).name} {words} has not ended after {timeout:g} s")
                time.sleep(PAUSE)
    finally:
        if child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(5)
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    follow()
    return child.returncode


@contextlib.contextmanager
def _ended_with_us() -> Iterator[None]:
    """Let SIGTERM unwind the body, so that the program is ended too."""

    def end(_number: int, _frame: object) -> None:
        raise SystemExit(143)

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def environment_for(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program that is started for ``folder``."""
    return {**_processes.environment(), **more, MARK: str(folder)}
