# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Annotations that name the owner of a cluster, on its namespace kube-system, which every cluster has.

They identify run, owner, purpose and expiry of a cluster whose run directory is lost.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client

PATH = "/api/v1/namespaces/kube-system"
PREFIX = "perfscale.seatrial/made-"

#: Keys of a cluster's record, and suffixes of the annotations.
KEYS = ("run", "owner", "purpose", "taken", "expires")


def read(client: Client) -> dict[str, str]:
    """Return the annotations by key; empty if there are none or they may not be read."""
    try:
        found = client.request("GET", PATH)
    except ApiError as error:
        if error.status in (403, 404):
            return {}
        raise
    annotations = found["metadata"].get("annotations") or {}
    return {key: annotations[PREFIX + key] for key in KEYS if annotations.get(PREFIX + key)}


def write(client: Client, values: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Write the annotations; return whether they differ from the existing ones, and both. check: only compare."""
    wanted = {key: str(values[key]) for key in KEYS if values.get(key)}
    before = read(client)
    if before != wanted and not check:
        annotations = {PREFIX + key: wanted.get(key) for key in KEYS}
        client.request("PATCH", PATH, {"metadata": {"annotations": annotations}}, content_type=MERGE_PATCH)
    return {"changed": before != wanted, "diff": {"before": before, "after": wanted}}
