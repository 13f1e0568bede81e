# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One connection that creates objects: it interprets each reply, retries, and writes a ledger row per attempt.

An object is created by POST under a planned name. Whatever went wrong before, a GET therefore answers whether it
exists and belongs to this load: 409 and our labels mean that an earlier attempt was successful. The few fields that the
ledger needs are cut out of the reply without decoding it, because this is done for each object.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_errors import (
    reply_reason_and_message,
    unauthorized_error,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_server_access import ApiServerAccess
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import (
    METADATA,
    ApiReply,
    ApiServerConnection,
    Broken,
    add_credentials_to_head,
    format_request_head,
    request_bytes,
)

from ..plan.rendered_workload_templates import WorkloadDocument
from .creation_ledger import ALREADY_MINE, AMBIGUOUS, CREATED, REFUSED, RETRY


def parse_uid_and_version(body: bytes) -> tuple[str | None, str | None]:
    """Return uid and resourceVersion of a created object's metadata."""
    if b'"PartialObjectMetadata"' in body[:60]:
        # The server writes the fields of this kind in a fixed order, these two before the owner references.
        uid, version = cut_quoted_text(body, b'"uid":"'), cut_quoted_text(body, b'"resourceVersion":"')
        if uid and version:
            return uid, version
    metadata = parse_json(body).get("metadata") or {}
    return metadata.get("uid"), metadata.get("resourceVersion")


def parse_priority_headers(head: bytes) -> dict[str, str | None]:
    """Return flow schema and priority level (UIDs) from the response headers; empty if the server sends none."""
    schema = response_header_value(head, b"X-Kubernetes-Pf-Flowschema-Uid: ")
    if not schema:
        return {}
    return {
        "flow_schema": schema,
        "priority_level": response_header_value(head, b"X-Kubernetes-Pf-Prioritylevel-Uid: "),
    }


def cut_quoted_text(body: bytes, before: bytes) -> str | None:
    """Return the text between ``before`` and the next quotation mark, None if ``before`` is missing."""
    start = body.find(before)
    if start < 0:
        return None
    start += len(before)
    return body[start : body.index(b'"', start)].decode()


def response_header_value(head: bytes, before: bytes) -> str | None:
    """Return a header's value; ``before`` is its name as Go's servers write it. None if it is missing."""
    start = head.find(before)
    if start < 0:
        return None
    end = head.find(b"\r\n", start)
    return head[start + len(before) : end if end >= 0 else len(head)].decode("latin-1")


FIELD_MANAGER = "perfscale-seatrial"
#: Statuses after which the same request may succeed later.
TRANSIENT = frozenset((408, 425, 429, 500, 502, 503, 504))
#: How long (seconds) a 403 of the authorizer counts as transient: an API server that has just started answers 403
#: until it has read the RBAC objects.
RBAC_STARTUP_TIME = 30.0
#: How long (seconds) a 403 or 404 in a namespace of the workload's own counts as transient: its controllers fill it.
NAMESPACE_STARTUP_TIME = 15.0
#: First and longest pause before another attempt, seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class LoadHaltedError(Exception):
    """The load is being stopped. The object in flight stays as it is; a resumed run finds it."""


@dataclass
class PermissionState:
    """Permissions as all senders see them: time.monotonic() of the first 403 since the last success."""

    refused_since: float | None = None

    def may_pass(self, message: str) -> bool:
        """Return whether a 403 with this message may be transient: of the authorizer, within RBAC_STARTUP_TIME."""
        if 'User "' not in message or " cannot " not in message:
            return False  # from an admission plugin, such as a quota
        now = time.monotonic()
        if self.refused_since is None:
            self.refused_since = now
        return now - self.refused_since < RBAC_STARTUP_TIME


@dataclass(frozen=True)
class SenderSettings:
    """Settings that all senders share. Times in seconds."""

    access: ApiServerAccess
    clock: MonotonicWallClock
    write: Callable[[str], None]  # appends a row, as JSON, to the ledger
    request_timeout: float
    retry_time: float
    run: str
    point: str
    permissions: PermissionState = field(default_factory=PermissionState)


@dataclass(slots=True)
class CreateAttempt:
    """One object being created. due, first_sent: time.monotonic(); shown: authorization of the last attempt."""

    document: WorkloadDocument
    index: int
    due: float | None
    name: str
    attempts: int = 0
    first_sent: float = 0.0
    shown: str = ""
    refreshed: int = 0
    began: float = field(default_factory=time.monotonic)

    def awaits_namespace(self, status: int) -> bool:
        """Return whether an error may come from this workload's new namespace, which has no service account yet."""
        own = self.document.several_namespaces and status in (403, 404)
        return own and time.monotonic() - self.began < NAMESPACE_STARTUP_TIME


class ObjectSender:
    """Creates objects over its own connection, one after another."""

    def __init__(self, settings: SenderSettings, number: int, halt: threading.Event) -> None:
        self.settings = settings
        self.halt = halt
        self.connection = ApiServerConnection(settings.access, settings.request_timeout)
        self.attempt: CreateAttempt | None = None  # the last one
        self.repeats_by_status: Counter[int] = (
            Counter()
        )  # HTTP status (0: no reply) -> attempts that had to be repeated
        self._number = number
        self._wall = settings.clock.wall - settings.clock.monotonic  # from time.monotonic() to the point's clock
        self._heads: dict[str, tuple[str, bytes]] = {}  # by path: the authorization shown, everything up to the length
        self._flows: dict[tuple[str | None, ...], str] = {}  # flow schema and priority level -> their JSON
        self._jitter = random.Random(number)

    def warm(self) -> None:
        """Open the connection ahead of the first object, so that its lateness contains no TLS handshake."""
        self.connection.exchange(
            request_bytes(self.settings.access, format_request_head(self.settings.access, "GET", "/version"))
        )

    def create(self, document: WorkloadDocument, index: int, due: float | None) -> tuple[str, float]:
        """Create one object. ``due``: intended time (time.monotonic()), None for as soon as possible.

        Returns the final outcome (created, already_mine, refused) and when the first attempt was sent
        (time.monotonic()). Raises LoadHaltedError, and AccessError if the server did not reply for ``retry_time``.
        """
        body = document.body(index)
        attempt = self.attempt = CreateAttempt(document, index, due, document.name(index))
        while True:
            outcome = self._send(attempt, body, time.monotonic() - attempt.began > self.settings.retry_time)
            if outcome in (CREATED, ALREADY_MINE, REFUSED):
                return outcome, attempt.first_sent

    def _send(self, attempt: CreateAttempt, body: bytes, last: bool) -> str:
        """Send the object once; return the outcome, after the pause that another attempt needs."""
        before = time.monotonic()
        try:
            head = self._head(attempt)
            before = time.monotonic()
            reply = self.connection.exchange(b"%b%d\r\n\r\n%b" % (head, len(body), body))
        except Broken as error:
            self._write(attempt, AMBIGUOUS if error.sent else RETRY, None, message=str(error), sent=before)
            self._pause_or_give_up(attempt, error, last)
            return self._resolve(attempt, last) if error.sent else RETRY
        if reply.status == 201:
            self.settings.permissions.refused_since = None
            self._write_created(attempt, reply)
            return CREATED
        if reply.status == 409:
            return self._resolve(attempt, last, reply)
        return self._refusal(attempt, reply, last)

    def _refusal(self, attempt: CreateAttempt, reply: ApiReply, last: bool) -> str:
        reason, message = reply_reason_and_message(reply)
        if reply.status == 401:
            # Refresh once: credentials that were just read and are refused too will not become valid.
            try:
                renewed = attempt.refreshed == 0 and self.settings.access.refresh(attempt.shown)
            except Broken as error:  # the program gives no credentials now
                self._write(attempt, RETRY, reply, reason, str(error))
                self._pause_or_give_up(attempt, error, last)
                return RETRY
            attempt.refreshed += 1
            self._write(attempt, RETRY, reply, reason, message)
            if not renewed:
                raise unauthorized_error(self.settings.access)
            self.connection.close()  # a client certificate is sent when a connection is opened
            return RETRY
        transient = (
            reply.status in TRANSIENT
            or (reply.status == 403 and self.settings.permissions.may_pass(message))
            or attempt.awaits_namespace(reply.status)
        )
        if not transient or last:
            self._write(attempt, REFUSED, reply, reason, message)
            return REFUSED
        self._write(attempt, RETRY, reply, reason, message)
        self._pause(attempt.attempts, reply.header("retry-after"))
        return RETRY

    def _resolve(self, attempt: CreateAttempt, last: bool, conflict: ApiReply | None = None) -> str:
        """Look up whether the object exists and is ours: after 409 (``conflict``), or after no reply."""
        path = f"{attempt.document.path(attempt.index)}/{attempt.name}"
        head = format_request_head(self.settings.access, "GET", path, METADATA)
        before = time.monotonic()
        try:
            reply = self.connection.exchange(request_bytes(self.settings.access, head))
        except Broken as error:
            if conflict is None:
                self._write(attempt, AMBIGUOUS, None, message=str(error), sent=before)
            else:
                self._write(attempt, RETRY, conflict, message=str(error))
            self._pause_or_give_up(attempt, error, last)
            return RETRY
        if reply.status == 200:
            metadata = parse_json(reply.body)["metadata"]
            labels = metadata.get("labels") or {}
            ours = run_labels.workload_labels(self.settings.run, self.settings.point, attempt.index)
            if all(labels.get(key) == value for key, value in ours.items()):
                # No resourceVersion: that of this reply may be of a later write and would mislead the revision clock.
                self._write(attempt, ALREADY_MINE, conflict or reply, uid=metadata.get("uid"))
                return ALREADY_MINE
            message = f"{path} exists and does not carry this load's labels"
            self._write(attempt, REFUSED, conflict or reply, "AlreadyExists", message)
            return REFUSED
        if reply.status == 404:
            if conflict is not None:
                # It existed a moment ago: it is being deleted. The next POST shows.
                self._write(attempt, RETRY if not last else REFUSED, conflict, *reply_reason_and_message(conflict))
                if last:
                    return REFUSED
                self._pause(attempt.attempts)
            return RETRY
        return self._refusal(attempt, reply, last)

    def _pause_or_give_up(self, attempt: CreateAttempt, error: Broken, last: bool) -> None:
        """Wait before another attempt. Raises AccessError after the last one, and LoadHaltedError."""
        if last:
            raise AccessError(
                f"{error}; tried for {self.settings.retry_time:g} s. Run the same again: what is missing will be"
                " created"
            ) from error
        self._pause(attempt.attempts)

    def _pause(self, attempts: int, retry_after: str | None = None) -> None:
        """Wait exponentially longer with jitter, in addition to what the server asks for. Raises LoadHaltedError."""
        pause = min(_FIRST_PAUSE * 2 ** (attempts - 1), _LONGEST_PAUSE)
        pause *= self._jitter.uniform(0.5, 1.0)
        if asked := formats.parse_whole_number(retry_after):
            # The jitter on top keeps the senders from returning all at once.
            pause = min(asked, self.settings.retry_time) + pause
        if self.halt.wait(pause):
            raise LoadHaltedError

    def _head(self, attempt: CreateAttempt) -> bytes:
        """Return the part of the request that all objects of a kind share; cached while the credentials last."""
        access, path = self.settings.access, attempt.document.path(attempt.index)
        attempt.shown = access.authorization
        shown, head = self._heads.get(path, ("", b""))
        if not head or shown != attempt.shown:
            head = add_credentials_to_head(
                access, format_request_head(access, "POST", f"{path}?fieldManager={FIELD_MANAGER}", METADATA)
            )
            if not attempt.document.several_namespaces:
                self._heads[path] = (attempt.shown, head)
        return head

    def _write_created(self, attempt: CreateAttempt, reply: ApiReply) -> None:
        """Write the row of a created object: _write() for the most frequent case, at a third of its cost."""
        uid, version = parse_uid_and_version(reply.body)
        wall = self._wall
        intended = reply.sent if attempt.due is None else attempt.due
        attempt.attempts += 1
        if attempt.attempts == 1:
            attempt.first_sent = reply.sent
        levels = parse_priority_headers(reply.head)
        key = tuple(levels.values())
        flow = self._flows.get(key)
        if flow is None:
            flow = self._flows[key] = f",{files.encode(levels)[1:-1]}" if levels else ""
        self.settings.write(
            f'{{"type":"attempt","index":{attempt.index},"name":"{attempt.name}","kind":"{attempt.document.kind}",'
            f'"attempt":{attempt.attempts},"intended":{wall + intended:.6f},'
            f'"sent":{wall + reply.sent:.6f},"answered":{wall + reply.answered:.6f},"status":{reply.status},'
            f'"outcome":"{CREATED}","connection":{self._number},"resource_version":{files.encode(version)},'
            f'"uid":{files.encode(uid)}{flow}}}'
        )

    def _write(
        self,
        attempt: CreateAttempt,
        outcome: str,
        reply: ApiReply | None,
        reason: str = "",
        message: str = "",
        uid: str | None = None,
        sent: float = 0.0,
    ) -> None:
        """Write the row of one attempt. ``sent``: time.monotonic(), for an attempt without a reply."""
        if reply is not None:
            sent = reply.sent
        answered = reply.answered if reply is not None else time.monotonic()
        attempt.attempts += 1
        if attempt.attempts == 1:
            attempt.first_sent = sent
        row: dict[str, Any] = {
            "type": "attempt",
            "index": attempt.index,
            "name": attempt.name,
            "kind": attempt.document.kind,
            "attempt": attempt.attempts,
            "intended": round(self._wall + (sent if attempt.due is None else attempt.due), 6),
            "sent": round(self._wall + sent, 6),
            "answered": round(self._wall + answered, 6),
            "status": 0 if reply is None else reply.status,
            "outcome": outcome,
            "connection": self._number,
        }
        if outcome in (RETRY, AMBIGUOUS):
            self.repeats_by_status[row["status"]] += 1
        if reply is not None:
            row.update(parse_priority_headers(reply.head))
        if uid:
            row["uid"] = uid
        if reason or message:
            row["reason"], row["message"] = reason, message[:1000]
        self.settings.write(files.encode(row))
