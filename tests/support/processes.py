"""Remains of a run on this machine: processes and listening ports."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files


def traces(data_dir: Path) -> list[str]:
    """Processes that have this directory in their command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if str(data_dir).encode() in text:
            found.append(f"{entry.name}: {text[:200]!r}")
    return found


def open_ports(ports: list[int]) -> list[int]:
    """Those of ``ports`` on which something listens."""
    found = []
    for port in ports:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                found.append(port)
    return found


def ports_of(data_dir: Path) -> list[int]:
    """The ports that an instance has stored."""
    path = data_dir / "ports.json"
    return [int(port) for port in files.read_json(path).values() if isinstance(port, int)] if path.exists() else []


def blocked(pid: int | str = "self") -> dict[int, set[int]]:
    """The signals that each thread of a process blocks, by the thread's id (SigBlk in proc(5))."""
    found = {}
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(OSError, StopIteration):  # a thread that has just ended
            line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("SigBlk:"))
            mask = int(line.split()[1], 16)
            found[int(status.parent.name)] = {number + 1 for number in range(64) if mask >> number & 1}
    return found
