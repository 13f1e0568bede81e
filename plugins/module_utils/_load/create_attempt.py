# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One object on its way to the API server, and what the ledger is told of each attempt to create it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._clock import Clock
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import Reply
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.ledger import AMBIGUOUS, CREATED, RETRY
from ansible_collections.perfscale.seatrial.plugins.module_utils._plan.template_renderer import Document


class AttemptRows:
    """What the rows of one connection have in common. ``write`` gets them as JSON."""

    def __init__(self, write: Callable[[str], None], clock: Clock, number: int) -> None:
        self.write = write
        self.number = number
        self.moves = clock.wall - clock.monotonic  # from time.monotonic() to the point's clock
        self.repeated: Counter[int] = Counter()  # HTTP status (0: none came) -> attempts that had to be repeated
        self._flows: dict[tuple[str | None, ...], str] = {}

    def flow(self, head: bytes) -> str:
        """Return what a ledger's row says of the flow schema that an answer names, as JSON after a comma."""
        found = priority(head)
        key = tuple(found.values())
        said = self._flows.get(key)
        if said is None:
            said = self._flows[key] = f",{_files.encode(found)[1:-1]}" if found else ""
        return said


class CreateAttempt:
    """One object on its way, and the rows that the ledger gets about it."""

    __slots__ = ("document", "index", "name", "due", "attempts", "first_sent", "shown", "refreshed", "_rows")

    def __init__(self, document: Document, index: int, due: float | None, rows: AttemptRows) -> None:
        self.document = document
        self.index = index
        self.name = document.name(index)
        self.due = due
        self.attempts = 0
        self.first_sent = 0.0
        self.shown = ""  # the authorization of the last attempt
        self.refreshed = 0
        self._rows = rows

    def created(self, reply: Reply) -> None:
        """Write that the object was created: row() for what happens most, written out since it costs a third so."""
        uid, version = identity(reply.body)
        rows = self._rows
        moves = rows.moves
        self.attempts += 1
        if self.attempts == 1:
            self.first_sent = reply.sent
        rows.write(
            f'{{"type":"attempt","index":{self.index},"name":"{self.name}","kind":"{self.document.kind}",'
            f'"attempt":{self.attempts},"intended":{moves + (reply.sent if self.due is None else self.due):.6f},'
            f'"sent":{moves + reply.sent:.6f},"answered":{moves + reply.answered:.6f},"status":{reply.status},'
            f'"outcome":"{CREATED}","connection":{rows.number},"resource_version":{_files.encode(version)},'
            f'"uid":{_files.encode(uid)}{rows.flow(reply.head)}}}'
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
        moves = self._rows.moves
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
            "connection": self._rows.number,
        }
        if outcome in (RETRY, AMBIGUOUS):
            self._rows.repeated[record["status"]] += 1
        if reply is not None:
            record.update(priority(reply.head))
        if uid:
            record["uid"] = uid
        if reason or message:
            record["reason"], record["message"] = reason, message[:1000]
        self._rows.write(_files.encode(record))


def identity(body: bytes) -> tuple[str | None, str | None]:
    """Return uid and resourceVersion of a created object's metadata."""
    if b'"PartialObjectMetadata"' in body[:60]:
        # The server writes this kind's fields in a fixed order, owners after these two: no need to parse it all.
        uid, version = exact_text(body, b'"uid":"'), exact_text(body, b'"resourceVersion":"')
        if uid and version:
            return uid, version
    metadata = json.loads(body).get("metadata") or {}
    return metadata.get("uid"), metadata.get("resourceVersion")


def priority(head: bytes) -> dict[str, str | None]:
    """Return by which rules an answer says that its request was let through; nothing of a server that does not say."""
    schema = exact_header(head, b"X-Kubernetes-Pf-Flowschema-Uid: ")
    if not schema:
        return {}
    return {"flow_schema": schema, "priority_level": exact_header(head, b"X-Kubernetes-Pf-Prioritylevel-Uid: ")}


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
