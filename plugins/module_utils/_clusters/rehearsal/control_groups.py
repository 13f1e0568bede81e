# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control groups of real nodes: removed when the process that made them was killed."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError

ROOT = Path("/sys/fs/cgroup")
#: Seconds that the kernel may take to empty a group after its last process has ended.
PATIENCE = 10.0


def name_of(instance: Path) -> str:
    """Return the name of the control groups of an instance, by which they are found even without its folder."""
    return f"seatrial-{hashlib.sha256(os.fsencode(instance)).hexdigest()[:16]}"


def left(instance: Path) -> list[Path]:
    """Return the control groups of an instance, in every hierarchy."""
    name = name_of(instance)
    found = []
    for folder, below, _files in os.walk(ROOT):
        if name in below:
            found.append(Path(folder) / name)
            below.remove(name)
    return found


def remove(instance: Path, patience: float = PATIENCE) -> bool:
    """Remove the control groups of an instance; return whether there were any. Raises ProcessError for one in use."""
    deadline = time.monotonic() + patience
    found = wanted = left(instance)
    while wanted:
        for group in wanted:
            _remove_tree(group)
        wanted = [group for group in wanted if group.is_dir()]
        if wanted and time.monotonic() > deadline:
            raise ProcessError(f"control groups are still in use after {patience:.0f} s: {', '.join(map(str, wanted))}")
        if wanted:
            time.sleep(0.05)
    return bool(found)


def _remove_tree(group: Path) -> None:
    """Remove those groups of a tree that are empty, the innermost first. Their files go with them."""
    for folder, _below, _files in os.walk(group, topdown=False):
        try:
            os.rmdir(folder)
        except OSError:
            continue
