# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a remote load: ``elsewhere.json`` in the directory of the point, with its host and state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.lock import held_lock_file

FILE = "elsewhere.json"
SCHEMA = "elsewhere/1"
STARTED, FETCHED = "started", "fetched"

#: Value of ``host`` for a pod of the driver cluster; ``root`` is then its namespace.
DRIVER_POD = "driver_pod"


def read(point_dir: Path) -> dict[str, Any] | None:
    """Return the record, None if there is none."""
    try:
        return dict(files.read_json(point_dir / FILE))
    except DataError:
        return None


def write(
    point_dir: Path,
    host: str,
    root: str,
    state: str,
    result: Mapping[str, Any] | None = None,
    collect: Mapping[str, Any] | None = None,
    removed: bool = False,
) -> None:
    """Replace the record.

    result: of the load, once its files were fetched. collect: where they are uploaded. removed: whether nothing is left
    of the load elsewhere.
    """
    record: dict[str, Any] = {"schema": SCHEMA, "host": host, "root": root, "state": state}
    record["result"] = dict(result or {})
    if collect:
        record["collect"] = dict(collect)
    if removed:
        record["removed"] = True
    files.write_json(point_dir / FILE, record, SCHEMA)


def remove(point_dir: Path) -> None:
    """Delete the record of a load that no longer runs. The record of fetched files stays."""
    record = read(point_dir)
    if record is not None and record["state"] != FETCHED:
        (point_dir / FILE).unlink(missing_ok=True)


def held_lock(run_dir: str | Path | None, cluster: str) -> dict[str, Any] | None:
    """Return the parameters with which the load renews the run's lock on its target, None without such a lock.

    cluster: the target's API host, as in lock files. The driver cluster may have another lock.
    """
    for path in sorted(Path(run_dir).glob(held_lock_file.PATTERN)) if run_dir else ():
        found = held_lock_file.read(path)
        if found and found["state"] == held_lock_file.HELD and found["cluster"] == cluster:
            return lock_of(found)
    return None


def lock_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of cluster_lock for the load, from the run's lock record."""
    names = {"run_id": "run", "owner": "owner", "purpose": "purpose", "namespace": "namespace", "duration": "duration"}
    return {**{ours: record[theirs] for ours, theirs in names.items()}, "timeout": 60, "context": ""}
