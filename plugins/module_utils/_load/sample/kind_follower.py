# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Follows one kind: a list, then watches from there on, without missing an event that the server still has."""

from __future__ import annotations

import threading
import time
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import SignalBlockingThread
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import Broken
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.partial_json_decoder import Decoder
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import (
    WatchConnection,
    error_from_watch_event,
)

from .watch_multiplexer import Item, WatchMultiplexer

#: First and longest pause before a broken watch is reopened, seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
#: Pause after an error that the server sent in a watch, seconds.
_PAUSE_AFTER_ERROR = 0.5
#: A watch that ends sooner and without an event is a short one; after several in a row there are pauses, seconds.
_SHORT_LIFE = 1.0
#: Types of events other than errors.
_TYPES = frozenset(("ADDED", "MODIFIED", "DELETED", "BOOKMARK"))
#: Minimum duration of a broken watch, resumed without loss, that is recorded as a gap, seconds.
_SHORTEST_GAP = 1.0

#: What happened, in the items (number of the follower, what, time.monotonic(), payload) for the multiplexer. Payloads:
#: WATCH (an event as ``decode`` returns it, the same as JSON); LIST, RELIST a list of objects (one page); LISTED (how,
#: resourceVersion); WATCHING the resourceVersion; GAP (since, as time.monotonic(), reason); FAILED the exception that
#: ended the follower.
WATCH, LIST, RELIST, LISTED, WATCHING, GAP, FAILED = "watch", "list", "relist", "listed", "watching", "gap", "failed"


