# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a run's lock on a cluster: ``lock-<host>.json`` in the run directory.

The lock renewer writes it after each renewal. Processes that put load on the cluster read it and stop when the lock is
lost. If the renewer itself has ended, the deadline in the file passes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import boot_clock, boot_id

SCHEMA = "lock/1"
PATTERN = "lock-*.json"

HELD, LOST, RELEASED = "held", "lost", "released"


def read_lock_record(path: str | Path) -> dict[str, Any] | None:
    """Return the record; None without a valid one."""
    try:
        record = files.read_json(path)
    except DataError:
        return None
    return record if isinstance(record, dict) and record.get("schema") == SCHEMA else None


def write_lock_record(path: str | Path, record: dict[str, Any]) -> None:
    """Replace the record."""
    files.write_json(path, record, SCHEMA)


def find_lost_lock(run_dir: str | Path) -> str:
    """Return which lock of a run is lost and why; empty if none is.

    The deadline of a record from another machine, or from before a reboot, is ignored.
    """
    for path in sorted(Path(run_dir).glob(PATTERN)):
        record = read_lock_record(path)
        if record is None:
            continue
        if record["lost"]:
            return f"the lock on {record['cluster']} is lost: {record['lost']}"
        if record["state"] == HELD and record["boot"] == boot_id() and boot_clock() > record["deadline"]:
            return (
                f"the lock on {record['cluster']} is lost: it was not renewed since {record['renewed']} "
                f"(by process {record['keeper']['pid']})"
            )
    return ""
