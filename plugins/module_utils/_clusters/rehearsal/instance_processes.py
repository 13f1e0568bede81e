# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of an instance: started, found again, never confused with others; their ports and their readiness.

A process belongs to an instance if its environment names the instance's folder and its executable is the one that was
started. A record in that folder adds pid and start time, which reveal a reused pid. The record is written before the
process exists. Whatever is killed at whatever moment, ``running`` finds all processes.

Ports on loopback are chosen once for an instance and then kept. A process is probed over HTTP until it is ready, or has
ended.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import os
import random
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    ProcessError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import boot_id
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.processes import ProcessReference
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp

from .pki import authority_file_stem

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


def find_process_of_instance(pid: int, instance: Path) -> RunningProcess | None:
    """Return the process ``pid`` if it was started for ``instance``, else None."""
    environment = processes.environment_of(pid)
    return _process_from_environment(pid, environment) if environment.get(INSTANCE) == str(instance) else None


def _process_from_environment(pid: int, environment: Mapping[str, str]) -> RunningProcess | None:
    ticks = processes.start_ticks_of(pid)
    program = processes.executable_of(pid)
    if ticks is None or program is None or not environment.get(NAME):
        return None
    # A child that inherited our environment, such as a user's shell, runs another program.
    if os.path.realpath(environment.get(PROGRAM, "")) != os.path.realpath(program):
        return None
    return RunningProcess(environment[NAME], pid, ticks, program)


def list_running_processes(instance: Path) -> list[RunningProcess]:
    """Return all living processes of ``instance``, found among all processes of the machine, oldest first."""
    candidates = (
        _process_from_environment(pid, environment)
        for pid, environment in processes.find_by_environment_variable(INSTANCE, str(instance)).items()
    )
    return sorted((process for process in candidates if process is not None), key=lambda living: living.ticks)


def read_process_record(folder: Path, name: str) -> ProcessRecord | None:
    """Return the record of a process, None if there is none that can be read."""
    try:
        return ProcessRecord(**files.read_json(folder / f"{name}.json"))
    except (DataError, TypeError):
        return None


def is_recorded_process(process: RunningProcess, record: ProcessRecord | None) -> bool:
    """Return whether ``record`` is of exactly this process, not of an earlier one with the same pid."""
    return record is not None and (record.pid, record.ticks, record.boot) == (process.pid, process.ticks, boot_id())