class KindFollower(SignalBlockingThread):
    """Reports the events of one kind, with receive times taken before parsing.

    ``decode`` returns at least type and resourceVersion of an event as JSON. This thread lists and opens watches. The
    multiplexer's thread reads them, and calls hear() and over().
    """

    def __init__(
        self,
        number: int,
        client: Client,
        kind: ServedKind,
        namespace: str,
        selector: str,
        out: WatchMultiplexer,
        decode: Decoder,
        fields: str = "",
        patient: bool = False,
    ) -> None:
        """``patient``: what the server refuses at first may be permitted later, because the kind is new."""
        super().__init__(name=f"watch {kind.kind}", daemon=True)
        self.kind = kind
        self.cpu = 0.0  # processor time, seconds; set when the thread has ended
        self._number = number
        self._client = client
        self._namespace = namespace
        self._selector = selector
        self._fields = fields
        self._out = out
        self._decode = decode
        self._over = threading.Event()
        self._read = threading.Event()  # the watch that the multiplexer reads has ended
        self._error: ApiError | None = None  # that the server sent in the watch
        self._watch: WatchConnection | None = None
        self._version = ""
        self._last_at = time.monotonic()  # of the last line that was no error
        self._last_version = ""  # of the last line of the watch
        self._broken_since: float | None = None
        self._established = patient
        self._short_watches = 0  # in a row

    def run(self) -> None:
        """List and watch until close()."""
        try:
            self._list(LIST)
            first = True
            while not self._over.is_set():
                self._follow(first)
                first = False
        except Exception as error:
            if not self._over.is_set():
                self._put(FAILED, time.monotonic(), error)
        finally:
            self.cpu = time.thread_time()

    def close(self) -> None:
        """End after the multiplexer has read what was received before."""
        self._over.set()
        self.interrupt()

    def _put(self, what: str, at: float, payload: Any) -> None:
        self._out.put((self._number, what, at, payload))

    def _list(self, how: str) -> None:
        """List everything, page by page; restart a list that expired between two pages."""
        pause = _FIRST_PAUSE
        while not self._over.is_set():
            try:
                version = ""
                for page in self._client.pages(self.kind, self._namespace, self._selector, self._fields):
                    self._put(how, time.monotonic(), page["items"])
                    version = page["metadata"].get("resourceVersion") or version
                self._version, self._last_version = version, ""
                self._last_at = time.monotonic()
                self._put(LISTED, self._last_at, (how, version))
                return
            except (AccessError, ApiError) as error:
                pause = self._rest(pause, error)

    def _follow(self, first: bool) -> None:
        """Watch from the last resourceVersion until the server ends the watch or it breaks."""
        pause = _FIRST_PAUSE
        while not self._over.is_set():
            try:
                self._watch = watch = WatchConnection(
                    self._client, self.kind, self._version, self._namespace, self._selector, self._fields
                )
            except ApiError as error:
                if error.status == 410:
                    if pause > _FIRST_PAUSE:  # again: the server refuses what it has just listed
                        self._over.wait(pause)
                    pause = min(pause * 2, _LONGEST_PAUSE)
                    self._relist(error)
                    continue
                pause = self._rest(pause, error)
                continue
            except AccessError as error:
                pause = self._rest(pause, error)
                continue
            now = watch.established
            self._established = True
            if first:
                self._put(WATCHING, now, self._version)
            elif pause > _FIRST_PAUSE and now - self._last_at > _SHORTEST_GAP:
                self._broken_since = self._last_at
            if self._over.is_set():
                watch.close()
            self._read.clear()
            self._out.attach(self, watch.stream)
            self._read.wait()
            self._ended(now)
            return

    def hear(self, at: float, line: bytes, items: list[Item]) -> None:
        """Process a line of the watch; add its items to ``items``."""
        if not line or self._error is not None:
            return
        try:
            event = self._decode(line)
            version = "" if event["type"] == "ERROR" else event["object"]["metadata"]["resourceVersion"]
            error = error_from_watch_event(parse_json(line)) if event["type"] == "ERROR" else None
            if error is None and not (event["type"] in _TYPES and isinstance(version, str)):
                raise TypeError
        except (LookupError, TypeError, ValueError):
            error = ApiError(f"watch {self.kind.kind}: {self._client.access.server} sent a line that is no event")
        if error is not None:
            self._error = error
            self.interrupt()
            return
        self._last_at, self._last_version = at, version
        if self._broken_since is not None:
            # Only now is it certain that the server still had the events after our last one.
            why = "resumed: the watch broke and was resumed where it had stopped"
            items.append((self._number, GAP, at, (self._broken_since, why)))
            self._broken_since = None
        if event["type"] != "BOOKMARK":
            items.append((self._number, WATCH, at, (event, line)))

    def over(self, _error: Broken | None) -> None:
        """The watch ended or broke: the next one resumes after the last line."""
        self._read.set()

    def interrupt(self) -> None:
        """End the current watch."""
        watch = self._watch
        if watch is not None:
            watch.close()

    def _ended(self, established: float) -> None:
        is_short = not self._last_version and time.monotonic() - established < _SHORT_LIFE
        self._short_watches = self._short_watches + 1 if is_short else 0
        if self._last_version:
            self._version, self._last_version = self._last_version, ""
        error, self._error = self._error, None
        if error is not None:
            self._answer_error(error)
        if self._short_watches > 1:  # watches that end at once would use a whole processor, here and on the server
            self._over.wait(min(_FIRST_PAUSE * 2**self._short_watches, _LONGEST_PAUSE))

    def _answer_error(self, error: ApiError) -> None:
        """Handle an error with which the server ended the watch."""
        if error.status == 410:
            self._relist(error)
        else:
            self._over.wait(_PAUSE_AFTER_ERROR)

    def _relist(self, error: ApiError) -> None:
        """The server no longer has the events after our last one: list, and record the gap."""
        since = self._last_at
        self._last_version, self._broken_since = "", None
        self._list(RELIST)
        self._put(GAP, time.monotonic(), (since, f"relisted: {error}"))

    def _rest(self, pause: float, error: Exception) -> float:
        """Pause before another attempt; raise a permanent error.

        A refusal of what was permitted before is transient: an API server that has just started refuses until it has
        read the RBAC objects.
        """
        permanent = not isinstance(error, Broken)
        if isinstance(error, ApiError):
            permanent = error.status in (400, 403, 404, 405, 406)
        if permanent and not self._established:
            raise error
        self._over.wait(pause)
        return min(pause * 2, _LONGEST_PAUSE)
