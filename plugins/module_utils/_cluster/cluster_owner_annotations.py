# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a cluster is, said by the cluster itself: annotations of its namespace kube-system, which every cluster has.

Whoever finds a cluster and nothing else learns from it which run made it, for whom, what for, and until when.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client

PATH = "/api/v1/namespaces/kube-system"
PREFIX = "perfscale.seatrial/made-"

#: Keys of a cluster's record, also the ends of the annotations' names.
KEYS = ("run", "owner", "purpose", "taken", "expires")


def read(client: Client) -> dict[str, str]:
    """Return what a cluster says of itself; empty when it says nothing, or not to us."""
    try:
        found = client.request("GET", PATH)
    except ApiError as error:
        if error.status in (403, 404):
            return {}
        raise
    annotations = found["metadata"].get("annotations") or {}
    return {key: annotations[PREFIX + key] for key in KEYS if annotations.get(PREFIX + key)}


def write(client: Client, marks: dict[str, Any], check: bool = False) -> bool:
    """Have a cluster say this of itself; return whether that is new to it."""
    wanted = {key: str(marks[key]) for key in KEYS if marks.get(key)}
    if read(client) == wanted:
        return False
    if not check:
        annotations = {PREFIX + key: wanted.get(key) for key in KEYS}
        client.request("PATCH", PATH, {"metadata": {"annotations": annotations}}, content_type=MERGE_PATCH)
    return True
