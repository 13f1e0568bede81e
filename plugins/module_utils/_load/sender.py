# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One connection that creates objects: what an answer means, when to try again, what the ledger is told.

An object is created by POST under a name that was planned. So whatever went wrong before, the question "is it
there, and is it ours" has an answer: 409 with our labels means that an earlier attempt of ours did arrive.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ansible_collections.perfscale.seatrial.plugins.module_utils import _labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._clock import Clock
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_access import Access
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import status_of
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import (
    METADATA,
    Broken,
    Connection,
    Reply,
    request_bytes,
    request_head,
    with_body,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.create_attempt import AttemptRows, CreateAttempt
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.ledger import (
    ALREADY_MINE,
    AMBIGUOUS,
    CREATED,
    REFUSED,
    RETRY,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._plan.template_renderer import Document

FIELD_MANAGER = "perfscale-seatrial"
#: Answers after which the same request may succeed a little later.
_PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))
#: How long (seconds) a server may refuse what it allowed before: one that has just started does not know yet who may
#: do what, and says 403 meanwhile.
FORGETFUL = 30.0
#: First, longest pause before another attempt, seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class Halted(Exception):
    """The load is being stopped; the object that was under way stays as it is and is found when the run goes on."""


@dataclass
class PermissionState:
    """What all senders know of our permissions: since when (time.monotonic()) nothing but refusals has come."""

    refused_since: float | None = None

    def may_pass(self, message: str) -> bool:
        """Tell whether a 403 with this message may go away by itself: the authorizer's, for less than a while."""
        if 'User "' not in message or " cannot " not in message:
            return False  # an admission plugin's, such as a quota
        now = time.monotonic()
        if self.refused_since is None:
            self.refused_since = now
        return now - self.refused_since < FORGETFUL


@dataclass(frozen=True)
class SenderSettings:
    """What all senders share. Times in seconds."""

    access: Access
    clock: Clock
    write: Callable[[str], None]  # gets rows of the ledger as JSON
    request_timeout: float
    retry_time: float
    run: str
    point: str
    standing: PermissionState = field(default_factory=PermissionState)


