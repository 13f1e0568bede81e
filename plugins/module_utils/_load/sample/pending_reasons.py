# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why workloads wait: messages of the scheduler or of controllers, grouped and shortened to fit into one line."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

#: Maximum length of a reason, characters; maximum number of reasons in one line.
LONGEST, MOST = 120, 2
#: Interval between two counts, seconds: there may be thousands of messages.
_AGAIN = 1.0
#: The part of the scheduler's message about preemption.
_AFTERTHOUGHT = re.compile(r"[.,]?\s*(?:no new claims to deallocate,\s*)?preemption: .*", re.DOTALL)
#: What differs between similar messages: numbers, and names in quotation marks.
_OWN = re.compile(r"\"[^\"]*\"|'[^']*'|\d+")


@dataclass
class PendingReasons:
    """The message of each object that waits."""

    _messages: dict[str, tuple[int, bool, str]] = field(default_factory=dict)  # uid -> index, whether of a pod, message
    _changed: bool = field(default=False, compare=False)
    _counted: float = field(default=float("-inf"), compare=False)
    _reasons: list[tuple[int, str]] = field(default_factory=list, compare=False)

    def note(self, uid: str, index: int | None, reason: str, pod: bool) -> None:
        """Record the current message of an object; empty if it does not wait."""
        if not reason:
            if uid in self._messages:
                del self._messages[uid]
                self._changed = True
        elif index is not None and self._messages.get(uid) != (index, pod, reason):
            self._messages[uid] = (index, pod, reason)
            self._changed = True

    def reasons(self, gone_on: Callable[[int], bool]) -> list[tuple[int, str]]:
        """Return (number of workloads, reason), the most frequent reason first.

        gone_on: whether the workload of an index runs or has ended. Messages of pods take precedence.
        """
        now = time.monotonic()
        if (self._changed or self._reasons) and now - self._counted >= _AGAIN:
            self._counted, self._changed = now, False
            messages: dict[int, str] = {}
            for index, pod, reason in self._messages.values():
                if (pod or index not in messages) and not gone_on(index):
                    messages[index] = reason
            self._reasons = grouped(messages.values())
        return self._reasons


def grouped(reasons: Iterable[str], most: int = MOST) -> list[tuple[int, str]]:
    """Return (count, message) of the most frequent messages; messages that differ in numbers and names are equal."""
    counts: Counter[str] = Counter()
    example: dict[str, str] = {}
    for text, number in Counter(reasons).items():  # thousands of pods have the same message
        key = _OWN.sub("", text)
        counts[key] += number
        example.setdefault(key, text)
    return [(number, short(example[key])) for key, number in counts.most_common(most)]


def short(text: str) -> str:
    """Return a reason without the part on preemption, shortened to LONGEST characters."""
    text = " ".join(_AFTERTHOUGHT.sub("", text).split()).rstrip(".").replace(" nodes are available", " nodes available")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1].rstrip()}…"


def lines(reasons: Iterable[tuple[int, str]]) -> list[str]:
    """Return reasons as parts of a progress line."""
    return [f"{number} pending: {text}" for number, text in reasons]
