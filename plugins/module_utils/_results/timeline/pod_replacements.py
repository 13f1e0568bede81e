# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognize pods that failed or were deleted before they succeeded and were recreated, for example after a preemption.

They do not change the size of a gang. Once replaced, they count neither as members nor as having reached a stage, and
the times that only they reached are not the gang's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .seen_object import SeenObject

POD = "Pod"


class PodReplacements:
    """Unsuccessful pods by the row of their workload. ``known``: stage of a pod -> (bit, reducers)."""

    def __init__(self, kinds: Mapping[str, Any], known: Mapping[str, tuple[int, Any]]) -> None:
        ends = {one["name"]: one.get("ends") for one in (kinds.get(POD) or {}).get("stages") or []}
        self._good = sum(bit for name, (bit, _reducers) in known.items() if ends.get(name) == "succeeded")
        self._bad = sum(bit for name, (bit, _reducers) in known.items() if ends.get(name) == "failed")
        self._lost: dict[int, dict[int, SeenObject]] = {}  # row -> id of a pod's record -> the record

    def see(self, pod: SeenObject, event: str) -> None:
        """Record a pod after an event of it."""
        if (pod.stages & self._bad or event == "DELETED") and not pod.stages & self._good:
            self._lost.setdefault(pod.row, {})[id(pod)] = pod

    def settle(self, members: list[int], ended: Callable[[int], bool]) -> dict[int, tuple[int, list[int]]]:
        """Subtract the replaced pods from ``members``; return row -> (former count, stage bits of those replaced).

        ended: whether the workload of a row has ended. A workload that has not ended and lost all of its pods waits for
        new ones: its member count stays, but none of them has reached a stage. One that ended had no replacement.
        """
        found = {}
        for row, lives in self._lost.items():
            if len(lives) < members[row] or not ended(row):
                found[row] = (members[row], [life.stages for life in lives.values()])
                members[row] -= len(lives) if len(lives) < members[row] else 0
        return found
