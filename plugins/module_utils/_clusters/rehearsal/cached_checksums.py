# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compares files of the cache with the checksums that were recorded when they were created."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    OwnershipError,
)


def file_change_signature(path: Path) -> list[int]:
    """Return what changes with every write to a file: size, ctime (which can't be set), inode."""
    state = os.stat(path)
    return [state.st_size, state.st_ctime_ns, state.st_ino]


def verify_cached_checksums(expected: Mapping[Path, str]) -> None:
    """Compare cached programs with their recorded checksums. Raises OwnershipError naming a changed one.

    A file that was verified before and not written since is not read again, which would take half of a start's time.
    """
    for path, checksum in expected.items():
        _verify_one(path, checksum)


def _verify_one(path: Path, expected: str) -> None:
    entry = path.parent.parent if path.parent.name == "bin" else path.parent
    seen_file = entry / f".seen-{path.name}.json"
    seen = [expected, *file_change_signature(path)]
    try:
        if files.read_json(seen_file) == seen:
            return
    except DataError:
        pass
    checksum = files.sha256_of(path)
    if checksum != expected:
        raise OwnershipError(
            f"{path} was changed since it was created (checksum {checksum[:12]}…, recorded {expected[:12]}…):"
            f" it is not started. Remove {entry} to have it built or downloaded again"
        )
    # The cache may be shared and read-only: then the file is read every time.
    with contextlib.suppress(OSError):
        files.write_json(seen_file, seen)
