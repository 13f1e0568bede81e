# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that failed or were deleted before they succeeded, and were made again: preempted, evicted, given up.

A gang is as large as it would be without them. So once others have taken their place they count neither as members nor
among those that got somewhere; moments that only they have reached are not the gang's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

POD = "Pod"


class PodReplacements:
    """Lives that came to nothing, by the row of their workload. ``known``: stages of a pod -> (bit, ways)."""

    def __init__(self, kinds: Mapping[str, Any], known: Mapping[str, tuple[int, Any]]) -> None:
        ends = {one["name"]: one.get("ends") for one in (kinds.get(POD) or {}).get("stages") or []}
        self._good = sum(bit for name, (bit, _ways) in known.items() if ends.get(name) == "succeeded")
        self._bad = sum(bit for name, (bit, _ways) in known.items() if ends.get(name) == "failed")
        self._lost: dict[int, dict[int, list[int]]] = {}  # row -> id of a life -> the life

    def see(self, row: int, life: list[int], event: str) -> None:
        """Take note of a pod after an event of it; ``life``: [bits of the stages that it has reached, version]."""
        if (life[0] & self._bad or event == "DELETED") and not life[0] & self._good:
            self._lost.setdefault(row, {})[id(life)] = life

    def settle(self, members: list[int], ended: Callable[[int], bool]) -> dict[int, tuple[int, list[int]]]:
        """Take the replaced out of ``members``; return row -> how many pods there were, bits of those replaced.

        ended: tells of a row whether its workload has ended. If not, and all of its pods are lost, it waits for others:
        its members stay, but none of them got anywhere. Of one that ended so, nothing was replaced.
        """
        found = {}
        for row, lives in self._lost.items():
            if len(lives) < members[row] or not ended(row):
                found[row] = (members[row], [life[0] for life in lives.values()])
                members[row] -= len(lives) if len(lives) < members[row] else 0
        return found
