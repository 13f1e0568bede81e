# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the system knows of processes (proc(5)), and ending exactly the one that was meant."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/proc")

#: Seconds that a process may take to vanish after SIGKILL.
KILLED = 10.0


def pids() -> list[int]:
    """Return the pids of all processes of this machine."""
    return [int(one.name) for one in ROOT.iterdir() if one.name.isdigit()]


def _stat(pid: int) -> list[str] | None:
    """Return /proc/<pid>/stat (proc(5)) from field 3 on; None when there is no such process or it is a zombie.

    The name in field 2 may hold blanks and parentheses.
    """
    try:
        text = (ROOT / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else fields


def ticks_of(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None when there is none or it is a zombie."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def parent_of(pid: int) -> int | None:
    """Return the parent of a process; None when there is no such process or it is a zombie."""
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def group_of(pid: int) -> int | None:
    """Return the process group of a process; None when there is no such process or it is a zombie."""
    fields = _stat(pid)
    return int(fields[2]) if fields else None


def began(pid: int) -> float:
    """Return when a process started, in seconds since boot."""
    return (ticks_of(pid) or 0) / os.sysconf("SC_CLK_TCK")


def program_of(pid: int) -> str | None:
    """Return the executable of a process; None when it is gone or not ours to see."""
    try:
        # A program that was replaced on disk while it runs reads as "path (deleted)".
        return os.readlink(ROOT / str(pid) / "exe").removesuffix(" (deleted)")
    except OSError:
        return None


def environment_of(pid: int) -> dict[str, str]:
    """Return the environment with which a process was started; empty when it is gone or not ours to see."""
    try:
        raw = (ROOT / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (one.decode("utf-8", "replace").partition("=") for one in raw.split(b"\0") if b"=" in one)
    return {key: value for key, _equals, value in pairs}


def memory_of(pid: int) -> int:
    """Return the resident memory of a process in bytes, 0 when it is gone."""
    try:
        pages = int((ROOT / str(pid) / "statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def environment() -> dict[str, str]:
    """Return our environment for a program of its own: without what our ansible-playbook was told."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}


@dataclass(frozen=True)
class Process:
    """A process that can't be mistaken for a later one of the same number. ``ticks``: its start since boot."""

    pid: int
    ticks: int

    @classmethod
    def of(cls, pid: int) -> Process:
        """Return the process ``pid`` as it is now; ``ticks`` is 0 when there is none."""
        return cls(pid, ticks_of(pid) or 0)

    def lives(self) -> bool:
        """Tell whether it still is that process."""
        return bool(self.ticks) and ticks_of(self.pid) == self.ticks

    def record(self) -> dict[str, int]:
        """Return what a file says of it."""
        return {"pid": self.pid, "ticks": self.ticks}


class _Handle:
    """A grip on one process that can't slip to another one with the same pid (pidfd_open(2) where it exists)."""

    def __init__(self, process: Process) -> None:
        self.process = process
        try:
            self.descriptor: int | None = os.pidfd_open(process.pid)
        except (OSError, AttributeError):
            self.descriptor = None
        # Looked at again once we hold it: from here on it is this process or none.
        self.alive = process.lives()

    def send(self, number: signal.Signals, session: bool) -> None:
        """Send a signal, if it is still the same process; session: to all of the session that it leads."""
        if not self.is_alive():
            return
        try:
            if session:
                os.killpg(self.process.pid, number)
            elif self.descriptor is not None:
                signal.pidfd_send_signal(self.descriptor, number)
            else:
                os.kill(self.process.pid, number)
        except ProcessLookupError:
            self.alive = False

    def is_alive(self) -> bool:
        """Tell whether it still runs."""
        if self.alive:
            # A child of ours that has ended stays a zombie until it is waited for.
            reap(self.process.pid)
            self.alive = self.process.lives()
        return self.alive

    def close(self) -> None:
        """Let go."""
        if self.descriptor is not None:
            os.close(self.descriptor)


def reap(pid: int) -> None:
    """Take note of the end of ``pid`` if it is a child of ours that has ended."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def end(wanted: Iterable[Process], grace: float, session: bool = False) -> list[Process]:
    """End processes: TERM to all, up to ``grace`` seconds to go, KILL to who is left; return who survives even that.

    session: KILL goes to the whole session of each, which it leads.
    """
    handles = [_Handle(one) for one in wanted]
    try:
        for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, KILLED)):
            for one in handles:
                one.send(number, session and number == signal.SIGKILL)
            _await_end(handles, patience)
        return [one.process for one in handles if one.is_alive()]
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
