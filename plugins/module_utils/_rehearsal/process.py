# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of an instance: started, found again, and never mistaken for somebody else's.

A process is ours when its environment carries our instance's folder and its executable is the one that we started;
a record in the instance's folder adds its pid and start time, so that a pid that was used again is noticed. The
record is written before the process exists. Whatever is killed at whatever moment, ``running`` finds all of them.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._clock import boot_id
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import DataError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._step import stamp

#: In the environment of every process that we start: folder of the instance, name, path of the program.
INSTANCE, NAME, PROGRAM = "SEATRIAL_INSTANCE", "SEATRIAL_PROCESS", "SEATRIAL_PROGRAM"

PROC = Path("/proc")


@dataclass(frozen=True)
class Record:
    """What is known of a process. ``pid`` and ``ticks`` (start time since boot) are 0 before it exists."""

    name: str
    program: str
    recipe: str
    pid: int = 0
    ticks: int = 0
    boot: str = ""
    started: str = ""


@dataclass(frozen=True)
class Found:
    """A living process of ours."""

    name: str
    pid: int
    ticks: int
    program: str


def ticks_of(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None when there is no such process or it is a zombie.

    Field 22 of /proc/<pid>/stat (proc(5)); the name in field 2 may hold blanks and parentheses.
    """
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


def began(pid: int) -> float:
    """Return when a process started, in seconds since boot."""
    return (ticks_of(pid) or 0) / os.sysconf("SC_CLK_TCK")


def program_of(pid: int) -> str | None:
    """Return the executable of a process; None when it is gone or not ours to see."""
    try:
        # A program that was replaced on disk while it runs reads as "path (deleted)".
        return os.readlink(PROC / str(pid) / "exe").removesuffix(" (deleted)")
    except OSError:
        return None


def environment_of(pid: int) -> dict[str, str]:
    """Return the environment with which a process was started; empty when it is gone or not ours to see."""
    try:
        raw = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (one.decode("utf-8", "replace").partition("=") for one in raw.split(b"\0") if b"=" in one)
    return {key: value for key, _equals, value in pairs}


def memory_of(pid: int) -> int:
    """Return the resident memory of a process in bytes, 0 when it is gone."""
    try:
        pages = int((PROC / str(pid) / "statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def identify(pid: int, instance: Path) -> Found | None:
    """Return the process ``pid`` if it is one that was started for ``instance``, else None."""
    ticks = ticks_of(pid)
    program = program_of(pid)
    if ticks is None or program is None:
        return None
    environment = environment_of(pid)
    if environment.get(INSTANCE) != str(instance) or not environment.get(NAME):
        return None
    # A child that inherited our environment, such as a user's shell, runs another program.
    if os.path.realpath(environment.get(PROGRAM, "")) != os.path.realpath(program):
        return None
    return Found(environment[NAME], pid, ticks, program)


def running(instance: Path) -> list[Found]:
    """Return all living processes of ``instance``, found by looking at every process of the machine (milliseconds)."""
    pids = [int(one.name) for one in PROC.iterdir() if one.name.isdigit()]
    found = (identify(pid, instance) for pid in pids)
    return sorted((one for one in found if one is not None), key=lambda one: one.ticks)


def read_record(folder: Path, name: str) -> Record | None:
    """Return the record of a process, None when there is none that can be read."""
    try:
        return Record(**_files.read_json(folder / f"{name}.json"))
    except (DataError, TypeError):
        return None


def is_recorded(found: Found, record: Record | None) -> bool:
    """Tell whether ``record`` speaks of exactly this process, not of an earlier one with the same pid."""
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
    """Start a process in a session of its own, its output appended to ``log``.

    Raises ProcessError when the program can't be started.
    """
    program = command[0]
    intent = Record(name, program, recipe)
    _files.write_json(records / f"{name}.json", asdict(intent))
    inherited = {key: value for key, value in os.environ.items() if key in ("PATH", "TMPDIR", "TZ", "LANG")}
    # HOME is the instance: KWOK and kubectl would read settings of the user's otherwise.
    marked = {**inherited, "HOME": str(instance), **environment}
    marked.update({INSTANCE: str(instance), NAME: name, PROGRAM: program})
    with open(log, "ab") as stream:
        stream.write(f"--- {stamp()} {' '.join(command)}\n".encode())
        stream.flush()
        try:
            child = subprocess.Popen(
                command,
                env=marked,
                cwd=instance,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        except OSError as error:
            raise ProcessError(f"{name}: {program} can't be started: {error.strerror}") from error
    known = Record(name, program, recipe, child.pid, ticks_of(child.pid) or 0, boot_id(), stamp())
    _files.write_json(records / f"{name}.json", asdict(known))
    return child


class _Handle:
    """A grip on one process that can't slip to another one with the same pid (pidfd_open(2) where it exists)."""

    def __init__(self, found: Found, instance: Path) -> None:
        self.found = found
        self.instance = instance
        try:
            self.descriptor: int | None = os.pidfd_open(found.pid)
        except (OSError, AttributeError):
            self.descriptor = None
        # Looked at again once we hold it: from here on it is this process or none.
        self.alive = identify(found.pid, instance) == found

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it is still the same process."""
        if not self.is_alive():
            return
        try:
            if self.descriptor is not None:
                signal.pidfd_send_signal(self.descriptor, number)
            else:
                os.kill(self.found.pid, number)
        except ProcessLookupError:
            self.alive = False

    def is_alive(self) -> bool:
        """Tell whether it still runs."""
        if self.alive:
            # A child of ours that has ended stays a zombie until it is waited for.
            _reap(self.found.pid)
            self.alive = ticks_of(self.found.pid) == self.found.ticks
        return self.alive

    def close(self) -> None:
        """Let go."""
        if self.descriptor is not None:
            os.close(self.descriptor)


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def stop(instance: Path, wanted: Iterable[Found], grace: float) -> None:
    """End processes: TERM to all, up to ``grace`` seconds to go, KILL to who is left.

    Raises ProcessError naming those that survive even that.
    """
    handles = [_Handle(one, instance) for one in wanted]
    try:
        for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 10.0)):
            for one in handles:
                one.send(number)
            _await_end(handles, patience)
        left = [f"{one.found.name} (pid {one.found.pid})" for one in handles if one.is_alive()]
        if left:
            raise ProcessError(f"{instance}: still running 10 s after SIGKILL: {', '.join(left)}")
    finally:
        for one in handles:
            one.close()


def _await_end(handles: list[_Handle], patience: float) -> None:
    deadline = time.monotonic() + patience
    while (living := [one for one in handles if one.is_alive()]) and (left := deadline - time.monotonic()) > 0:
        descriptors = [one.descriptor for one in living if one.descriptor is not None]
        if len(descriptors) == len(living):
            # A pidfd becomes readable when its process ends.
            poll = select.poll()
            for descriptor in descriptors:
                poll.register(descriptor, select.POLLIN)
            poll.poll(min(left, 1.0) * 1000)
        else:
            time.sleep(min(left, 0.05))


def tail(log: Path, lines: int = 12) -> str:
    """Return the last lines of a log, indented, for an error message."""
    try:
        with open(log, "rb") as stream:
            stream.seek(max(0, log.stat().st_size - 16384))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return "    (no log)"
    return "\n".join(f"    {one[:400]}" for one in text.splitlines()[-lines:]) or "    (empty log)"


def summary(found: Found, record: Record | None) -> dict[str, Any]:
    """Return what ``info`` says about a process."""
    known = record if is_recorded(found, record) else None
    return {
        "name": found.name,
        "pid": found.pid,
        "program": found.program,
        "started": known.started if known else "",
        "memory_mib": round(memory_of(found.pid) / 2**20),
    }
