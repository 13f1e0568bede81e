# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interrupted runs: the process of ansible-playbook gives back what they hold before it exits.

On SIGINT, SIGTERM, SIGHUP, and if localhost is unreachable, Ansible runs neither ``rescue`` nor ``always`` tasks. If a
run is still open when the process exits, this code waits for its tasks, starts another ansible-playbook that gives back
what this one would have given back at its end, and prints the give-back command as the last line.

Ansible itself may not end: a worker that is killed while it writes to the queue of results leaves the queue locked, and
then the main thread waits for ever, as it does for a terminal that takes no output. A thread that needs neither the
queue nor the terminal therefore does the same if the main thread has not come to its end TAKE_OVER seconds after a
signal, and then ends the process.

If this process is killed, the kernel sends SIGTERM to its workers: one that writes a result to a queue that nobody
reads would otherwise wait for ever. It passes the signal on to the module that it runs.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import multiprocessing
import multiprocessing.util
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any

from ansible import constants, context
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import (
    SignalBlockingThread,
    SignalEvent,
    unblock_signals,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import clusters_of_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.lock import lock_records

from . import held_resources, run_record
from .terminal_output import ProgressTail

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

OPENS, CLOSES = "perfscale.seatrial.open_run", "perfscale.seatrial.record_run_state"

#: Phases that acquire or create something.
TAKING = {"lease", "cluster", "prepare", "test"}

#: Phases that give back only.
GIVING_BACK = {"cleanup", "release"}

#: Seconds after a signal until a thread ends the run in place of Ansible, which ends within 12 s if it ends at all.
TAKE_OVER = 20.0
#: Seconds that the process may take to exit after the runs were ended.
EXIT = 10.0
#: Exit code of ansible-playbook after Ctrl-C.
INTERRUPTED = 99
#: Seconds that interrupted tasks may take to end in order; a lease, for example, is released by its own module.
PATIENCE = 120.0
#: Seconds that an interrupted give-back may take to end.
LAST_PATIENCE = 20.0
#: One Ctrl-C may arrive several times (make, timeout and a terminal all pass it on): seconds until another one counts.
SAME = 1.0
_LOOK = 0.2
#: Seconds to wait for the queue of results, for workers that a signal ends at once, and for a terminal.
_QUEUE, _WORKERS, _TERMINAL = 1.0, 0.5, 1.0

#: prctl(2): the signal that the kernel sends to a process when its parent ends.
_PR_SET_PDEATHSIG = 1
_prctl: Callable[[int, int], int] = getattr(ctypes.CDLL(None), "prctl", lambda *_all: 0)

Say = Callable[[str], None]


def phases_that_release_resources(
    chosen: Iterable[str], every: Iterable[str], settings: Mapping[str, Any]
) -> list[str]:
    """Return the phases that give back what a session of the ``chosen`` phases would give back at its end.

    Empty if resources stay on purpose: by --tags, by a setting, or because the playbook acquires something that stays.
    every: all phases of the playbook.
    """
    if "cleanup" not in every or not TAKING & set(chosen):
        return []
    keeps = {"cleanup": ("cleanup_keep",), "release": ("cluster_keep", "quads_lease_keep")}
    return [phase for phase in keeps if phase in chosen and not any(settings.get(name) for name in keeps[phase])]


#: What to do if the directory of a run was deleted while it ran.
_WITHOUT_DIRECTORY = (
    "  its directory is gone, and GIVE_BACK with it: playbooks/cluster.yml --tags reap lists what runs of this machine "
    "hold, and playbooks/rehearsal.yml --tags absent -e rehearsal_name=<id of the run> -e rehearsal_force=true removes "
    "its rehearsal cluster"
)


class RunWatch:
    """The open runs of this process, which must be ansible-playbook itself; ends them when the process exits."""

    def __init__(self, say: Say, take_over: float = TAKE_OVER, leave: Callable[[int], object] = os._exit) -> None:
        """leave: ends the process if Ansible does not."""
        self._print = say
        self._take_over = take_over
        self._leave = leave
        self._open: dict[Path, dict[str, Any]] = {}
        self._pid = os.getpid()
        self._groups: set[int] = set()
        self._signal = 0
        self._at = 0.0
        self._asked = SignalEvent()
        self._begun = threading.Event()
        self._one_end = threading.Lock()
        self._stuck = False
        self._patience = _TERMINAL
        self._enough = False

    # During the run

    def install(self) -> None:
        """Handle signals from now on. Before Ansible starts its first worker; effective in the main thread only."""
        if threading.current_thread() is not threading.main_thread():
            return
        atexit.unregister(self.end)
        atexit.register(self.end)
        SignalBlockingThread(target=self._end_if_stuck, name="end of the run", daemon=True).start()
        multiprocessing.util.register_after_fork(self, RunWatch._end_worker_with_parent)
        for number in SIGNALS:
            # A SIGHUP that nohup has turned off stays off.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._on_signal)

    def _end_worker_with_parent(self) -> None:
        """Let the kernel end this worker if ansible-playbook is killed. Called in each process that it forks."""
        if os.getppid() != self._pid:  # a worker has forked this process
            return
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != self._pid:  # killed before the kernel was asked
            os.kill(os.getpid(), signal.SIGTERM)

    def note(self, action: str, result: Mapping[str, Any]) -> None:
        """Record the result of a task that opens or closes a run."""
        if action == OPENS and result.get("run_dir") and not (result.get("only_settings") or result.get("beside")):
            self._open[Path(result["run_dir"])] = dict(result)
        elif action == CLOSES and result.get("closed"):
            self._open.pop(Path(result["closed"]), None)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # a worker that has just been forked
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        now = time.monotonic()
        again, self._at = now - self._at > SAME, now
        if self._begun.is_set():
            self._enough = self._enough or (again and number == signal.SIGINT)
            return
        first, self._signal = not self._signal, self._signal or number
        if not first and not again:
            return
        self._asked.set()
        self._groups |= _workers()
        with _queue_locked(frame):
            self._signal_children(signal.SIGINT if number == signal.SIGINT else signal.SIGTERM)
            deadline = time.monotonic() + _WORKERS
            while any(worker.is_alive() for worker in _worker_processes()) and time.monotonic() < deadline:
                time.sleep(0.01)
        raise KeyboardInterrupt

    @staticmethod
    def _signal_children(number: int) -> None:
        for child in _children():
            _signal_child_and_group(child, number)

    # When the process exits

    def _end_if_stuck(self) -> None:
        """After a signal: end the runs if the main thread does not, and the process if it does not exit."""
        self._asked.wait()
        if not self._begun.wait(self._take_over):
            self._stuck = True
            self._say(f"\nAnsible has not ended {self._take_over:g} s after the signal: its processes are ended now")
            self._groups |= _workers()
            self._signal_children(signal.SIGTERM)
            if not self._open:
                self._await_tasks()
        with contextlib.suppress(Exception):  # whatever happens here, the process must end
            self.end()
        if not self._stuck:
            time.sleep(EXIT)
        self._kill_tasks()
        shutil.rmtree(constants.DEFAULT_LOCAL_TMP, ignore_errors=True)  # as at a usual exit: it may hold credentials
        self._leave(INTERRUPTED)

    def end(self) -> None:
        """End the runs that are still open."""
        if os.getpid() != self._pid:
            return
        self._begun.set()
        with self._one_end:
            for directory, opened in list(self._open.items()):
                self._end_run(directory, opened)
            self._open.clear()

    def _end_run(self, directory: Path, opened: Mapping[str, Any]) -> None:
        command = ""
        try:
            record = run_record.read_record(directory)
            command = record["give_back"]
            self._end(directory, opened, record)
        except (SeatrialError, OSError, KeyError) as error:
            self._say(f"run {directory.name} could not be ended in order: {error}")
        finally:
            there = command or directory.is_dir()
            self._say(f"  give back {command or directory / 'GIVE_BACK'}" if there else _WITHOUT_DIRECTORY)

    def _end(self, directory: Path, opened: Mapping[str, Any], record: Mapping[str, Any]) -> None:
        why = f" ({signal.Signals(self._signal).name})" if self._signal else ""
        self._say(f"\nRun {record['id']} was cut short{why}")
        self._await_tasks()
        with contextlib.suppress(SeatrialError, OSError):
            _record_interruption(directory)
        wanted = list(opened.get("gives_back") or ())
        if opened.get("keep_failed") and any(
            cluster["state"] == "failed" for cluster in clusters_of_run.read_cluster_records(directory).values()
        ):
            wanted = [phase for phase in wanted if phase != "release"]
        if wanted and not self._enough and (_resources_still_held(directory, record) or _has_held_lock(directory)):
            self._give_back(directory, str(record["project"]), wanted)
        held = _resources_still_held(directory, record)
        for what in held:
            self._say(f"  held      {what}")
        if not held:
            self._say("  held      nothing any more; the command below can be run to check it again")

    def _await_tasks(self) -> None:
        """Wait until the processes of the workers have ended in order: giving back must not run beside them."""
        self._groups |= _workers()
        deadline, announced = time.monotonic() + PATIENCE, False
        while (left := _pids_in_groups(self._groups)) and not self._enough and time.monotonic() < deadline:
            if not announced:
                announced = True
                still = formats.format_count(len(left), "process", "processes")
                self._say(f"waiting for its task to end ({still}, at most {PATIENCE:g} s)")
            time.sleep(_LOOK)
        if not self._enough:
            self._kill_tasks()

    def _kill_tasks(self) -> None:
        """Kill what is left, such as a worker that waits for the locked queue: at its exit Python waits for workers."""
        for pid in _pids_in_groups(self._groups):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def _give_back(self, directory: Path, project: str, wanted: list[str]) -> None:
        words = run_record.CommandLine(sys.argv, context.CLIARGS, []).again(directory, project, wanted)
        self._say(f"giving back what it holds ({', '.join(wanted)}); Ctrl-C leaves it to the command below")
        with tempfile.TemporaryDirectory(prefix="seatrial-") as folder:
            log = Path(folder) / "log"
            # The usual folders may be full or read-only; this one is writable.
            environment = {**os.environ, "ANSIBLE_LOCAL_TEMP": folder, "ANSIBLE_REMOTE_TMP": folder}
            environment.pop("ANSIBLE_STDOUT_CALLBACK", None)  # that of ansible-runner writes for a program
            with open(log, "wb") as stream:
                # A separate session: Ctrl-C reaches it only through us, and it survives if we are killed.
                process = subprocess.Popen(
                    words,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=unblock_signals,
                )
            self._follow(process, ProgressTail(str(log)))
        if process.returncode:
            self._say(f"it could not all be given back: ansible-playbook ended with {process.returncode}")

    def _follow(self, process: subprocess.Popen[bytes], tail: ProgressTail) -> None:
        deadline = 0.0
        while process.poll() is None:
            self._relay(tail)
            if self._enough and not deadline:
                deadline = time.monotonic() + LAST_PATIENCE
                process.terminate()
            if deadline and time.monotonic() > deadline:
                process.kill()
            time.sleep(_LOOK)
        self._relay(tail)

    def _relay(self, tail: ProgressTail) -> None:
        """Print new lines of the give-back. One that was ended says what is held, and so do we."""
        for line in tail.lines():
            if not self._enough:
                self._say(line)

    def _say(self, line: str) -> None:
        """Print a line. A terminal that is closed, or takes no output, must not stop giving back."""
        with contextlib.suppress(OSError, ValueError):
            if not _is_writable(1, self._patience):
                self._patience = 0.0
            elif self._stuck:  # Ansible's display may be locked for ever
                os.write(1, f"{line}\n".encode(errors="backslashreplace"))
            else:
                self._print(line)
                sys.stdout.flush()


def _is_writable(descriptor: int, seconds: float) -> bool:
    """Return whether a descriptor takes output within ``seconds``; one that is closed counts as writable."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(seconds * 1000))


@contextlib.contextmanager
def _queue_locked(frame: FrameType | None) -> Iterator[None]:
    """Hold the lock with which workers write to Ansible's queue of results, so that none is ended while it holds it.

    frame: where the main thread stands. The lock may be held for ever, so it is waited for only briefly.
    """
    lock = None
    while frame is not None and lock is None:
        lock = getattr(getattr(frame.f_locals.get("self"), "_final_q", None), "_wlock", None)
        frame = frame.f_back
    locked = lock is not None and lock.acquire(timeout=_QUEUE)
    try:
        yield
    finally:
        if lock is not None and locked:
            lock.release()


def _workers() -> set[int]:
    """Return Ansible's workers. Each leads a process group, which contains the module that it runs."""
    return {worker.pid for worker in _worker_processes() if worker.pid}


def _worker_processes() -> list[BaseProcess]:
    return multiprocessing.active_children()


def _children() -> list[int]:
    """Return all children, including a worker that is being forked at this moment."""
    return [pid for pid in processes.list_pids() if processes.parent_pid_of(pid) == os.getpid()]


def _signal_child_and_group(child: int, number: int) -> None:
    """Send a signal to a child and, if it leads a process group, to the group, so also to the module that it runs.

    A worker passes signals on to its group, but the second of two that arrive together ends it before it has done so.
    """
    send = os.killpg if processes.process_group_of(child) in (child, None) else os.kill  # None: it has just ended
    with contextlib.suppress(OSError):
        send(child, number)


def _pids_in_groups(groups: set[int]) -> list[int]:
    return [pid for pid in processes.list_pids() if processes.process_group_of(pid) in groups]


def _resources_still_held(directory: Path, record: Mapping[str, Any]) -> list[str]:
    return [holding["what"] for holding in held_resources.resources_held(directory, record["started"])]


def _has_held_lock(directory: Path) -> bool:
    locks = [lock_records.read_lock_record(path) for path in directory.glob(lock_records.PATTERN)]
    return any(lock is not None and lock["state"] == lock_records.HELD for lock in locks)


def _record_interruption(directory: Path) -> None:
    """Write the state of the run into run.yml, for a session that continues it."""

    def edit(record: dict[str, Any]) -> None:
        for phase in record["phases"].values():
            if phase["status"] == "running":
                phase["status"] = "interrupted"
        record["status"] = "interrupted"
        record["ended"] = run_record.format_utc_timestamp()
        record["clusters"] = clusters_of_run.read_cluster_records(directory)
        record["held"] = held_resources.resources_held(directory, record["started"])

    run_record.update_record(directory, edit)
