# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A JSON-lines file to which one process appends whole lines; a torn last line is cut off."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import files
from .clock import Clock
from .errors import DataError, OwnershipError


def repair(handle: int) -> int:
    """Cut a torn last line off the file ``handle`` (open for reading and writing); return the number of bytes cut."""
    size = os.fstat(handle).st_size
    end = size
    while end > 0:
        start = max(0, end - 65536)
        block = os.pread(handle, end - start, start)
        at = block.rfind(b"\n")
        if at >= 0:
            end = start + at + 1
            break
        end = start
    if end < size:
        os.ftruncate(handle, end)
    return size - end


class JsonlAppender:
    """A JSON-lines file to which only this process appends, whole lines, from any thread.

    Raises OwnershipError if another process has the file open.
    """

    def __init__(self, path: Path, schema: str, who: str) -> None:
        self.path = path
        self.schema = schema
        self._validate = bool(os.environ.get(files.VALIDATE))
        self._handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._handle)
            raise OwnershipError(
                f"{path}: another {who} is writing to it; a point directory permits one at a time"
            ) from error
        self.repaired = repair(self._handle)

    def write(self, record: dict[str, Any]) -> None:
        """Append one record. Raises DataError if it cannot be written whole."""
        if self._validate:
            files.check(self.schema, record)
        self._append(f"{files.encode(record)}\n".encode())

    def write_row(self, row: str) -> None:
        """Append a record that is JSON text."""
        self.write_rows((row,))

    def write_rows(self, rows: Sequence[str]) -> None:
        """Append records that are JSON text, in one write."""
        if self._validate:
            for row in rows:
                files.check(self.schema, json.loads(row))
        if rows:
            self._append("\n".join((*rows, "")).encode())

    def _append(self, data: bytes) -> None:
        try:
            # One write with O_APPEND: lines of several threads never mix.
            written = os.write(self._handle, data)
        except OSError as error:
            raise DataError(f"{self.path} cannot be written: {error.strerror}") from error
        if written != len(data):
            raise DataError(f"{self.path} cannot be written: only {written} of {len(data)} bytes were written")

    def sync(self) -> None:
        """Sync the file to disk."""
        os.fsync(self._handle)

    def close(self) -> None:
        """Close the file and release its lock (in a forked child, only the child's handle)."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def session_line(schema: str, run: str, point: str, clock: Clock, client: int | None = None) -> dict[str, Any]:
    """Return the first line of a process in a file. ``client``: its number, if the load has several."""
    of = {} if client is None else {"client": client}
    return {
        "type": "session",
        "schema": schema,
        "run": run,
        "point": point,
        "anchor": clock.anchor(),
        "pid": os.getpid(),
        **of,
    }
