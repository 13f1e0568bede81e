# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module changes, as the ``diff`` of its result: the changed fields of each object, before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .object_fields import merged, title

#: In place of the content of a Secret, before and after a change.
HIDDEN, CHANGED = "(hidden)", "(hidden, changed)"


class ObjectDiff:
    """The changes of one call. An object that is missing on one side does not exist there."""

    def __init__(self) -> None:
        self.before: dict[str, Any] = {}
        self.after: dict[str, Any] = {}

    def created(self, manifest: Mapping[str, Any]) -> None:
        """Record an object that is created from a manifest."""
        self.after[title(manifest)] = without_secrets(manifest, manifest, HIDDEN)

    def patched(self, found: Mapping[str, Any], patch: Mapping[str, Any]) -> None:
        """Record a merge patch of an object: the fields that it names."""
        name, fields = title(found), _named(found, patch)
        if name not in self.after:
            self.before[name] = self.after[name] = without_secrets(found, fields, HIDDEN)
        elif name in self.before:
            self.before[name] = merged(without_secrets(found, fields, HIDDEN), self.before[name])
        self.after[name] = merged(self.after[name], without_secrets(found, patch, CHANGED))

    def deleted(self, found: Mapping[str, Any]) -> None:
        """Record that an object is deleted, by its title alone, since definitions and operators are long."""
        self.after.pop(title(found), None)
        self.before[title(found)] = {}

    def shown(self) -> dict[str, Any]:
        """Return the value of ``diff``."""
        return {"before": self.before, "after": self.after}


def _named(found: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an object that a patch names."""
    both = {name: (found[name], value) for name, value in patch.items() if name in found}
    return {
        name: _named(old, new) if isinstance(old, Mapping) and isinstance(new, Mapping) else old
        for name, (old, new) in both.items()
    }


def without_secrets(item: Mapping[str, Any], fields: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return ``fields`` of an object, with ``text`` for each value of a Secret."""
    if item.get("kind") != "Secret":
        return dict(fields)
    hidden = {name: dict.fromkeys(fields[name] or {}, text) for name in ("data", "stringData") if name in fields}
    return {**fields, **hidden}
