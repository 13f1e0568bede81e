# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write ran.json of a test point. Module what_ran calls it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files, _format
from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster import what_ran
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import (
    AccessError,
    ApiError,
    DataError,
    InputError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_files import stamp

FILE = "ran.json"
#: Of each request, in seconds.
TIMEOUT = 30.0


def write_what_ran(
    kubeconfig: str, context: str, run_dir: str, run: str, point: str, namespaces: Iterable[str] = ()
) -> dict[str, Any]:
    """Write ran.json and return the result of module what_ran; a file of an earlier call with equal content stays.

    A kubeconfig that cannot be used, and a server that cannot be reached, are warnings. Raises InputError if the run
    has no such point.
    """
    folder = Path(run_dir) / "points" / point
    if not folder.is_dir():
        raise InputError(f"{Path(run_dir).name} has no point {point}")
    path = folder / FILE
    try:
        with Client.from_kubeconfig(kubeconfig, context, timeout=TIMEOUT) as client:
            found = what_ran.gather(client, run, namespaces)
    except (AccessError, ApiError, InputError) as error:
        why = f"what ran at point {point} is not recorded, so its figures have fewer labels: {error}"
        result = {"changed": False, "path": str(path), "ran": {}, "cause": error.cause, "reason": str(error)}
        return {**result, "warnings": [why], "summary": why}
    record = {"schema": "ran/1", "run": run, "point": point, "at": stamp(), **found}
    changed = _without_time(record) != _without_time(_earlier(path))
    if changed:
        _files.write_json(path, record, "ran/1")
    warnings = [f"point {point}: not recorded: {one}" for one in found.get("notes", ())]
    parts = [
        _format.count(found["nodes"]["count"], "node") if "nodes" in found else "",
        _format.count(len(found["operators"]), "operator") if "operators" in found else "",
        _format.count(len(found["images"]), "image") if "images" in found else "",
    ]
    summary = f"point {point} ran with {', '.join(filter(None, parts)) or 'unknown parts'}"
    return {"changed": changed, "path": str(path), "ran": found, "warnings": warnings, "summary": summary}


def _earlier(path: Path) -> dict[str, Any]:
    try:
        found = _files.read_json(path)
    except DataError:
        return {}
    return found if isinstance(found, dict) else {}


def _without_time(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "at"}
