# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Free ports on loopback, chosen once for an instance and then kept."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import socket
from collections.abc import Iterable, Mapping

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError

LOOPBACK = "127.0.0.1"
#: Below Linux's range of ephemeral ports (32768 and up), so that no outgoing connection uses a port of ours.
FIRST, LAST = 20000, 32000


def is_free(port: int, address: str = LOOPBACK) -> bool:
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


def listener(port: int) -> str:
    """Return the program that listens on ``port``; "another program" if we may not see it (proc(5), tcp)."""
    inodes = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _inodes(table, port)}
    for pid in processes.pids() if inodes else []:
        if inodes & _open_in(pid):
            return f"process {pid} ({os.path.basename(processes.program_of(pid) or '?')})"
    return "another program"


def _open_in(pid: int) -> set[str]:
    """Return the open files and sockets of a process; none if we may not see them."""
    found = set()
    with contextlib.suppress(OSError):
        for one in os.listdir(processes.ROOT / str(pid) / "fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                found.add(os.readlink(processes.ROOT / str(pid) / "fd" / one))
    return found


def _inodes(table: str, port: int) -> list[str]:
    """Return the inodes of the sockets that listen on ``port`` (state 0A)."""
    try:
        rows = (processes.ROOT / "net" / table).read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return []
    fields = (row.split() for row in rows)
    return [one[9] for one in fields if one[3] == "0A" and int(one[1].rpartition(":")[2], 16) == port]


def choose(
    names: Iterable[str], have: Mapping[str, int], taken: Iterable[int], seed: int | None = None
) -> dict[str, int]:
    """Return a port for every name: the one in ``have``, else a free one.

    ``taken``: ports of other instances, which may be down at present. The search begins at a random port, so that users
    who can't see each other's instances seldom collide. Raises ProcessError if all are in use.
    """
    chosen = dict(have)
    reserved = set(taken) | set(chosen.values())
    candidates = list(range(FIRST, LAST))
    start = random.Random(seed).randrange(len(candidates))
    search = iter(candidates[start:] + candidates[:start])
    for name in names:
        if name in chosen:
            continue
        for port in search:
            if port not in reserved and is_free(port):
                chosen[name] = port
                break
        else:
            raise ProcessError(f"no free port between {FIRST} and {LAST} on {LOOPBACK} for {name}")
    return chosen
