# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The progress of the workloads of a load: seen, running, ended, and why others wait.

The reasons are messages of the scheduler or of controllers, grouped and shortened to fit into one line.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

#: Maximum length of a reason, characters; maximum number of reasons in one line.
MAX_LENGTH, MAX_REASONS = 120, 2
#: Interval between two counts, seconds: there may be thousands of messages.
_AGAIN = 1.0
#: The part of the scheduler's message about preemption.
_AFTERTHOUGHT = re.compile(r"[.,]? {0,2}(?:no new claims to deallocate, {0,2})?preemption: .*", re.DOTALL)
#: How a controller begins the message of a pod that the API server refuses; what follows is the reason.
_REFUSED_POD = re.compile(r"^(?:Error creating: )?pods \"[^\"]{1,300}\" is forbidden: ")
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
            self._reasons = group_messages(messages.values())
        return self._reasons


def group_messages(reasons: Iterable[str], most: int = MAX_REASONS) -> list[tuple[int, str]]:
    """Return (count, message) of the most frequent messages; messages that differ in numbers and names are equal."""
    counts: Counter[str] = Counter()
    example: dict[str, str] = {}
    for text, number in Counter(reasons).items():  # thousands of pods have the same message
        key = _OWN.sub("", text)
        counts[key] += number
        example.setdefault(key, text)
    return [(number, shorten_pending_reason(example[key])) for key, number in counts.most_common(most)]


def shorten_pending_reason(text: str) -> str:
    """Return a reason without the part on preemption, shortened to MAX_LENGTH characters."""
    text = (
        " ".join(_AFTERTHOUGHT.sub("", _REFUSED_POD.sub("", text)).split())
        .rstrip(".")
        .replace(" nodes are available", " nodes available")
    )
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1].rstrip()}…"


def format_pending_reasons(reasons: Iterable[tuple[int, str]]) -> list[str]:
    """Return reasons as parts of a progress line."""
    return [f"{number} pending: {text}" for number, text in reasons]


@dataclass
class WorkloadTally:
    """The workloads by index."""

    seen: set[int] = field(default_factory=set)
    running: set[int] = field(default_factory=set)
    ended: dict[int, str] = field(default_factory=dict)  # succeeded, failed or deleted
    pending: PendingReasons = field(default_factory=PendingReasons)
    #: (Index, since when) of workloads that succeeded and were not yet reported, on the point's clock; None: not kept.
    completed: list[tuple[int, float]] | None = None
    #: Stage of the workloads to report, empty for none; (index, that stage or the outcome) not yet reported.
    reports: str = ""
    reached: list[tuple[int, str]] = field(default_factory=list)

    _outcomes: Counter[str] = field(default_factory=Counter)
    _over: int = 0  # number of workloads that ran and have ended
    _reported: set[int] = field(default_factory=set)

    def run(self, index: int) -> None:
        """Record that an object of a workload runs."""
        if index not in self.running:
            self.running.add(index)
            self._over += index in self.ended

    def reach(self, index: int) -> None:
        """Record that a workload has reached the stage to report."""
        if index not in self._reported:
            self._reported.add(index)
            self.reached.append((index, self.reports))

    def end(self, index: int, outcome: str, at: float) -> None:
        """Record that a workload has ended, seen at ``at`` on the point's clock; only the first end counts."""
        if index not in self.ended:
            if self.completed is not None and outcome == "succeeded":
                self.completed.append((index, round(at, 3)))
            if self.reports:
                self.reached.append((index, outcome))
            self.ended[index] = outcome
            self._outcomes[outcome] += 1
            self._over += index in self.running

    def counts(self) -> dict[str, int]:
        """Return the numbers seen, running (and not ended), succeeded, failed, deleted, in constant time."""
        outcomes = {name: self._outcomes[name] for name in ("succeeded", "failed", "deleted")}
        return {"seen": len(self.seen), "running": len(self.running) - self._over, **outcomes}

    def waiting(self, most: int) -> list[int]:
        """Return the first ``most`` workloads that were seen and have not ended."""
        return sorted(self.seen - self.ended.keys())[:most]

    def reasons(self) -> list[tuple[int, str]]:
        """Return why workloads wait that do not run: (number, reason)."""
        return self.pending.reasons(lambda index: index in self.running or index in self.ended)
