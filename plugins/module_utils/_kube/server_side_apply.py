# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply objects by server-side apply, and record what a module changes as the ``diff`` of its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, OwnershipError

from .client import Client
from .lost_labels import refuse_lost_labels
from .object_accessors import apply_json_merge_patch, format_object_title, get_label

#: In place of the content of a Secret, before and after a change.
HIDDEN, CHANGED = "(hidden)", "(hidden, changed)"


class ObjectDiff:
    """The changes of one call. An object that is missing on one side does not exist there."""

    def __init__(self) -> None:
        self.before: dict[str, Any] = {}
        self.after: dict[str, Any] = {}

    def created(self, manifest: Mapping[str, Any]) -> None:
        """Record an object that is created from a manifest."""
        self.after[format_object_title(manifest)] = fields_without_secret_values(manifest, manifest, HIDDEN)

    def patched(self, manifest: Mapping[str, Any], patch: Mapping[str, Any]) -> None:
        """Record a merge patch of an object: the fields that it names."""
        name, fields = format_object_title(manifest), _fields_named_in_patch(manifest, patch)
        if name not in self.after:
            self.before[name] = self.after[name] = fields_without_secret_values(manifest, fields, HIDDEN)
        elif name in self.before:
            self.before[name] = apply_json_merge_patch(
                fields_without_secret_values(manifest, fields, HIDDEN), self.before[name]
            )
        self.after[name] = apply_json_merge_patch(
            self.after[name], fields_without_secret_values(manifest, patch, CHANGED)
        )

    def deleted(self, manifest: Mapping[str, Any]) -> None:
        """Record that an object is deleted, by its title alone, since definitions and operators are long."""
        self.after.pop(format_object_title(manifest), None)
        self.before[format_object_title(manifest)] = {}

    def shown(self) -> dict[str, Any]:
        """Return the value of ``diff``."""
        return {"before": self.before, "after": self.after}


def _fields_named_in_patch(manifest: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an object that a patch names."""
    both = {name: (manifest[name], value) for name, value in patch.items() if name in manifest}
    return {
        name: _fields_named_in_patch(old, new) if isinstance(old, Mapping) and isinstance(new, Mapping) else old
        for name, (old, new) in both.items()
    }


def fields_without_secret_values(item: Mapping[str, Any], fields: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return ``fields`` of an object, with ``text`` for each value of a Secret."""
    if item.get("kind") != "Secret":
        return dict(fields)
    hidden = {name: dict.fromkeys(fields[name] or {}, text) for name in ("data", "stringData") if name in fields}
    return {**fields, **hidden}


#: Fields of metadata that the API server writes.
_OF_THE_SERVER = ("managedFields", "resourceVersion", "generation")


def apply_manifests_with_diff(
    client: Client, manifests: Sequence[dict[str, Any]], check: bool = False
) -> dict[str, Any]:
    """Apply manifests in order; return the keys ``changed``, ``applied`` and ``diff`` of the module's result.

    Nothing that exists and does not belong to the run is changed: with the run's label, it would be deleted. A
    namespace is used as it is, another object is an error.

    check: whether the API server only validates them. Raises InputError for an unknown kind, OwnershipError, ApiError.
    """
    diff, applied = ObjectDiff(), []
    for manifest in manifests:
        meta = manifest["metadata"]
        kind = client.kind_of(manifest)
        before = client.get(kind, meta["name"], meta.get("namespace", ""))
        if before is not None and _is_object_of_others(manifest, before):
            if manifest["kind"] == "Namespace":
                continue
            raise OwnershipError(
                f"{client.access.server} has {format_object_title(manifest)} already, and it does not belong to this "
                "run: nothing was changed. Choose another name or namespace, or remove it first"
            )
        after = _apply_manifest(client, manifest, before is None and check, check)
        new = before is None and not check
        undo = partial(client.delete_seen, kind, after.get("metadata") or {}) if new else None
        refuse_lost_labels(client.access.server, manifest, after, undo)
        if before is None:
            diff.created(manifest)
        elif _object_without_server_fields(before) != _object_without_server_fields(after):
            diff.patched(before, manifest)
        else:
            continue
        applied.append(format_object_title(manifest))
    return {"changed": bool(applied), "applied": applied, "diff": diff.shown()}


def _is_object_of_others(manifest: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    run = get_label(manifest, run_labels.RUN)
    return bool(run) and get_label(before, run_labels.RUN) != run


def _apply_manifest(client: Client, manifest: dict[str, Any], new: bool, check: bool) -> dict[str, Any]:
    try:
        return client.apply(manifest, check=check)
    except ApiError as error:
        if new and error.status == 404:
            return manifest  # its namespace does not exist yet either
        raise


def _object_without_server_fields(item: dict[str, Any]) -> dict[str, Any]:
    meta = {name: value for name, value in item["metadata"].items() if name not in _OF_THE_SERVER}
    return {**item, "metadata": meta}
