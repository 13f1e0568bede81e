# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of what a run holds: a damaged one is an error that names it, never a run that holds nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import files
from .errors import DataError


def read_state_file(path: Path, *keys: str) -> dict[str, Any]:
    """Read a record that has these keys. Raises DataError if it is missing, empty, truncated or of another form."""
    document = files.read_json(path) if path.suffix == ".json" else files.read_yaml(path)
    missing = [key for key in keys if not isinstance(document, dict) or key not in document]
    if missing or not isinstance(document, dict):
        raise DataError(
            f"{path} is damaged: it has no {', '.join(missing) or 'keys'}. What it recorded may still be held: run.yml "
            "lists it (held). Restore the file, or release that by hand and remove the file"
        )
    return document
