# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""requests.jsonl, the ledger of requests, and what a call finds in it that continues a load.

A request is sent once: a call that finds its line ``sent`` does not send it again, whether or not it was answered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.capacity_search import SearchStep
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import JsonlAppender

from .inference_request import LOST

FILE = "requests.jsonl"
SCHEMA = "requests/1"
#: Seconds between two syncs of the file to disk.
_SYNC_INTERVAL = 1.0


@dataclass
class PastRequests:
    """What has been done, first by earlier calls. ``spent``: seconds from the start of each to its last line, together.

    started: when the load would have started without the pauses between the calls.
    steps: first index and rate of each step of a search; records: its requests that have ended.
    """

    sent: set[int] = field(default_factory=set)
    outcomes: dict[int, str] = field(default_factory=dict)
    anchor: dict[str, Any] | None = None
    started: float | None = None
    spent: float = 0.0
    steps: list[tuple[int, float]] = field(default_factory=list)
    records: dict[int, dict[str, Any]] = field(default_factory=dict)

    def take(self, record: dict[str, Any]) -> None:
        """Add one line."""
        kind = record["type"]
        if kind == "sent":
            self.sent.add(record["index"])
        elif kind == "request":
            self.outcomes[record["index"]] = record["outcome"]
            if self.steps:
                self.records[record["index"]] = record
        elif kind == "step":
            self.steps.append((record["index"], record["rate"]))
        elif kind == "start":
            self.started = record["at"] - self.spent
        elif kind == "session":
            self.anchor = self.anchor or record["anchor"]
        last = record.get("ended") or record.get("sent")
        if self.started is not None and last:
            self.spent = max(self.spent, last - self.started)

    def note_ended(self, index: int, outcome: str) -> None:
        """Add a request of this call that has ended."""
        self.sent.add(index)
        self.outcomes[index] = outcome

    def ended_steps(self, kept: Callable[[dict[str, Any]], bool]) -> list[SearchStep]:
        """Return what the steps of a search have shown, without one that was interrupted."""
        ends = [*(index for index, _rate in self.steps[1:]), float("inf")]
        found = []
        for (first, rate), end in zip(self.steps, ends, strict=False):  # without a step there is one end
            sent = [index for index in self.sent if first <= index < end]
            records = [self.records[index] for index in sent if index in self.records]
            if sent and len(records) == len(sent) and all(record["outcome"] != LOST for record in records):
                found.append(SearchStep(rate, len(sent), sum(map(kept, records))))
        return found

    @property
    def lost(self) -> int:
        """Number of requests that were sent and never answered."""
        return len(self.sent - self.outcomes.keys())


def open_request_log(path: Path) -> tuple[JsonlAppender, PastRequests]:
    """Lock the file of a point, cut off a torn last line, and return it with its content."""
    log = JsonlAppender(path, SCHEMA, "client")
    try:
        past = PastRequests()
        for record in files.read_json_lines(path):
            past.take(record)
        return log, past
    except BaseException:
        log.close()
        raise


@contextmanager
def synced(log: JsonlAppender) -> Iterator[None]:
    """Sync the file to disk once a second, on a separate thread because that may take long."""
    over = threading.Event()

    def sync() -> None:
        while not over.wait(_SYNC_INTERVAL):
            with suppress(OSError):
                log.sync()

    thread = signals.SignalBlockingThread(target=sync, name="sync", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
