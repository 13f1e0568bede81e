# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Delete objects and wait until they are deleted; name the finalizer that blocks a deletion."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import field_at, title

_SHORTEST_PAUSE = 0.1
_LONGEST_PAUSE = 1.0
_REPORT = 10.0

#: Share of the timeout after which finalizers are removed, where that was requested.
_PATIENCE = 0.5


@dataclass
class Deletion:
    """Titles of deleted objects and of objects whose finalizers were removed."""

    deleted: list[str] = field(default_factory=list)
    finalizers: list[str] = field(default_factory=list)


def delete_all(
    client: Client,
    objects: Sequence[dict[str, Any]],
    deadline: float,
    done: Deletion,
    say: Say,
    force_finalizers: bool = False,
) -> None:
    """Delete objects and wait until all are deleted, until ``deadline`` (time.monotonic()).

    Raises WaitTimeout naming the objects that still exist and what blocks their deletion.
    """
    if not objects:
        return
    say(f"deleting {', '.join(title(one) for one in objects[:5])}{' and more' if len(objects) > 5 else ''}")
    for one in objects:
        meta = one["metadata"]
        client.delete_seen(client.kind_of(one), meta["name"], meta.get("namespace", ""), meta["uid"])
    began = reported = time.monotonic()
    patience = began + (deadline - began) * _PATIENCE
    pause = _SHORTEST_PAUSE
    left = list(objects)
    while True:
        left = [found for one in left if (found := _still(client, one)) is not None]
        if not left:
            break
        now = time.monotonic()
        if force_finalizers and now >= patience:
            patience = deadline
            done.finalizers += [_free(client, one, say) for one in left if field_at(one, "metadata.finalizers")]
            continue
        if now >= deadline:
            raise WaitTimeout(
                f"after {now - began:.0f} s not deleted: {'; '.join(blocked(one) for one in left[:5])}"
                f"{f' and {len(left) - 5} more' if len(left) > 5 else ''}"
            )
        if now - reported >= _REPORT:
            reported = now
            say(f"waiting for the deletion of {blocked(left[0])}")
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
    done.deleted += [title(one) for one in objects]


def _still(client: Client, one: dict[str, Any]) -> dict[str, Any] | None:
    """Return the current state of the object, None if it is deleted."""
    meta = one["metadata"]
    found = client.get(client.kind_of(one), meta["name"], meta.get("namespace", ""))
    return found if found is not None and found["metadata"]["uid"] == meta["uid"] else None


def _free(client: Client, one: dict[str, Any], say: Say) -> str:
    meta = one["metadata"]
    text = f"{title(one)}: {', '.join(meta['finalizers'])}"
    say(f"removing the finalizers of {text}")
    path = client.kind_of(one).path(meta.get("namespace", ""), meta["name"])
    client.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
    return text


def blocked(one: dict[str, Any]) -> str:
    """Return an object's title and what blocks its deletion."""
    finalizers = field_at(one, "metadata.finalizers", [])
    if finalizers:
        return f"{title(one)} (held by finalizer {', '.join(finalizers)}, which its controller has not removed)"
    remaining = [
        condition.get("message", "")
        for condition in field_at(one, "status.conditions", [])
        if condition.get("status") == "True" and "Remaining" in str(condition.get("type"))
    ]
    return f"{title(one)}{f' ({remaining[0]})' if remaining else ''}"
