# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes: started, identified by their start time (proc(5)), found by an environment variable, ended."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/proc")

#: Seconds that a process may take to disappear after SIGKILL.
KILLED = 10.0

#: Seconds that a process may spend inside execve(2).
EXEC = 1.0


def list_pids() -> list[int]:
    """Return the pids of all processes of this machine."""
    return [int(folder.name) for folder in ROOT.iterdir() if folder.name.isdigit()]


def _read_proc_stat(pid: int) -> list[str] | None:
    """Return /proc/<pid>/stat (proc(5)) from field 3 on; None when there is no such process or it is a zombie.

    The name in field 2 may hold blanks and parentheses. A process is shown as a zombie as soon as its first thread has
    ended. Its files and ports stay open until the others have, too (field 20 counts them).
    """
    try:
        text = (ROOT / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" and int(fields[17]) < 2 else fields


def start_ticks_of(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None when there is none or it is a zombie."""
    fields = _read_proc_stat(pid)
    return int(fields[19]) if fields else None


def parent_pid_of(pid: int) -> int | None:
    """Return the parent of a process; None when there is no such process or it is a zombie."""
    fields = _read_proc_stat(pid)
    return int(fields[1]) if fields else None


def process_group_of(pid: int) -> int | None:
    """Return the process group of a process; None when there is no such process or it is a zombie."""
    fields = _read_proc_stat(pid)
    return int(fields[2]) if fields else None


def process_start_since_boot(pid: int) -> float:
    """Return when a process started, in seconds since boot."""
    return (start_ticks_of(pid) or 0) / os.sysconf("SC_CLK_TCK")


def executable_of(pid: int) -> str | None:
    """Return the executable of a process; None if it has ended or we may not read it."""
    try:
        # A program that was replaced on disk while it runs is shown as "path (deleted)".
        return os.readlink(ROOT / str(pid) / "exe").removesuffix(" (deleted)")
    except OSError:
        return None


def command_line_of_process(pid: int) -> list[str]:
    """Return program and arguments of a process; empty if it has ended or we may not read them."""
    try:
        raw = (ROOT / str(pid) / "cmdline").read_bytes()
    except OSError:
        return []
    return [os.fsdecode(argument) for argument in raw.split(b"\0")[:-1]]


def is_process_of_our_user(pid: int) -> bool:
    """Return whether a process runs as our user: root can read the environment of everybody's."""
    try:
        return os.stat(ROOT / str(pid)).st_uid == os.geteuid()
    except OSError:
        return False


@contextmanager
def children_at_usual_priority() -> Iterator[None]:
    """Start processes at the usual priority within the context, if this thread has raised its own."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    if before >= 0:
        yield
        return
    os.setpriority(os.PRIO_PROCESS, 0, 0)
    try:
        yield
    finally:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, before)


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped by a signal (job control)."""
    fields = _read_proc_stat(pid)
    return fields is not None and fields[0] == "T"


def environment_of(pid: int) -> dict[str, str]:
    """Return the environment with which a process was started; empty if it has ended or we may not read it."""
    path = ROOT / str(pid) / "environ"
    try:
        raw = path.read_bytes()
        if not raw:
            _await_exec(pid)
            raw = path.read_bytes()
    except OSError:
        return {}
    pairs = (variable.decode("utf-8", "replace").partition("=") for variable in raw.split(b"\0") if b"=" in variable)
    return {key: value for key, _equals, value in pairs}


def _await_exec(pid: int) -> None:
    """Wait until a process has left execve(2), inside which it already has its new program, but no environment.

    The kernel sets endcode (field 27 of /proc/<pid>/stat) after the environment; until then it is 0.
    """
    deadline = time.monotonic() + EXEC
    while (fields := _read_proc_stat(pid)) and fields[24] == "0" and executable_of(pid) and time.monotonic() < deadline:
        time.sleep(0.001)


def find_by_environment_variable(name: str, value: str) -> dict[int, dict[str, str]]:
    """Return our user's other living processes with ``name=value`` in their environment: pid -> environment.

    Those of others never count, as root can read the environment of everybody's: somebody who puts the variable into
    the environment of a process of theirs would have it ended, or taken for a server of ours.
    """
    living = (
        pid
        for pid in list_pids()
        if pid != os.getpid() and is_process_of_our_user(pid) and start_ticks_of(pid) is not None
    )
    environments = ((pid, environment_of(pid)) for pid in living)
    return {pid: environment for pid, environment in environments if environment.get(name) == value}


def resident_memory_of_process(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 if it has ended."""
    try:
        pages = int((ROOT / str(pid) / "statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def environment_without_ansible() -> dict[str, str]:
    """Return our environment without the settings of the ansible-playbook that runs us, for an independent program."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}


@dataclass(frozen=True)
class CompletedProgram:
    """A program that has ended: its exit code and its output as text."""

    code: int
    output: str
    errors: str

    @property
    def last_line(self) -> str:
        """The last line of its errors; if there are none, of its output."""
        return ((self.errors.strip() or self.output.strip()).splitlines() or ["no message"])[-1].strip()


def run_to_completion(
    command: list[str], timeout: float, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> CompletedProgram:
    """Run a program without input to its end; after ``timeout`` seconds it is killed.

    folder, environment: ours if None. Raises ProcessError if it can't be started, WaitTimeout.
    """
    # Here, since tools/leftovers.py imports this file without the collection.
    from .errors import ProcessError, WaitTimeout

    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except OSError as error:
        raise ProcessError(f"{command[0]} can't be started: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise WaitTimeout(f"{' '.join(command[:3])} has not ended after {timeout:g} s") from error
    return CompletedProgram(done.returncode, done.stdout, done.stderr)


def start_in_new_session(
    command: list[str], folder: Path, environment: Mapping[str, str], log: Path, title: str = ""
) -> subprocess.Popen[bytes]:
    """Start a program in ``folder`` as leader of a new session; append its output to ``log``, ``title`` first.

    Raises OSError.
    """
    # Here, because tools/leftovers.py reads this file where there is no collection.
    from .signals import unblock_signals

    with open(log, "ab") as stream:
        stream.write(title.encode())
        stream.flush()
        return subprocess.Popen(  # pylint: disable=ansible-bad-function
            command,
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
            preexec_fn=unblock_signals,  # called from any thread
        )


@dataclass(frozen=True)
class ProcessReference:
    """A process, never a later one of the same pid. ``ticks``: when it started, in clock ticks since boot."""

    pid: int
    ticks: int

    @classmethod
    def of(cls, pid: int) -> ProcessReference:
        """Return the process ``pid`` as it is now; ``ticks`` is 0 when there is none."""
        return cls(pid, start_ticks_of(pid) or 0)

    def lives(self) -> bool:
        """Return whether this process still runs."""
        return bool(self.ticks) and start_ticks_of(self.pid) == self.ticks

    def record(self) -> dict[str, int]:
        """Return it as files record it."""
        return {"pid": self.pid, "ticks": self.ticks}


class _ProcessHandle:
    """A handle of one process, never of a later one of the same pid (pidfd_open(2), Linux 5.3 or later)."""

    def __init__(self, process: ProcessReference) -> None:
        self.process = process
        try:
            self.descriptor: int | None = os.pidfd_open(process.pid)
        except (OSError, AttributeError):
            self.descriptor = None
        # Checked after the descriptor was opened: from here on it refers to this process or to none.
        self.alive = process.lives()

    def send(self, number: signal.Signals, session: bool) -> None:
        """Send a signal if the process still runs; with ``session`` to the whole session that it leads."""
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
        """Return whether the process still runs."""
        if self.alive:
            # A child of ours that has ended stays a zombie until it is waited for.
            reap_child_process(self.process.pid)
            self.alive = self.process.lives()
        return self.alive

    def close(self) -> None:
        """Close the descriptor."""
        if self.descriptor is not None:
            os.close(self.descriptor)


def reap_child_process(pid: int) -> None:
    """Reap ``pid`` if it is our child and has ended."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def continue_stopped_process(process: ProcessReference) -> bool:
    """Let a stopped process go on (SIGCONT); return whether it was stopped."""
    handle = _ProcessHandle(process)
    try:
        stopped = handle.is_alive() and is_stopped(process.pid)
        handle.send(signal.SIGCONT, False)
        return stopped
    finally:
        handle.close()


def terminate_processes(
    wanted: Iterable[ProcessReference], grace: float, session: bool = False, first: signal.Signals = signal.SIGTERM
) -> list[ProcessReference]:
    """End processes: signal ``first`` to all, after up to ``grace`` seconds SIGKILL to the rest; return the survivors.

    session: SIGKILL goes to the whole session that each of them leads.
    """
    handles = [_ProcessHandle(process) for process in wanted]
    try:
        for number, patience in ((first, grace), (signal.SIGKILL, KILLED)):
            for handle in handles:
                handle.send(number, session and number == signal.SIGKILL)
            _await_end(handles, patience)
        return [handle.process for handle in handles if handle.is_alive()]
    finally:
        for handle in handles:
            handle.close()


def _await_end(handles: list[_ProcessHandle], patience: float) -> None:
    deadline = time.monotonic() + patience
    while (living := [handle for handle in handles if handle.is_alive()]) and (left := deadline - time.monotonic()) > 0:
        descriptors = [handle.descriptor for handle in living if handle.descriptor is not None]
        if len(descriptors) == len(living):
            # A pidfd becomes readable when its process ends.
            poll = select.poll()
            for descriptor in descriptors:
                poll.register(descriptor, select.POLLIN)
            poll.poll(min(left, 1.0) * 1000)
        else:
            time.sleep(min(left, 0.05))


def fork_reporting_process(run: Callable[[int, int], int], close_in_child: Callable[[], None]) -> tuple[int, int, int]:
    """Fork a process that reports by a pipe, and ends when its parent closes another one or dies.

    Args:
        run: Called in the child with the descriptors to report to and of the end; returns its exit status. The signals
            that end us are blocked until it calls unblock_signals() with handlers of its own: those of the parent
            would note them for the parent alone.
        close_in_child: Closes what the child must not keep open.

    Returns:
        The pid, the descriptor of the reports, and the one whose closing ends the child.
    """
    from .signals import signals_blocked

    report_in, report_out = os.pipe()
    end_in, end_out = os.pipe()
    with signals_blocked():
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(report_in)
                os.close(end_out)
                close_in_child()
                status = run(report_out, end_in)
            finally:
                os._exit(status)
    os.close(report_out)
    os.close(end_in)
    return pid, report_in, end_out
