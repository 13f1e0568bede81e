# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply objects by server-side apply, in order: the work of module apply_manifests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError

from .client import Client
from .object_diff import ObjectDiff
from .object_fields import title

#: Fields of metadata that the API server writes.
_OF_THE_SERVER = ("managedFields", "resourceVersion", "generation")


def apply(client: Client, manifests: Sequence[dict[str, Any]], check: bool = False) -> dict[str, Any]:
    """Apply manifests in order; return the keys ``changed``, ``applied`` and ``diff`` of the module's result.

    check: whether the API server only validates them. Raises InputError for an unknown kind, ApiError.
    """
    diff, applied = ObjectDiff(), []
    for one in manifests:
        meta = one["metadata"]
        before = client.get(client.kind_of(one), meta["name"], meta.get("namespace", ""))
        after = _applied(client, one, before is None and check, check)
        if before is None:
            diff.created(one)
        elif _content(before) != _content(after):
            diff.patched(before, one)
        else:
            continue
        applied.append(title(one))
    return {"changed": bool(applied), "applied": applied, "diff": diff.shown()}


def _applied(client: Client, manifest: dict[str, Any], new: bool, check: bool) -> dict[str, Any]:
    try:
        return client.apply(manifest, check=check)
    except ApiError as error:
        if new and error.status == 404:
            return manifest  # its namespace does not exist yet either
        raise


def _content(item: dict[str, Any]) -> dict[str, Any]:
    meta = {name: value for name, value in item["metadata"].items() if name not in _OF_THE_SERVER}
    return {**item, "metadata": meta}
