# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a run was opened: its record says so, and a copied, moved or received run directory does not fit it.

Somebody else may foresee the path at which a directory is unpacked, but not the number that the file system gives it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import files
from .errors import DataError


def recorded_path_and_inode(directory: Path, final: Path) -> dict[str, Any]:
    """Return the entries of the record. final: the path to which the directory will be renamed."""
    return {"directory": str(final.resolve()), "inode": directory.stat().st_ino}


def is_where_run_was_opened(record: Mapping[str, Any], directory: Path) -> bool:
    """Return whether a run directory is the one in which its run was opened, at the same path."""
    at_path = record.get("directory") == str(directory.resolve())
    return at_path and record.get("inode") == directory.stat().st_ino


def is_own_run(record: Mapping[str, Any], directory: Path) -> bool:
    """Return whether a run directory is where this user opened the run: not copied, moved, or received."""
    return is_where_run_was_opened(record, directory) and directory.stat().st_uid == os.getuid()


def evidence_of_origin(record: Mapping[str, Any], directory: Path) -> tuple[int, str]:
    """Return which of the directories of a run counts: the greatest.

    It is 2 for an own replot of an own run, 1 for an own run and 0 for others, with the time of a replot.
    """
    replot = record.get("replot")
    if not isinstance(replot, Mapping):
        return (1 if is_own_run(record, directory) else 0), ""
    at = str(replot.get("at") or "")
    source = Path(str(replot.get("source") or ""))
    try:
        original = files.read_yaml(source / "run.yml") if is_own_run(replot, directory) else None
        if isinstance(original, dict) and original.get("id") == record.get("id") and is_own_run(original, source):
            return 2, at
    except (DataError, OSError, ValueError):
        pass
    return 0, at