class Sender:
    """Creates objects over a connection of its own, one after another."""

    def __init__(self, settings: SenderSettings, number: int, halt: threading.Event) -> None:
        self.settings = settings
        self.halt = halt
        self.rows = AttemptRows(settings.write, settings.clock, number)
        self.connection = Connection(settings.access, settings.request_timeout)
        self._heads: dict[str, tuple[str, bytes]] = {}  # by path: the authorization shown, everything up to the length
        self._jitter = random.Random(number)

    def warm(self) -> None:
        """Open the connection ahead of the first object, whose time should not hold a TLS handshake."""
        self.connection.exchange(
            request_bytes(self.settings.access, request_head(self.settings.access, "GET", "/version"))
        )

    def create(self, document: Document, index: int, due: float | None) -> tuple[str, float]:
        """Create one object. ``due``: when it was to be sent (time.monotonic()), None if as soon as possible.

        Returns the final outcome (created, already_mine, refused) and when the first attempt was sent
        (time.monotonic()). Raises Halted, and AccessError when the server gave no answer for ``retry_time``.
        """
        body = document.body(index)
        task = CreateAttempt(document, index, due, self.rows)
        began = time.monotonic()
        while True:
            outcome = self._attempt(task, body, time.monotonic() - began > self.settings.retry_time)
            if outcome in (CREATED, ALREADY_MINE, REFUSED):
                return outcome, task.first_sent

    def _attempt(self, task: CreateAttempt, body: bytes, last: bool) -> str:
        """Send the object once; return how that ended, after the pause that another attempt needs."""
        head = self._head(task)
        before = time.monotonic()
        try:
            reply = self.connection.exchange(b"%b%d\r\n\r\n%b" % (head, len(body), body))
        except Broken as error:
            task.row(AMBIGUOUS if error.sent else RETRY, None, message=str(error), sent=before)
            if last:
                raise self._silent(error) from error
            self._pause(task.attempts)
            return self._resolve(task, last) if error.sent else RETRY
        if reply.status == 201:
            self.settings.standing.refused_since = None
            task.created(reply)
            return CREATED
        if reply.status == 409:
            return self._resolve(task, last, reply)
        return self._refusal(task, reply, last)

    def _refusal(self, task: CreateAttempt, reply: Reply, last: bool) -> str:
        reason, message = status_of(reply)
        if reply.status == 401:
            # Once: credentials that were just read and are refused too will not get better.
            task.refreshed += 1
            task.row(RETRY, reply, reason, message)
            if task.refreshed > 1 or not self.settings.access.refresh(task.shown):
                raise AccessError(
                    f"{self.settings.access.server} refuses our credentials (401) from {self.settings.access.source}"
                )
            self.connection.close()  # a client certificate is shown when a connection is opened
            return RETRY
        passing = reply.status in _PASSING or (reply.status == 403 and self.settings.standing.may_pass(message))
        if not passing or last:
            task.row(REFUSED, reply, reason, message)
            return REFUSED
        task.row(RETRY, reply, reason, message)
        self._pause(task.attempts, reply.header("retry-after"))
        return RETRY

    def _resolve(self, task: CreateAttempt, last: bool, conflict: Reply | None = None) -> str:
        """Look whether the object is there and ours: after 409 (``conflict``), or when no answer had come."""
        path = f"{task.document.path}/{task.name}"
        head = request_head(self.settings.access, "GET", path, METADATA)
        before = time.monotonic()
        try:
            reply = self.connection.exchange(request_bytes(self.settings.access, head))
        except Broken as error:
            if conflict is None:
                task.row(AMBIGUOUS, None, message=str(error), sent=before)
            else:
                task.row(RETRY, conflict, message=str(error))
            if last:
                raise self._silent(error) from error
            self._pause(task.attempts)
            return RETRY
        if reply.status == 200:
            metadata = json.loads(reply.body)["metadata"]
            held = metadata.get("labels") or {}
            ours = _labels.of(self.settings.run, self.settings.point, task.index)
            if all(held.get(key) == value for key, value in ours.items()):
                # No resourceVersion: the answer's may be of a later write, and would mislead the ruler.
                task.row(ALREADY_MINE, conflict or reply, uid=metadata.get("uid"))
                return ALREADY_MINE
            message = f"{path} exists and does not carry this load's labels"
            task.row(REFUSED, conflict or reply, "AlreadyExists", message)
            return REFUSED
        if reply.status == 404:
            if conflict is not None:
                # It was there a moment ago and is gone: being deleted. The next POST tells.
                task.row(RETRY if not last else REFUSED, conflict, *status_of(conflict))
                if last:
                    return REFUSED
                self._pause(task.attempts)
            return RETRY
        return self._refusal(task, reply, last)

    def _silent(self, error: Broken) -> AccessError:
        return AccessError(
            f"{error}; tried for {self.settings.retry_time:g} s. Run the same again: what is missing will be created"
        )

    def _pause(self, attempts: int, retry_after: str | None = None) -> None:
        """Wait as the server asked, else twice as long each time, with jitter. Raises Halted."""
        pause = min(_FIRST_PAUSE * 2 ** (attempts - 1), _LONGEST_PAUSE)
        pause *= self._jitter.uniform(0.5, 1.0)
        if retry_after and retry_after.isdigit():
            # What the server asks for, and not everybody at once when it has passed.
            pause = min(int(retry_after), self.settings.retry_time) + pause
        if self.halt.wait(pause):
            raise Halted

    def _head(self, task: CreateAttempt) -> bytes:
        """Return a request as far as it is the same for all objects of a kind, as long as our credentials are."""
        access, path = self.settings.access, task.document.path
        task.shown = access.authorization
        shown, head = self._heads.get(path, ("", b""))
        if not head or shown != task.shown:
            head = with_body(access, request_head(access, "POST", f"{path}?fieldManager={FIELD_MANAGER}", METADATA))
            self._heads[path] = (task.shown, head)
        return head
