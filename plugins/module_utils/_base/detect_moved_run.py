# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a run was opened: its record says so, and a copied, moved or received run directory does not fit it.

Somebody else may foresee the path at which a directory is unpacked, but not the number that the file system gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def recorded_path_and_inode(directory: Path, final: Path) -> dict[str, Any]:
    """Return the entries of the record. final: the path to which the directory will be renamed."""
    return {"directory": str(final.resolve()), "inode": directory.stat().st_ino}


def is_where_run_was_opened(record: Mapping[str, Any], directory: Path) -> bool:
    """Return whether a run directory is the one in which its run was opened, at the same path."""
    at_path = record.get("directory") == str(directory.resolve())
    return at_path and record.get("inode") == directory.stat().st_ino