def start_instance_process(
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
        child = processes.start_in_new_session(
            command, instance, marked, log, f"--- {format_utc_timestamp()} {' '.join(command)}\n"
        )
    except OSError as error:
        raise ProcessError(f"{name}: {program} can't be started: {error.strerror}") from error
    known = ProcessRecord(
        name, program, recipe, child.pid, processes.start_ticks_of(child.pid) or 0, boot_id(), format_utc_timestamp()
    )
    files.write_json(records / f"{name}.json", asdict(known))
    return child


def stop_instance_processes(instance: Path, wanted: Iterable[RunningProcess], grace: float) -> None:
    """End processes of ``instance``: SIGTERM to all, after up to ``grace`` seconds SIGKILL to the rest.

    Raises ProcessError naming those that survive.
    """
    ours = {
        ProcessReference(process.pid, process.ticks): process
        for process in wanted
        if find_process_of_instance(process.pid, instance) == process
    }
    left = [f"{ours[process].name} (pid {process.pid})" for process in processes.terminate_processes(ours, grace)]
    if left:
        raise ProcessError(f"{instance}: still running {processes.KILLED:.0f} s after SIGKILL: {', '.join(left)}")


def last_log_lines(log: Path, lines: int = 12) -> str:
    """Return the last lines of a log, indented, for an error message."""
    try:
        with open(log, "rb") as stream:
            stream.seek(max(0, log.stat().st_size - 16384))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return "    (no log)"
    return "\n".join(f"    {line[:400]}" for line in text.splitlines()[-lines:]) or "    (empty log)"


def process_result_entry(process: RunningProcess, record: ProcessRecord | None) -> dict[str, Any]:
    """Return the entry of a process in the module's result."""
    known = record if is_recorded_process(process, record) else None
    return {
        "name": process.name,
        "pid": process.pid,
        "program": process.program,
        "started": known.started if known else "",
        "memory_mib": round(processes.resident_memory_of_process(process.pid) / 2**20),
    }


LOOPBACK = "127.0.0.1"
#: Below Linux's range of ephemeral ports (32768 and up), so that no outgoing connection uses a port of ours.
FIRST_PORT, LAST_PORT = 20000, 32000


def is_port_free(port: int, address: str = LOOPBACK) -> bool:
    """Return whether a server could listen on ``port`` now.

    With SO_REUSEADDR, as servers set it: connections of an earlier server in TIME_WAIT do not matter.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def port_listener(port: int) -> str:
    """Return the program that listens on ``port``; "another program" if we may not see it (proc(5), tcp)."""
    inodes = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listening_socket_inodes(table, port)}
    for pid in processes.list_pids() if inodes else []:
        if inodes & _open_files_of_process(pid):
            return f"process {pid} ({os.path.basename(processes.executable_of(pid) or '?')})"
    return "another program"


def _open_files_of_process(pid: int) -> set[str]:
    """Return the open files and sockets of a process; none if we may not see them."""
    targets = set()
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(processes.ROOT / str(pid) / "fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                targets.add(os.readlink(processes.ROOT / str(pid) / "fd" / descriptor))
    return targets


def _listening_socket_inodes(table: str, port: int) -> list[str]:
    """Return the inodes of the sockets that listen on ``port`` (state 0A)."""
    try:
        rows = (processes.ROOT / "net" / table).read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return []
    fields = (row.split() for row in rows)
    return [row[9] for row in fields if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port]


def choose_ports(
    names: Iterable[str], have: Mapping[str, int], taken: Iterable[int], seed: int | None = None
) -> dict[str, int]:
    """Return a port for every name: the one in ``have``, else a free one.

    ``taken``: ports of other instances, which may be down at present. The search begins at a random port, so that users
    who can't see each other's instances seldom collide. Raises ProcessError if all are in use.
    """
    chosen = dict(have)
    reserved = set(taken) | set(chosen.values())
    candidates = list(range(FIRST_PORT, LAST_PORT))
    start = random.Random(seed).randrange(len(candidates))
    search = iter(candidates[start:] + candidates[:start])
    for name in names:
        if name in chosen:
            continue
        for port in search:
            if port not in reserved and is_port_free(port):
                chosen[name] = port
                break
        else:
            raise ProcessError(f"no free port between {FIRST_PORT} and {LAST_PORT} on {LOOPBACK} for {name}")
    return chosen


#: Seconds for one request; a server that hangs is asked again on a new connection.
PROBE_TIMEOUT = 5.0


@dataclass(frozen=True)
class HttpProbe:
    """A GET request over HTTP(S); status 200 means ready."""

    url: str
    authority: str = "cluster"
    certificate: str = ""


def probe_process_readiness(probe: HttpProbe, pki: Path) -> str:
    """Send the request once; return "" if the process is ready, else the reason why not."""
    parts = urlsplit(probe.url)
    if parts.hostname is None:
        return f"{probe.url} has no host"
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    try:
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=str(pki / f"{authority_file_stem(probe.authority)}.crt"))
            if probe.certificate:
                context.load_cert_chain(pki / f"{probe.certificate}.crt", pki / f"{probe.certificate}.key")
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=PROBE_TIMEOUT, context=context
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PROBE_TIMEOUT)
        try:
            connection.request("GET", target)
            answer = connection.getresponse()
            body = answer.read().decode("utf-8", "replace").strip()
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    if answer.status == 200:
        return ""
    failing = [line for line in body.splitlines() if line.startswith("[-]")]
    return f"{answer.status} {'; '.join(failing) or body[:200]}"


def await_process_ready(name: str, probe: Callable[[], str], pid: int, log: Path, timeout: float, what: str) -> None:
    """Call ``probe`` at growing intervals until it returns "". ``pid``: the process that must run meanwhile.

    Raises ProcessError if it ends, WaitTimeout after ``timeout`` seconds; both with the end of its log.
    """
    deadline = time.monotonic() + timeout
    pause = 0.02
    while answer := probe():
        processes.reap_child_process(pid)
        if processes.start_ticks_of(pid) is None:
            raise ProcessError(f"{name} ended while it was starting. The end of {log}:\n{last_log_lines(log)}")
        if time.monotonic() > deadline:
            raise WaitTimeout(
                f"{name} is not ready after {timeout:.0f} s: waited for {what}, last answer: {answer}."
                f" The end of {log}:\n{last_log_lines(log)}"
            )
        time.sleep(pause)
        pause = min(pause * 1.3, 0.1)


def _cached_discoveries(server: str) -> list[Path]:
    """Return the files in which modules of kubernetes.core keep what an API server serves, whoever runs them here."""
    names = {server, f"{server}-{os.getuid()}", f"{server}-{os.environ.get('USERNAME')}"}
    with contextlib.suppress(OSError):  # no terminal
        names.add(f"{server}-{os.getlogin()}")
    keys = (hashlib.sha256(name.encode()).hexdigest() for name in names)
    return [Path(tempfile.gettempdir()) / f"k8srcp-{key}.json" for key in keys]


def remove_discovery_cache(port: int) -> None:
    """Remove what modules of kubernetes.core have kept of the API server at a port of this machine.

    Each instance has another port, so nothing else would remove it.
    """
    for path in _cached_discoveries(f"https://{LOOPBACK}:{port}"):
        with contextlib.suppress(OSError):
            path.unlink()
