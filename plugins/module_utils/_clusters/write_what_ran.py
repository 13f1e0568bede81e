# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write ran.json of a test point. Module cluster_capture calls it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import stamp

FILE = "ran.json"


def point_folder(run_dir: str, point: str) -> Path:
    """Return the folder of a point. Raises InputError if the run has no such point."""
    folder = Path(run_dir) / "points" / point
    if not folder.is_dir():
        raise InputError(f"{Path(run_dir).name} has no point {point}")
    return folder


def write(folder: Path, run: str, found: dict[str, Any]) -> tuple[bool, str]:
    """Write ran.json with the parts ``found``; return whether it changed, and a sentence. Equal content stays."""
    point, path = folder.name, folder / FILE
    record = {"schema": "ran/1", "run": run, "point": point, "at": stamp(), **found}
    changed = _without_time(record) != _without_time(_earlier(path))
    if changed:
        files.write_json(path, record, "ran/1")
    parts = [
        formats.count(found["nodes"]["count"], "node") if "nodes" in found else "",
        formats.count(len(found["operators"]), "operator") if "operators" in found else "",
        formats.count(len(found["images"]), "image") if "images" in found else "",
    ]
    return changed, f"point {point} ran with {', '.join(filter(None, parts)) or 'unknown parts'}"


def _earlier(path: Path) -> dict[str, Any]:
    try:
        found = files.read_json(path)
    except DataError:
        return {}
    return found if isinstance(found, dict) else {}


def _without_time(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "at"}
