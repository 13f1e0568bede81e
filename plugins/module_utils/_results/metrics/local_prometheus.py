# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A local Prometheus on the dump of a run, on loopback, for figures that were not captured at the time."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    ProcessError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.wait_until import wait_until

from . import metrics_dump
from .prometheus import PrometheusServer

#: Seconds for promtool to make the blocks, for the server to answer, and to end.
BLOCKS, STARTED, ENDED = 1800.0, 300.0, 20.0
#: Prometheus looks back this many seconds for a sample, and never less than the least.
LOOK_BACK, LEAST_LOOK_BACK = 300.0, 5.0
_LISTENS = re.compile(r'msg="?Listening on"? .*?address=(127\.0\.0\.1:[0-9]+)')
_READY = "Server is ready to receive web requests"
#: Runs a program that the kernel ends when its parent dies (PR_SET_PDEATHSIG, prctl(2)), also if that is killed.
_WITH_PARENT = """
import ctypes, os, sys
getattr(ctypes.CDLL(None), 'prctl', lambda *_all: 0)(1, 9)
os.execv(sys.argv[1], sys.argv[1:])
"""


@contextmanager
def serving(run_dir: str, program: str = "") -> Iterator[PrometheusServer]:
    """Run Prometheus on the dump of a run while the body does; nothing is left of it.

    program: the file ``prometheus``; by default that of PATH. ``promtool`` must be beside it or on PATH.
    Raises InputError without a dump or a program, DataError for a damaged dump, ProcessError.
    """
    top = Path(run_dir)
    if not (top / metrics_dump.INDEX).is_file():
        raise InputError(f"{top} has no dump of metrics ({metrics_dump.INDEX}): the run was made without metrics_dump")
    server, tool = _programs(program)
    index = files.read_json(top / metrics_dump.INDEX)
    if files.sha256_of(top / metrics_dump.FILE) != index["sha256"]:
        raise DataError(f"{top / metrics_dump.FILE} is damaged: its checksum is not that of {metrics_dump.INDEX}")
    with tempfile.TemporaryDirectory(prefix=".metrics-", dir=top) as scratch:
        folder = Path(scratch)
        _make_blocks(top / metrics_dump.FILE, tool, folder)
        # Ended series have no marker of their end in the dump, so a longer look-back would prolong them.
        look_back = min(max(2.5 * float(index["interval"]), LEAST_LOOK_BACK), LOOK_BACK)
        child = _start(server, folder, look_back)
        process = processes.Process.of(child.pid)
        try:
            yield PrometheusServer(f"http://{_address(child, folder / 'log')}")
        finally:
            processes.end([process], ENDED)


def _programs(program: str) -> tuple[str, str]:
    """Return the paths of prometheus and promtool. Raises InputError."""
    server = shutil.which(program or "prometheus")
    if server is None:
        raise InputError(
            f"metrics_prometheus: there is no program '{program or 'prometheus'}'{'' if program else ' on PATH'}; "
            "install Prometheus, or name its file"
        )
    tool = shutil.which(str(Path(server).with_name("promtool"))) or shutil.which("promtool")
    if tool is None:
        raise InputError(f"metrics_prometheus: there is no promtool beside {server} or on PATH")
    return server, tool


def _make_blocks(packed: Path, tool: str, folder: Path) -> None:
    text = folder / "samples.om"
    try:
        with gzip.open(packed) as source, open(text, "wb") as target:
            shutil.copyfileobj(source, target)
    except (OSError, EOFError) as error:
        raise DataError(f"{packed}: cannot be unpacked: {error}") from error
    (folder / "data").mkdir()
    done = processes.completed([tool, "tsdb", "create-blocks-from", "openmetrics", str(text), "data"], BLOCKS, folder)
    text.unlink()
    if done.code:
        raise ProcessError(f"{tool} could not make blocks of {packed}: {done.last_line}")


def _start(server: str, folder: Path, look_back: float) -> subprocess.Popen[bytes]:
    (folder / "prometheus.yml").write_text("{}\n", encoding="ascii")
    options = {
        "config.file": "prometheus.yml",
        "storage.tsdb.path": "data",
        "storage.tsdb.retention.time": "100y",
        "query.lookback-delta": f"{look_back:.0f}s",
        "web.listen-address": "127.0.0.1:0",
    }
    command = [sys.executable, "-I", "-c", _WITH_PARENT, server, *(f"--{key}={text}" for key, text in options.items())]
    try:
        return processes.started(command, folder, processes.environment(), folder / "log")
    except OSError as error:
        raise ProcessError(f"{server} can't be started: {error.strerror}") from error


def _address(child: subprocess.Popen[bytes], log: Path) -> str:
    def look() -> tuple[str | None, str]:
        text = log.read_text(encoding="utf-8", errors="replace")
        found = _LISTENS.search(text)
        if found and _READY in text:
            return found[1], ""
        if child.poll() is not None:
            raise ProcessError(f"the local Prometheus ended with {child.returncode}: {text[-500:].strip()}")
        return None, "the local Prometheus has not started"

    return wait_until(look, STARTED, lambda _text: None, lambda message: f"{message} after {STARTED:.0f} s", 0.1)
