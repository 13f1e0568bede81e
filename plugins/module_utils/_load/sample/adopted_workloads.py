# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives the workloads of a load that others submit an index, in the order in which they are seen."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files

#: Types of the rows of observations.jsonl that record a workload, and an object from before the load.
WORKLOAD, EARLIER = "workload", "earlier"


class AdoptedWorkloads:
    """The workloads by uid. ``write`` gets rows as JSON, before those of the workload's events.

    kind: of the workloads. kinds: all sampled ones; an object that one of them owns is part of a workload, and not one
    itself. existing: whether objects of the first list are workloads.
    """

    def __init__(self, kind: str, kinds: Collection[str], existing: bool, write: Callable[[str], None]) -> None:
        self._kind = kind
        self._kinds = frozenset(kinds)
        self._existing = existing
        self._write = write
        self._index: dict[str, int] = {}
        self._earlier: set[str] = set()
        self._resumed = False

    def recall(self, record: dict[str, Any]) -> None:
        """Read a row of an earlier session. What is new since its first list belongs to the load."""
        if record["type"] == "watching" and record["kind"] == self._kind:
            self._resumed = True
        elif record["type"] == WORKLOAD:
            self._index[record["uid"]] = record["index"]
        elif record["type"] == EARLIER:
            self._earlier.add(record["uid"])

    def index_of(self, first: bool, metadata: dict[str, Any]) -> int | None:
        """Return the index of an object of the workloads' kind, None for one that is no workload.

        first: whether the first list of this session returned the object.
        """
        uid = metadata["uid"]
        index = self._index.get(uid)
        if index is not None or uid in self._earlier:
            return index
        if any(one.get("kind") in self._kinds for one in metadata.get("ownerReferences") or ()):
            return None
        if first and not self._existing and not self._resumed:
            self._earlier.add(uid)
            self._write(files.encode({"type": EARLIER, "uid": uid}))
            return None
        index = self._index[uid] = len(self._index)
        place = {"kind": self._kind, "namespace": metadata.get("namespace") or "", "name": metadata["name"], "uid": uid}
        self._write(files.encode({"type": WORKLOAD, "index": index, **place}))
        return index
