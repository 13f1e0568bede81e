# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait until no process puts load on the cluster: objects that it creates after the cleanup would remain.

A submitter holds a lock (flock) on its ledger until it ends, a sampler on its observations. After a kill of the run,
both end within seconds.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import WaitTimeout

_FILES = ("ledger.jsonl", "observations.jsonl")


def held(run_dir: Path) -> list[Path]:
    """Return the files of the run's points that a process is writing to."""
    return [path for name in _FILES for path in sorted(run_dir.glob(f"points/*/{name}")) if _locked(path)]


def _locked(path: Path) -> bool:
    with open(path, "rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def wait(run_dir: Path, timeout: float, say: Callable[[str], None]) -> None:
    """Wait until no process writes to the run's points. Raises WaitTimeout with the file after ``timeout`` s."""
    deadline = time.monotonic() + timeout
    reported = False
    while busy := held(run_dir):
        if time.monotonic() > deadline:
            raise WaitTimeout(
                f"a process still puts load on the cluster after {timeout:.0f} s: it writes to {busy[0]}; "
                "end that process first"
            )
        if not reported:
            say(f"waiting for the end of the load ({busy[0].parent.name}/{busy[0].name} is being written to)")
            reported = True
        time.sleep(0.2)
