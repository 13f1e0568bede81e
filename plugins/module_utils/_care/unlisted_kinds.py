# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds that the server does not show: refused lists, and kinds that the API discovery lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ThreadPool
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import discovery
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.missing_resources import UNCONFIRMED

#: Number of concurrent requests.
_PARALLEL = 16

#: Groups of aggregated API servers in which nobody creates objects. These servers are missing on many clusters.
_GROUPS_OF_METRICS = ("metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io")


def list_metadata_or_refusal(client: Client, kind: ServedKind, namespace: str = "") -> list[dict[str, Any]] | str:
    """Return the metadata of all objects of a kind, or, if the server does not show them, why: ``Secret (403)``."""
    try:
        return client.list(kind, namespace, metadata_only=True)[0]
    except ApiError as error:
        if error.status == 404:
            return []
        if is_refusal(error):
            return format_refused_kind(kind, error)
        raise


def list_objects_of_kinds(
    client: Client, kinds: Sequence[ServedKind], namespace: str
) -> tuple[list[tuple[ServedKind, dict[str, Any]]], list[str]]:
    """Return the metadata of all objects of these kinds in a namespace, and the kinds that can't be listed.

    kinds: of those that the client has just discovered.
    """
    with ThreadPool(_PARALLEL) as pool:
        lists = list(pool.map(lambda kind: list_metadata_or_refusal(client, kind, namespace), kinds))
    listed = [
        (kind, item) for kind, items in zip(kinds, lists, strict=True) if not isinstance(items, str) for item in items
    ]
    return listed, [items for items in lists if isinstance(items, str)] + kinds_without_answer(client)


def kinds_without_answer(client: Client) -> list[str]:
    """Return which kinds the client could not discover, because the API server that has them does not answer."""
    return [
        discovery.format_unknown_kinds(entry)
        for entry in client.unknown_groups
        if discovery.group_of_unknown_kinds(entry) not in _GROUPS_OF_METRICS
    ]


def is_refusal(error: ApiError) -> bool:
    """Return whether the server did not show what it was asked for, so that nothing is known of it."""
    return error.status in (401, 403, 405, 429) or error.status >= 500 or error.reason == UNCONFIRMED


def format_refused_kind(kind: ServedKind, error: ApiError) -> str:
    """Return a kind that can't be listed, and the status: ``Secret (403)``."""
    return f"{kind.kind} ({error.status or 404})"


def hidden_kinds_of_run(
    client: Client, served: Iterable[ServedKind], groups: Collection[tuple[str, str]], run_id: str
) -> list[str]:
    """Return the kinds that the run created objects of, and that may exist although the discovery lacks them.

    served: what the client has just discovered. groups: API groups and kinds of what the run created. Raises ApiError
    if a group's API server does not answer, or if the definition of a kind exists.
    """
    lacking = sorted(set(groups) - {(kind.group, kind.kind) for kind in served})
    unknown = {discovery.group_of_unknown_kinds(entry): entry for entry in client.unknown_groups}
    for group, kind in lacking:
        if group in unknown:
            raise ApiError(
                f"run {run_id} created {kind} ({group}), which can't be listed now: the API discovery of "
                f"{client.access.server} lacks {discovery.format_unknown_kinds(unknown[group])}"
            )
    hidden = bool(lacking) and client.definitions_hidden
    return [f"{kind} ({group})" for group, kind in lacking if hidden and "." in group]
