# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of an instance: started, found again, never confused with others.

A process belongs to an instance if its environment names the instance's folder and its executable is the one that was
started. A record in that folder adds pid and start time, which reveal a reused pid. The record is written before the
process exists. Whatever is killed at whatever moment, ``running`` finds all processes.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.clock import boot_id
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.processes import Process
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import stamp

#: In the environment of every process that we start: folder of the instance, name, path of the program.
INSTANCE, NAME, PROGRAM = "SEATRIAL_INSTANCE", "SEATRIAL_PROCESS", "SEATRIAL_PROGRAM"

#: Variables inherited from our environment. By the last one a test run finds the processes that it started.
INHERITED = ("PATH", "TMPDIR", "TZ", "LANG", "SEATRIAL_STARTED_BY")


@dataclass(frozen=True)
class ProcessRecord:
    """The record of a process. ``pid`` and ``ticks`` (start, in clock ticks since boot) are 0 before it exists."""

    name: str
    program: str
    recipe: str
    pid: int = 0
    ticks: int = 0
    boot: str = ""
    started: str = ""


@dataclass(frozen=True)
class RunningProcess:
    """A running process of an instance."""

    name: str
    pid: int
    ticks: int
    program: str


def identify(pid: int, instance: Path) -> RunningProcess | None:
    """Return the process ``pid`` if it was started for ``instance``, else None."""
    environment = processes.environment_of(pid)
    return _component(pid, environment) if environment.get(INSTANCE) == str(instance) else None


def _component(pid: int, environment: Mapping[str, str]) -> RunningProcess | None:
    ticks = processes.ticks_of(pid)
    program = processes.program_of(pid)
    if ticks is None or program is None or not environment.get(NAME):
        return None
    # A child that inherited our environment, such as a user's shell, runs another program.
    if os.path.realpath(environment.get(PROGRAM, "")) != os.path.realpath(program):
        return None
    return RunningProcess(environment[NAME], pid, ticks, program)


def running(instance: Path) -> list[RunningProcess]:
    """Return all living processes of ``instance``, found among all processes of the machine, oldest first."""
    found = (_component(pid, environment) for pid, environment in processes.marked(INSTANCE, str(instance)).items())
    return sorted((one for one in found if one is not None), key=lambda one: one.ticks)


def read_record(folder: Path, name: str) -> ProcessRecord | None:
    """Return the record of a process, None if there is none that can be read."""
    try:
        return ProcessRecord(**files.read_json(folder / f"{name}.json"))
    except (DataError, TypeError):
        return None


def is_recorded(found: RunningProcess, record: ProcessRecord | None) -> bool:
    """Return whether ``record`` is of exactly this process, not of an earlier one with the same pid."""
    return record is not None and (record.pid, record.ticks, record.boot) == (found.pid, found.ticks, boot_id())


def start(
    instance: Path,
    records: Path,
    name: str,
    command: list[str],
    environment: dict[str, str],
    log: Path,
    recipe: str,
) -> subprocess.Popen[bytes]:
    """Start a process in a new session, its output appended to ``log``. Raises ProcessError."""
    program = command[0]
    intent = ProcessRecord(name, program, recipe)
    files.write_json(records / f"{name}.json", asdict(intent))
    inherited = {key: value for key, value in os.environ.items() if key in INHERITED}
    # HOME is the instance: otherwise KWOK and kubectl would read the user's settings.
    marked = {**inherited, "HOME": str(instance), **environment}
    marked.update({INSTANCE: str(instance), NAME: name, PROGRAM: program})
    try:
        child = processes.started(command, instance, marked, log, f"--- {stamp()} {' '.join(command)}\n")
    except OSError as error:
        raise ProcessError(f"{name}: {program} can't be started: {error.strerror}") from error
    known = ProcessRecord(name, program, recipe, child.pid, processes.ticks_of(child.pid) or 0, boot_id(), stamp())
    files.write_json(records / f"{name}.json", asdict(known))
    return child


def stop(instance: Path, wanted: Iterable[RunningProcess], grace: float) -> None:
    """End processes of ``instance``: SIGTERM to all, after up to ``grace`` seconds SIGKILL to the rest.

    Raises ProcessError naming those that survive.
    """
    ours = {Process(one.pid, one.ticks): one for one in wanted if identify(one.pid, instance) == one}
    left = [f"{ours[one].name} (pid {one.pid})" for one in processes.end(ours, grace)]
    if left:
        raise ProcessError(f"{instance}: still running {processes.KILLED:.0f} s after SIGKILL: {', '.join(left)}")


def tail(log: Path, lines: int = 12) -> str:
    """Return the last lines of a log, indented, for an error message."""
    try:
        with open(log, "rb") as stream:
            stream.seek(max(0, log.stat().st_size - 16384))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return "    (no log)"
    return "\n".join(f"    {one[:400]}" for one in text.splitlines()[-lines:]) or "    (empty log)"


def summary(found: RunningProcess, record: ProcessRecord | None) -> dict[str, Any]:
    """Return the entry of a process in the module's result."""
    known = record if is_recorded(found, record) else None
    return {
        "name": found.name,
        "pid": found.pid,
        "program": found.program,
        "started": known.started if known else "",
        "memory_mib": round(processes.memory_of(found.pid) / 2**20),
    }
