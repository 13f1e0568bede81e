# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds and namespaces of the objects that a run has created, from the manifests of its steps and its plans."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError


def read(run_dir: str | Path) -> dict[str, set[str]]:
    """Return kind -> namespaces of its objects ("": cluster-scoped). Raises DataError for an invalid manifest."""
    import yaml

    found: dict[str, set[str]] = {}
    for path in sorted(Path(run_dir).glob("[0-9]*__*/src/*.yml")):
        try:
            documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        except (OSError, yaml.YAMLError) as error:
            raise DataError(f"{path}: {error}") from error
        for one in documents:
            if isinstance(one, dict) and one.get("kind"):
                found.setdefault(str(one["kind"]), set()).add(_namespace(one))
    for path in sorted(Path(run_dir).glob("points/*/plan.jsonl")):
        for header in itertools.islice(files.read_lines(path), 1):
            for one in header.get("templates") or ():
                found.setdefault(one["kind"], set()).add(one.get("namespace") or "")
    return found


def _namespace(manifest: dict[str, Any]) -> str:
    return str((manifest.get("metadata") or {}).get("namespace") or "")
