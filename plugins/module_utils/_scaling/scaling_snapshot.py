# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was there before nodes were scaled: ``scaling.json`` in the run directory, written before anything changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files

FILE = "scaling.json"
SCHEMA = "scaling/1"


def read(path: str | Path) -> dict[str, Any]:
    """Return the memo; an empty one when there is none. Raises DataError when it can't be read."""
    if not Path(path).exists():
        return {"schema": SCHEMA, "sets": [], "namespaces": []}
    return dict(_files.read_json(path))


def note(path: str | Path, where: str, entry: dict[str, Any]) -> None:
    """Add or replace an entry of ``sets`` or ``namespaces``; what stood there before the first change stays."""
    memo = read(path)
    others = [one for one in memo[where] if one["name"] != entry["name"]]
    earlier = next((one for one in memo[where] if one["name"] == entry["name"]), None)
    if earlier is not None:
        entry = {**entry, **{key: earlier[key] for key in ("created", "before") if key in earlier}}
    _files.write_json(path, {**memo, where: [*others, entry]}, SCHEMA)


def forget(path: str | Path, where: str, name: str) -> None:
    """Drop an entry that was put back."""
    memo = read(path)
    _files.write_json(path, {**memo, where: [one for one in memo[where] if one["name"] != name]}, SCHEMA)
