# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply objects by server-side apply, and record what a module changes as the ``diff`` of its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, OwnershipError

from .client import MANAGER, MERGE_PATCH, Client
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
#: Fields of metadata that identify what was looked at.
_SEEN = ("uid", "resourceVersion")
#: How often an object is looked at that others change at the same moment.
_ATTEMPTS = 5


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
        looked = _look_and_apply(client, manifest, check)
        if looked is None:
            continue
        before, after = looked
        if before is None:
            diff.created(manifest)
        elif _object_without_server_fields(before) != _object_without_server_fields(after):
            diff.patched(before, manifest)
        else:
            continue
        applied.append(format_object_title(manifest))
    return {"changed": bool(applied), "applied": applied, "diff": diff.shown()}


def _look_and_apply(
    client: Client, manifest: dict[str, Any], check: bool
) -> tuple[dict[str, Any] | None, dict[str, Any]] | None:
    """Create an object, or change exactly what was looked at; return it before and after, None for one of others.

    If it was created or changed in between, the answer is 409, and it is looked at again.
    """
    meta = manifest["metadata"]
    kind = client.kind_of(manifest)
    for attempt in range(1, _ATTEMPTS + 1):
        before = client.get(kind, meta["name"], meta.get("namespace", ""))
        if before is not None and _is_object_of_others(manifest, before):
            if manifest["kind"] == "Namespace":
                return None
            raise OwnershipError(
                f"{client.access.server} has {format_object_title(manifest)} already, and it does not belong to this "
                "run: nothing was changed. Choose another name or namespace, or remove it first"
            )
        try:
            return before, _create_or_apply(client, manifest, before, check)
        except ApiError as error:
            if error.status != 409 or attempt == _ATTEMPTS:
                raise
    raise AssertionError  # not reached


def _create_or_apply(
    client: Client, manifest: dict[str, Any], before: dict[str, Any] | None, check: bool
) -> dict[str, Any]:
    """Write an object if it is still as it was ``before``. Raises ApiError 409 if it is not."""
    if before is None and not check:
        return _owned_by_apply(client, client.create(manifest, {"fieldManager": MANAGER}))
    seen = {name: before["metadata"][name] for name in _SEEN if name in before["metadata"]} if before else {}
    wanted = {**manifest, "metadata": {**manifest["metadata"], **seen}}
    try:
        after = client.apply(wanted, check=check)
    except ApiError as error:
        if before is None and error.status == 404:
            return manifest  # its namespace does not exist yet either
        raise
    refuse_lost_labels(client.access.server, manifest, after)
    return after


def _owned_by_apply(client: Client, created: dict[str, Any]) -> dict[str, Any]:
    """Let the fields of a created object belong to apply, which else does not remove those that a manifest drops."""
    meta = created["metadata"]
    fields = meta.get("managedFields") or []
    patch = {name: meta.get(name) for name in _SEEN} | {
        "managedFields": [{**row, "operation": "Apply"} for row in fields]
    }
    if [row.get("manager") for row in fields] != [MANAGER]:
        return created
    path = client.kind_of(created).path(meta.get("namespace", ""), meta["name"])
    try:
        client.request("PATCH", path, {"metadata": patch}, content_type=MERGE_PATCH)
    except ApiError as error:
        if error.status not in (404, 409):  # it has already changed
            raise
    return created


def _is_object_of_others(manifest: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    run = get_label(manifest, run_labels.RUN)
    return bool(run) and get_label(before, run_labels.RUN) != run


def _object_without_server_fields(item: dict[str, Any]) -> dict[str, Any]:
    meta = {name: value for name, value in item["metadata"].items() if name not in _OF_THE_SERVER}
    return {**item, "metadata": meta}
