# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a capture: every text without secrets, all together within a number of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_gate import SecretScanner
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_names import (
    MASK,
    is_secret_entry,
    mask_assignments,
)

#: Holds the whole object again, as text.
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class CaptureFiles:
    """Writes the files of one capture; ``written`` describes them as schema capture/1 does."""

    def __init__(self, folder: Path, gate: SecretScanner, limit: int) -> None:
        """limit: bytes of all files together."""
        self.folder = folder
        self.left = limit
        self.written: list[dict[str, Any]] = []
        self._gate = gate

    def objects(self, name: str, objects: Iterable[Mapping[str, Any]], of: int | None = None) -> None:
        """Write objects, one JSON document a line. No Secrets. of: how many there are on the cluster."""
        lines: list[str] = []
        size = count = 0
        for item in objects:
            count += 1
            if item.get("kind") == "Secret":
                continue
            line = self._gate.masked(files.encode(mask_object_secrets(item))) + "\n"
            if size + len(line.encode()) <= self.left:
                lines.append(line)
                size += len(line.encode())
        total = max(count, of or 0)
        if total:
            self._write(name, "".join(lines), {"objects": len(lines), "of": total})

    def document(self, name: str, value: Mapping[str, Any], schema: str) -> None:
        """Write a JSON document as a whole, whatever the limit is."""
        files.check_schema(schema, value)
        self._write(name, self._gate.masked(files.encode(value)) + "\n", {})

    def text(self, name: str, text: str) -> None:
        """Write a text: its end, if it is too long."""
        masked = self._gate.masked(mask_assignments(text)).encode()
        kept = masked[-self.left :] if self.left else b""
        self._write(name, kept.decode("utf-8", "ignore"), {"cut": len(kept) < len(masked)})

    def _write(self, name: str, text: str, facts: dict[str, Any]) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        path.write_bytes(data)
        self.left = max(0, self.left - len(data))
        self.written.append({"file": name, "bytes": len(data), **facts})


def mask_object_secrets(value: Any) -> Any:
    """Return an object without managed fields, and with masked values of what names a secret.

    These are environment variables, entries of dictionaries, and ``token=…`` in texts such as the message of an event.
    """
    if isinstance(value, list):
        return [mask_object_secrets(entry) for entry in value]
    if isinstance(value, str):
        return mask_assignments(value)
    if not isinstance(value, Mapping):
        return value
    result = {key: mask_object_secrets(entry) for key, entry in value.items() if key not in ("managedFields", _APPLIED)}
    if is_secret_entry(result.get("name") or "", result.get("value"), anywhere=True):
        result["value"] = MASK
    return {key: MASK if is_secret_entry(key, entry) else entry for key, entry in result.items()}
