# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that run for the folder of a cluster: an installer, and the HTTP server of its boot image.

Every process started here carries SEATRIAL_INSTALL, the folder of its cluster, in its environment, as do its children.
By it any later process of this machine finds and ends them. The server has no directory listings and a limited
lifetime.
"""

from __future__ import annotations

import contextlib
import signal
import socket
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


def await_program_end(folder: Path, timeout: float, what: str, follow: Callable[[], None]) -> int:
    """Wait up to ``timeout`` seconds for the program of start_detached_program(); return its exit code.

    follow: called meanwhile. Raises WaitTimeout, and ProcessError if it was killed.
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


def run_program_to_end(
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


_SERVER = """
import functools, http.server, json, os, signal, sys
folder, address, port, lifetime = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
class Handler(http.server.SimpleHTTPRequestHandler):
    def list_directory(self, path):
        self.send_error(404)
    def log_message(self, form, *words):
        sys.stderr.write(self.address_string() + " " + form % words + chr(10))
        sys.stderr.flush()
handler = functools.partial(Handler, directory=os.path.join(folder, "www"))
server = http.server.ThreadingHTTPServer((address, port), handler)
server.daemon_threads = True
part = os.path.join(folder, ".server.json")
with open(part, "w") as stream:
    json.dump({"pid": os.getpid(), "port": server.server_port}, stream)
os.rename(part, os.path.join(folder, "server.json"))
signal.setitimer(signal.ITIMER_REAL, lifetime)  # SIGALRM ends it
server.serve_forever()
"""


def start_image_server(folder: Path, address: str, port: int, lifetime: float, limit: float = 30.0) -> tuple[int, bool]:
    """Serve ``folder/www`` on address and port (0: any) for ``lifetime`` s; return the port and whether it was started.

    limit: seconds to wait for the server. Raises ProcessError, WaitTimeout.
    """
    state = folder / "server.json"
    if state.exists():
        known = files.read_json(state)
        if known["pid"] in find_processes_of_folder(folder):
            return int(known["port"]), False
        state.unlink()
    command = [sys.executable, "-c", _SERVER, str(folder), address, str(port), str(lifetime)]
    child = start_logged_program(command, folder, {}, "server.log")
    end = time.monotonic() + limit
    while not state.exists():
        if child.poll() is not None:
            log = (folder / "server.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise ProcessError(f"can't serve {folder} on {address}:{port}: {log[-1] if log else 'no reason logged'}")
        if time.monotonic() > end:
            raise WaitTimeout(f"the server of {folder} did not start within {limit:g} s")
        time.sleep(0.05)
    return int(files.read_json(state)["port"]), True


def local_address_towards(towards: str) -> str:
    """Return the local address of connections to ``towards`` (host or host:port); no packet is sent."""
    host = towards.split("://")[-1].split("/")[0].rsplit(":", 1)[0] or "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 443))
        except OSError as error:
            raise ProcessError(f"can't determine by which address {host} reaches this machine: {error}") from error
        return str(probe.getsockname()[0])
