# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Space reserved in a run directory, so that a run whose disk has become full can still be given back.

The reserve is a file. The first write of a document that finds the disk full removes it and is repeated. What
is unpacked of others must leave space, too.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from . import formats
from .errors import DataError

NAME = ".seatrial-reserve"
#: More than the documents, step directories and the log of a session that gives back.
SIZE = 4 * 2**20

#: Numbers of errors of a full disk.
FULL = (errno.ENOSPC, errno.EDQUOT)
#: A document is at most this many folders below the run directory.
_LEVELS = 3

Result = TypeVar("Result")


def reserve_space(folder: Path) -> None:
    """Reserve space in a run directory. Raises OSError."""
    handle = os.open(folder / NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(handle, 0, SIZE)
    except OSError:
        os.unlink(folder / NAME)
        raise
    finally:
        os.close(handle)


def free_reserved_space(path: Path) -> bool:
    """Remove the reserve of the run directory that ``path`` is or is below; return whether there was one."""
    for folder in [path, *path.parents][: _LEVELS + 2]:
        try:
            os.unlink(folder / NAME)
            return True
        except OSError:
            continue
    return False


def write_with_reserve(path: Path, write: Callable[[], Result]) -> Result:
    """Return the result of ``write``, which writes ``path``; if the disk is full, again in the space reserved."""
    try:
        return write()
    except OSError as error:
        if error.errno not in FULL or not free_reserved_space(path):
            raise
    return write()


#: Bytes of the disk that large files of others leave free; smaller ones leave as much as they have.
LEAST_FREE = 2**30


def refuse_filling_disk(name: str, total: int, written: int, folder: Path) -> None:
    """Raise DataError if what is unpacked would fill the disk. total: its bytes. written: those that are there."""
    free = shutil.disk_usage(folder).free
    if total - written > free - min(LEAST_FREE, total):
        needed, have = (formats.format_with_unit(size / 2**20, "MiB") for size in (total, free))
        raise DataError(f"{name}: it unpacks to {needed} or more, and {have} are free in {folder}")
