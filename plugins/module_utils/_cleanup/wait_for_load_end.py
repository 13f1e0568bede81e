# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for whoever still puts load on the cluster: what it creates after a clean-up would stay.

A submitter holds a lock (flock) on its ledger for as long as it lives, a sampler on its observations. After a kill
of the run both end by themselves within seconds.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import WaitTimeout

_FILES = ("ledger.jsonl", "observations.jsonl")


def held(run_dir: Path) -> list[Path]:
    """Return the files of the run's points that somebody is writing to."""
    return [path for name in _FILES for path in sorted(run_dir.glob(f"points/*/{name}")) if _locked(path)]


def _locked(path: Path) -> bool:
    with open(path, "rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def wait(run_dir: Path, timeout: float, say: Callable[[str], None]) -> None:
    """Wait until nobody writes to the run's points. Raises WaitTimeout, naming the file, after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    told = False
    while busy := held(run_dir):
        if time.monotonic() > deadline:
            raise WaitTimeout(
                f"something still puts load on the cluster after {timeout:.0f} s: {busy[0]} is being written to; "
                "end that process first"
            )
        if not told:
            say(f"waiting for the end of the load ({busy[0].parent.name}/{busy[0].name} is being written to)")
            told = True
        time.sleep(0.2)
