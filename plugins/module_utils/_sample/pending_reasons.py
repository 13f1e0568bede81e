# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why workloads wait, in the words of the scheduler or a controller, grouped so that a line can hold them."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

#: Characters of a reason at most, and reasons that are told at once.
LONGEST, MOST = 120, 2
#: Seconds between two times that all are counted: there may be thousands.
_AGAIN = 1.0
#: The scheduler says in the same message what preemption would bring.
_AFTERTHOUGHT = re.compile(r"[.,]?\s*(?:no new claims to deallocate,\s*)?preemption: .*", re.DOTALL)
#: What differs between two messages that say the same: numbers, and names in quotation marks.
_OWN = re.compile(r"\"[^\"]*\"|'[^']*'|\d+")


@dataclass
class PendingReasons:
    """What is said of each object that does not get on."""

    _said: dict[str, tuple[int, bool, str]] = field(default_factory=dict)  # uid -> index, whether of a pod, what
    _changed: bool = field(default=False, compare=False)
    _counted: float = field(default=float("-inf"), compare=False)
    _reasons: list[tuple[int, str]] = field(default_factory=list, compare=False)

    def note(self, uid: str, index: int | None, reason: str, pod: bool) -> None:
        """Take note of what is said of an object now; empty: nothing hinders it."""
        if not reason:
            if uid in self._said:
                del self._said[uid]
                self._changed = True
        elif index is not None and self._said.get(uid) != (index, pod, reason):
            self._said[uid] = (index, pod, reason)
            self._changed = True

    def reasons(self, gone_on: Callable[[int], bool]) -> list[tuple[int, str]]:
        """Return how many workloads wait and why, the most frequent reasons first.

        gone_on: whether the workload of an index runs or has ended. What a pod says counts before what others say.
        """
        now = time.monotonic()
        if (self._changed or self._reasons) and now - self._counted >= _AGAIN:
            self._counted, self._changed = now, False
            said: dict[int, str] = {}
            for index, pod, reason in self._said.values():
                if (pod or index not in said) and not gone_on(index):
                    said[index] = reason
            self._reasons = grouped(said.values())
        return self._reasons


def grouped(reasons: Iterable[str], most: int = MOST) -> list[tuple[int, str]]:
    """Return (how often, what) for what is said most; what differs in numbers and names only is one."""
    counts: Counter[str] = Counter()
    example: dict[str, str] = {}
    for text in reasons:
        key = _OWN.sub("", text)
        counts[key] += 1
        example.setdefault(key, text)
    return [(number, short(example[key])) for key, number in counts.most_common(most)]


def short(text: str) -> str:
    """Return a reason without what only repeats it, and no longer than a line can hold."""
    text = " ".join(_AFTERTHOUGHT.sub("", text).split()).rstrip(".").replace(" nodes are available", " nodes available")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1].rstrip()}…"


def told(reasons: Iterable[tuple[int, str]]) -> list[str]:
    """Return reasons as parts of a line of progress."""
    return [f"{number} pending: {text}" for number, text in reasons]
