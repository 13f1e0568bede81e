# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running an installer: in the foreground with a timeout, or in the background, found again by a later process.

Every process started here carries SEATRIAL_INSTALL, the folder of its cluster, in its environment, as do its children.
By it any later process of this machine finds and ends them.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError, WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.processes import ProcessReference

MARK = "SEATRIAL_INSTALL"
LOG = "output.log"
PAUSE = 0.2
#: Seconds between SIGTERM and SIGKILL for a program that is ended with us.
GRACE = 5.0
#: How often stop() looks for processes that others have started meanwhile.
ROUNDS = 3

#: Runs a program and records its exit code.
_KEEPER = """
import json, os, subprocess, sys
code = subprocess.call(sys.argv[2:], stdin=subprocess.DEVNULL)
part = sys.argv[1] + ".part"
with open(part, "w") as stream:
    json.dump({"code": code}, stream)
os.rename(part, sys.argv[1])
"""


def find_processes_of_folder(folder: Path) -> list[int]:
    """Return the living processes that were started for this folder, except ourselves."""
    return list(processes.find_by_environment_variable(MARK, str(folder)))


def stop_processes_of_folder(folder: Path, grace: float = 10.0) -> list[int]:
    """End the processes started for this folder: SIGINT, on which an installer cleans up, then SIGKILL.

    grace: seconds between the two. Returns the pids. Raises ProcessError.
    """
    pids: list[int] = []
    for _round in range(ROUNDS):
        if not (running := find_processes_of_folder(folder)):
            return pids
        pids += running
        processes.terminate_processes([ProcessReference.of(pid) for pid in running], grace, first=signal.SIGINT)
    raise ProcessError(f"the processes {find_processes_of_folder(folder)} of {folder} can't be ended")


def start_logged_program(
    command: list[str], folder: Path, environment: Mapping[str, str], log: str = LOG
) -> subprocess.Popen[bytes]:
    """Start a program for ``folder``, its output appended to the file ``log`` there. Raises ProcessError."""
    try:
        return processes.start_in_new_session(
            command, folder, environment_for_folder(folder, environment), folder / log
        )
    except OSError as error:
        raise ProcessError(f"{command[0]} can't be started: {error.strerror}") from error


def start_detached_program(command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    """Start a program that outlives us; its output is appended to output.log, its exit code written to exit.json."""
    (folder / "exit.json").unlink(missing_ok=True)
    start_logged_program([sys.executable, "-c", _KEEPER, str(folder / "exit.json"), *command], folder, environment)


def await_end(folder: Path, timeout: float, what: str, follow: Callable[[], None]) -> int:
    """Wait up to ``timeout`` seconds for the program of begin(); return its exit code. follow: called meanwhile.

    Raises WaitTimeout, and ProcessError if it was killed.
    """
    deadline = time.monotonic() + timeout
    while not (folder / "exit.json").exists():
        follow()
        if not find_processes_of_folder(folder) and not (folder / "exit.json").exists():
            raise ProcessError(f"{what} is not running any more and left no exit code")
        if time.monotonic() > deadline:
            raise WaitTimeout(f"{what} has not ended after {timeout:g} s")
        time.sleep(PAUSE)
    follow()
    return int(files.read_json(folder / "exit.json")["code"])


def run(
    command: list[str],
    folder: Path,
    environment: Mapping[str, str],
    timeout: float,
    follow: Callable[[], None] = lambda: None,
) -> int:
    """Run a program to its end; return its exit code. follow: called meanwhile.

    The program is ended after ``timeout`` seconds (WaitTimeout) and when we are ended. Raises ProcessError if it can't
    be started.
    """
    child = start_logged_program(command, folder, environment)
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
            # It leads the group of all that it has started.
            group = [
                ProcessReference.of(pid)
                for pid in processes.list_pids()
                if processes.process_group_of(pid) == child.pid
            ]
            processes.terminate_processes(group, GRACE)
    follow()
    return child.returncode


@contextlib.contextmanager
def _ended_with_us() -> Iterator[None]:
    """Turn SIGTERM into SystemExit in the body, so that its ``finally`` ends the program."""

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


def environment_for_folder(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program that is started for ``folder``."""
    return {**processes.environment_without_ansible(), **more, MARK: str(folder)}
