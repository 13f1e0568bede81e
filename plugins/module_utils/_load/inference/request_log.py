# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""requests.jsonl, the ledger of requests, and what a call finds in it that continues a load.

A request is sent once: a call that finds its line ``sent`` does not send it again, whether or not it was answered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import JsonlAppender

FILE = "requests.jsonl"
SCHEMA = "requests/1"


@dataclass
class PastRequests:
    """What earlier calls have done. ``spent``: seconds from the start of the load to their last line."""

    sent: set[int] = field(default_factory=set)
    outcomes: dict[int, str] = field(default_factory=dict)
    anchor: dict[str, Any] | None = None
    started: float | None = None
    spent: float = 0.0

    def take(self, record: dict[str, Any]) -> None:
        """Add one line."""
        kind = record["type"]
        if kind == "sent":
            self.sent.add(record["index"])
        elif kind == "request":
            self.outcomes[record["index"]] = record["outcome"]
        elif kind == "start" and self.started is None:
            self.started = record["at"]
        elif kind == "session":
            self.anchor = self.anchor or record["anchor"]
        last = record.get("ended") or record.get("sent")
        if self.started is not None and last:
            self.spent = max(self.spent, last - self.started)

    @property
    def lost(self) -> int:
        """Number of requests that were sent and never answered."""
        return len(self.sent - self.outcomes.keys())


def open_request_log(path: Path) -> tuple[JsonlAppender, PastRequests]:
    """Lock the file of a point, cut off a torn last line, and return it with its content."""
    log = JsonlAppender(path, SCHEMA, "client")
    try:
        past = PastRequests()
        for record in files.read_lines(path):
            past.take(record)
        return log, past
    except BaseException:
        log.close()
        raise
