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
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files, _labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._clock import Clock
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.access import Access
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import status_of
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import (
    METADATA,
    Broken,
    Connection,
    Reply,
    request_bytes,
    request_head,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.ledger import (
    ALREADY_MINE,
    AMBIGUOUS,
    CREATED,
    REFUSED,
    RETRY,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.render import Document

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
class Standing:
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
class Settings:
    """What all senders share. Times in seconds."""

    access: Access
    clock: Clock
    write: Callable[[str], None]  # gets rows of the ledger as JSON
    request_timeout: float
    retry_time: float
    run: str
    point: str
    standing: Standing = field(default_factory=Standing)


class Sender:
    """Creates objects over a connection of its own, one after another."""

    def __init__(self, settings: Settings, number: int, halt: threading.Event) -> None:
        self.settings = settings
        self.number = number
        self.halt = halt
        self.repeated: Counter[int] = Counter()  # HTTP status (0: none came) -> attempts that had to be repeated
        self.connection = Connection(settings.access, settings.request_timeout)
        self._heads: dict[str, tuple[str, bytes]] = {}  # by path: the authorization shown, everything up to the length
        self.moves = settings.clock.wall - settings.clock.monotonic  # from time.monotonic() to the point's clock
        self._flows: dict[tuple[str, str | None], str] = {}
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
        task = _Task(document, index, due, self)
        began = time.monotonic()
        while True:
            outcome = self._attempt(task, body, time.monotonic() - began > self.settings.retry_time)
            if outcome in (CREATED, ALREADY_MINE, REFUSED):
                return outcome, task.first_sent

    def _attempt(self, task: _Task, body: bytes, last: bool) -> str:
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

    def _refusal(self, task: _Task, reply: Reply, last: bool) -> str:
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

    def _resolve(self, task: _Task, last: bool, conflict: Reply | None = None) -> str:
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

    def flow(self, head: bytes) -> str:
        """Return what a ledger's row says of the flow schema that an answer names, as JSON after a comma."""
        schema = exact_header(head, b"X-Kubernetes-Pf-Flowschema-Uid: ")
        if not schema:
            return ""
        key = (schema, exact_header(head, b"X-Kubernetes-Pf-Prioritylevel-Uid: "))
        said = self._flows.get(key)
        if said is None:
            said = self._flows[key] = (
                f",{_files.encode(dict(zip(('flow_schema', 'priority_level'), key, strict=True)))[1:-1]}"
            )
        return said

    def _head(self, task: _Task) -> bytes:
        """Return a request as far as it is the same for all objects of a kind, as long as our credentials are."""
        access, path = self.settings.access, task.document.path
        task.shown = access.authorization
        shown, head = self._heads.get(path, ("", b""))
        if not head or shown != task.shown:
            head = request_head(access, "POST", f"{path}?fieldManager={FIELD_MANAGER}", METADATA)
            head = request_bytes(access, head, b"-").removesuffix(b"1\r\n\r\n-")
            self._heads[path] = (task.shown, head)
        return head


class _Task:
    """One object on its way, and the rows that the ledger gets about it."""

    __slots__ = ("document", "index", "name", "due", "attempts", "first_sent", "shown", "refreshed", "_sender")

    def __init__(self, document: Document, index: int, due: float | None, sender: Sender) -> None:
        self.document = document
        self.index = index
        self.name = document.name(index)
        self.due = due
        self.attempts = 0
        self.first_sent = 0.0
        self.shown = ""  # the authorization of the last attempt
        self.refreshed = 0
        self._sender = sender

    def created(self, reply: Reply) -> None:
        """Write that the object was created: row() for what happens most, written out since it costs a third so."""
        uid, version = identity(reply.body)
        sender = self._sender
        moves = sender.moves
        self.attempts += 1
        if self.attempts == 1:
            self.first_sent = reply.sent
        sender.settings.write(
            f'{{"type":"attempt","index":{self.index},"name":"{self.name}","kind":"{self.document.kind}",'
            f'"attempt":{self.attempts},"intended":{moves + (reply.sent if self.due is None else self.due):.6f},'
            f'"sent":{moves + reply.sent:.6f},"answered":{moves + reply.answered:.6f},"status":{reply.status},'
            f'"outcome":"{CREATED}","connection":{sender.number},"resource_version":{_files.encode(version)},'
            f'"uid":{_files.encode(uid)}{sender.flow(reply.head)}}}'
        )

    def row(
        self,
        outcome: str,
        reply: Reply | None,
        reason: str = "",
        message: str = "",
        uid: str | None = None,
        sent: float = 0.0,
    ) -> None:
        """Write one attempt. ``sent``: when it was sent, for one that has no reply."""
        settings = self._sender.settings
        moves = self._sender.moves
        if reply is not None:
            sent = reply.sent
        answered = reply.answered if reply is not None else time.monotonic()
        self.attempts += 1
        if self.attempts == 1:
            self.first_sent = sent
        record: dict[str, Any] = {
            "type": "attempt",
            "index": self.index,
            "name": self.name,
            "kind": self.document.kind,
            "attempt": self.attempts,
            "intended": round(moves + (sent if self.due is None else self.due), 6),
            "sent": round(moves + sent, 6),
            "answered": round(moves + answered, 6),
            "status": 0 if reply is None else reply.status,
            "outcome": outcome,
            "connection": self._sender.number,
        }
        if outcome in (RETRY, AMBIGUOUS):
            self._sender.repeated[record["status"]] += 1
        if reply is not None:
            flow_schema = exact_header(reply.head, b"X-Kubernetes-Pf-Flowschema-Uid: ")
            if flow_schema:
                record["flow_schema"] = flow_schema
                record["priority_level"] = exact_header(reply.head, b"X-Kubernetes-Pf-Prioritylevel-Uid: ")
        if uid:
            record["uid"] = uid
        if reason or message:
            record["reason"], record["message"] = reason, message[:1000]
        settings.write(_files.encode(record))


def identity(body: bytes) -> tuple[str | None, str | None]:
    """Return uid and resourceVersion of a created object's metadata."""
    if b'"PartialObjectMetadata"' in body[:60]:
        # The server writes this kind's fields in a fixed order, owners after these two: no need to parse it all.
        uid, version = exact_text(body, b'"uid":"'), exact_text(body, b'"resourceVersion":"')
        if uid and version:
            return uid, version
    metadata = json.loads(body).get("metadata") or {}
    return metadata.get("uid"), metadata.get("resourceVersion")


def exact_text(body: bytes, before: bytes) -> str | None:
    """Return the text between ``before`` and the next quotation mark."""
    start = body.find(before)
    if start < 0:
        return None
    start += len(before)
    return body[start : body.index(b'"', start)].decode()


def exact_header(head: bytes, before: bytes) -> str | None:
    """Return a header's value, given its name as Go's servers write it."""
    start = head.find(before)
    if start < 0:
        return None
    end = head.find(b"\r\n", start)
    return head[start + len(before) : end if end >= 0 else len(head)].decode("latin-1")
