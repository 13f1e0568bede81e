# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run downloaded and pulled before its tests, for the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError

#: Digits of a checksum that are shown.
_DIGITS = 12


def prepared_rows(top: Path) -> list[tuple[str, str]]:
    """Return name and text of each image that was preloaded and of each source that was downloaded.

    Steps whose file is missing or broken are left out. Of a source that several points needed, the first one counts.
    """
    images = {one["image"]: _image(one["nodes"]) for one in _documents(top, "image_pulls.json")}
    sources: dict[str, str] = {}
    for document in _documents(top, "downloads.json"):
        for one in document["downloads"]:
            sources.setdefault(one["name"], _source(one))
    return [*images.items(), *sources.items()]


def _documents(top: Path, name: str) -> Iterator[Mapping[str, Any]]:
    for path in sorted(top.glob(f"[0-9]*__*/{name}")):
        try:
            yield files.read_json(path)
        except DataError:
            continue


def _image(nodes: Sequence[Mapping[str, Any]]) -> str:
    measured = [one for one in nodes if not one["simulated"]]
    pulled = [one["seconds"] for one in measured if not one["there"] and one["seconds"] is not None]
    there = sum(1 for one in measured if one["there"])
    parts = [f"pulled in up to {max(pulled):.1f} s on {formats.count(len(pulled), 'node')}"] if pulled else []
    parts += [f"there already on {formats.count(there, 'node')}"] if there else []
    return ", ".join(parts) or "nothing was measured"


def _source(one: Mapping[str, Any]) -> str:
    how = f"in {one['seconds']:.2f} s" if one["downloaded"] else "there already"
    return f"{one['bytes'] / 2**20:,.1f} MiB {how}, sha256 {str(one['sha256'])[:_DIGITS]}…, from {one['source']}"
