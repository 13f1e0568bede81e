# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state before nodes were scaled: ``scaling.json`` in the run directory, written before any change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files

FILE = "scaling.json"
SCHEMA = "scaling/1"


def read(path: str | Path) -> dict[str, Any]:
    """Return the snapshot; an empty one without a file. Raises DataError if it can't be read."""
    if not Path(path).exists():
        return {"schema": SCHEMA, "sets": [], "namespaces": []}
    return dict(files.read_json(path))


def note(path: str | Path, where: str, entry: dict[str, Any]) -> None:
    """Add or replace an entry of ``sets`` or ``namespaces``; the state before the first change is kept."""
    snapshot = read(path)
    others = [one for one in snapshot[where] if one["name"] != entry["name"]]
    earlier = next((one for one in snapshot[where] if one["name"] == entry["name"]), None)
    if earlier is not None:
        entry = {**entry, **{key: earlier[key] for key in ("created", "before") if key in earlier}}
    files.write_json(path, {**snapshot, where: [*others, entry]}, SCHEMA)


def forget(path: str | Path, where: str, name: str) -> None:
    """Remove an entry that was restored."""
    snapshot = read(path)
    files.write_json(path, {**snapshot, where: [one for one in snapshot[where] if one["name"] != name]}, SCHEMA)
