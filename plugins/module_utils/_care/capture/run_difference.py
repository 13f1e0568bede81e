# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare a cluster before and after a run: the work of module run_diff."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import stamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from . import object_snapshot

BEFORE, AFTER, DIFF = "objects-before.jsonl", "objects-after.jsonl", "run_diff.json"
PARTS = ("left", "gone", "changed")
#: Seconds between two looks.
_PAUSE = 2.0


def take_before(client: Client, run_dir: str, run: str) -> dict[str, Any]:
    """Write the snapshot before the run; that of an earlier session stays. Return the module's result."""
    path = Path(run_dir) / BEFORE
    if path.exists():
        return {"changed": False, "summary": "there is a snapshot of an earlier session"}
    snapshot = object_snapshot.take(client, run)
    files.write_lines(path, object_snapshot.lines(snapshot), "objects/1")
    return {"changed": True, "summary": f"{formats.count(len(snapshot.entries), 'object')} before the run"}


def compare_after(
    client: Client, run_dir: str, run: str, timeout: float, say: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Write the snapshot after the run and run_diff.json, and return the module's result.

    Waits up to ``timeout`` seconds for controllers to take back what they made for the run. Differences are a result,
    not an error. Raises DataError without a snapshot before the run, AccessError.
    """
    top = Path(run_dir)
    if not (top / BEFORE).exists():
        raise DataError(f"{top / BEFORE} does not exist: the run began without run_diff")
    before = object_snapshot.of_lines(files.read_lines(top / BEFORE))
    deadline = time.monotonic() + timeout
    while True:
        after = object_snapshot.take(client, run)
        found = object_snapshot.compare(before, after)
        count = sum(map(len, found.values()))
        if not count or time.monotonic() + _PAUSE > deadline:
            break
        say(f"{formats.count(count, 'difference')} from before the run")
        time.sleep(_PAUSE)
    files.write_lines(top / AFTER, object_snapshot.lines(after), "objects/1")
    unlisted = sorted({*before.unlisted, *after.unlisted})
    document = {
        "schema": "run_diff/1",
        "run": run,
        "at": stamp(),
        "objects": len(after.entries),
        "unlisted": unlisted,
        **found,
    }
    files.write_json(top / DIFF, document, "run_diff/1")
    return {"changed": True, **found, "summary": sentence(document)}


def sentence(document: dict[str, Any]) -> str:
    """Return the differences as one sentence."""
    parts = []
    for name in PARTS:
        ours = sum(one["ours"] for one in document[name])
        if document[name]:
            parts.append(f"{len(document[name])} {name} ({ours} of the run)")
    compared = formats.count(document["objects"], "object")
    return f"{compared} after the run: {', '.join(parts) if parts else 'as before it'}"
