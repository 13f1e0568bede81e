# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at an object by its name, and delete it only if it belongs to the run: others may use the same name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels

from .client import Client
from .discovery import ServedKind
from .object_accessors import get_label


def get_object_of_run(client: Client, kind: ServedKind, name: str, namespace: str, run: str) -> dict[str, Any] | None:
    """Return an object, with its metadata only; None if there is none, or one without the run's label."""
    resource = client.get(kind, name, namespace, metadata_only=True)
    return resource if resource is not None and get_label(resource, run_labels.RUN) == run else None


def delete_object_of_run(client: Client, kind: ServedKind, name: str, namespace: str, run: str, **options: Any) -> bool:
    """Delete an object that has the run's label; return whether there was one. options: fields of DeleteOptions."""
    resource = get_object_of_run(client, kind, name, namespace, run)
    return resource is not None and client.delete_seen(kind, resource["metadata"], **options)


def delete_manifests_of_run(
    client: Client, manifests: Sequence[dict[str, Any]], run: str, check: bool = False
) -> list[str]:
    """Delete the objects of manifests, in their order, that have the run's label; return kind and name of each.

    check: change nothing. Without a run, those without the label are deleted.
    """
    deleted = []
    for manifest in manifests:
        kind, meta = client.kind_of(manifest), manifest["metadata"]
        resource = get_object_of_run(client, kind, meta["name"], meta.get("namespace", ""), run)
        if resource is not None and (check or client.delete_seen(kind, resource["metadata"])):
            deleted.append(f"{kind.kind} {meta['name']}")
    return deleted
