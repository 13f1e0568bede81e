# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guards: small processes that end a failure when their file is removed, or the load has ended in any way."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, ProcessError

if TYPE_CHECKING:
    from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.instance_dir import (
        InstancePaths,
    )

#: Seconds until a guard has begun or ended, and that it waits longer than the load before it ends a failure.
_PATIENCE, _LONGER = 10.0, 5.0

#: How each guard begins. It acts while lasts() is true, and calls end_failure() when it has undone what it did.
_BEGIN = """
import os, signal, sys, time
load, flag, until = int(sys.argv[1]), sys.argv[2], time.monotonic() + float(sys.argv[3])
arguments = sys.argv[4:]
asked = []
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, lambda *_: asked.append(1))

def lasts():
    return not asked and os.path.exists(flag) and os.getppid() == load and time.monotonic() < until

def end_failure():
    if os.path.exists(flag):
        os.unlink(flag)
"""


def command_line_of_guard(program: str, flag: Path | str, seconds: float, arguments: Sequence[object]) -> list[str]:
    """Return the command of a guard.

    Args:
        program: Text of a Python program, after _BEGIN.
        flag: The guard acts as long as this file exists.
        seconds: For which it acts at most.
        arguments: Further arguments, ``arguments`` of the program.
    """
    return [sys.executable, "-c", _BEGIN + program, *map(str, (os.getpid(), flag, seconds, *arguments))]


def start_guard_and_await_failure(
    instance: InstancePaths,
    name: str,
    program: str,
    failure: Mapping[str, Any],
    arguments: Sequence[object],
    begun: Callable[[], bool],
) -> None:
    """Start a guard, and wait until the failure has begun.

    Args:
        instance: Cluster with the file and the log of the guard.
        name: Of the file and the log.
        program: Text of a Python program, as of command_line_of_guard().
        failure: Row ``inject``: its kind, target, and seconds until the load ends it.
        arguments: Further arguments.
        begun: Whether the failure has begun.

    Raises:
        ProcessError: The guard can't be started, or the failure has not begun in time.
    """
    flag, log = flag_file_of_guard(instance, name), instance.log_of(f"{name}-guard")
    title = f"{failure['kind']} of {failure['target']}"
    files.write_json(flag, {})
    try:
        guard = processes.start_in_new_session(
            command_line_of_guard(program, flag, failure["duration"] + _LONGER, arguments),
            instance.path,
            processes.environment_without_ansible(),
            log,
        )
    except OSError as error:
        flag.unlink(missing_ok=True)
        raise ProcessError(f"{title}: {sys.executable} can't be started: {error.strerror}") from error
    if guard.poll() is None:
        files.write_json(flag, processes.ProcessReference.of(guard.pid).record())
    deadline = time.monotonic() + _PATIENCE
    while not begun():
        ended = guard.poll() is not None
        if ended or time.monotonic() > deadline:
            flag.unlink(missing_ok=True)
            why = f"its guard has ended with exit code {guard.returncode}" if ended else f"waited {_PATIENCE:g} s"
            raise ProcessError(f"{title} has not begun: {why}; see {log}")
        time.sleep(0.01)


def end_guard(instance: InstancePaths, name: str) -> bool:
    """Have a guard end its failure, and wait for it; return False if it has ended before, as after a killed load."""
    flag = flag_file_of_guard(instance, name)
    guard = {}
    with suppress(DataError):
        guard = files.read_json(flag)
    flag.unlink(missing_ok=True)
    deadline = time.monotonic() + _PATIENCE
    while guard and processes.ProcessReference(**guard).lives() and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(guard)


def flag_file_of_guard(instance: InstancePaths, name: str) -> Path:
    """Return the file of a guard: it exists as long as the failure is to last."""
    return instance.records / f"{name}.guard"
